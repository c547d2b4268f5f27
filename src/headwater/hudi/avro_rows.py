"""Decoding Avro rows into Arrow columns, without a record ever being a Python object where that can be had.

Polars' reader decodes Avro containers in Rust, only the columns asked for, but knows few types. So it is shown a
*wire schema*: other types with the same bytes on the wire (a map is an array of key-value records, an enum an int, a
timestamp a long, …), and its columns are then turned into those of `avro_schema.to_arrow`. A leading `float` field
swallows the four-byte length that stands before each record of a log block.

Only unions of several types have no such twin. A top-level column that holds one is taken for null in every row, which
is checked; where that fails, fastavro decodes the rows, with the same result.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import fastavro
import numpy as np
import pyarrow as pa

from headwater.errors import ColumnNotFound, CorruptFile, UnsupportedTable
from headwater.hudi import avro_wire
from headwater.hudi.avro_columns import to_column
from headwater.hudi.avro_schema import Record, SchemaLike, Union, is_null, parse, to_arrow

Bytes: TypeAlias = "bytes | bytearray | memoryview | pa.Buffer"

_LENGTH = "length"
_SAMPLE = 4


def decode_rows(
    schema: SchemaLike,
    body: Bytes,
    count: int,
    *,
    columns: Sequence[str] | None = None,
    length_prefixed: bool = False,
    reader: str = "auto",
) -> pa.Table:
    """Decode `count` Avro records that lie one after the other.

    Parameters
    ----------
    schema
        The schema that the records were written with.
    columns
        The top-level columns to decode, in this order; all of them when None.
    length_prefixed
        Whether a big-endian int with its length stands before each record, as in log blocks.
    reader
        `polars` or `fastavro` to insist on one of the two paths, for comparing them.

    >>> schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    >>> decode_rows(schema, bytes([2, 3, 4]), 3).column("id").to_pylist()
    [1, -2, 2]
    """
    plan = _plan(schema if isinstance(schema, str) else _text(schema))
    wanted = _positions(plan, columns)
    view = memoryview(body).cast("B")
    smallest = plan.smallest + (4 if length_prefixed else 0)
    if count < 0 or count * smallest > len(view):
        raise CorruptFile(f"{len(view)} bytes cannot hold the {count} Avro records that they are said to hold")
    fields = [plan.arrow.field(index) for index in wanted]
    if count == 0:
        if len(view) and length_prefixed:
            raise CorruptFile(f"{len(view)} bytes stand where no Avro record should be")
        return pa.schema(fields).empty_table()
    found: list[pa.Array] | None = None
    if reader == "polars" or (reader == "auto" and _may_be_fast(plan, view, count, length_prefixed)):
        found = _by_polars(plan, view, count, wanted, length_prefixed)
    if found is None:
        found = _by_fastavro(plan, view, count, wanted, length_prefixed)
    return pa.Table.from_arrays(found, schema=pa.schema(fields))


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What is derived from a schema once; equal to itself only, so that more can be cached for it."""

    record: Record
    arrow: pa.Schema
    smallest: int
    # Columns that Polars cannot decode: they must be null in every row, or it decodes nothing.
    unions: tuple[int, ...]
    # None where such a column cannot be null.
    wire: str | None


def _text(schema: SchemaLike) -> str | bytes | Record:
    return json.dumps(schema) if isinstance(schema, dict) else schema  # type: ignore[return-value]


@lru_cache(maxsize=128)
def _plan(schema: str | bytes | Record) -> _Plan:
    record = parse(schema)
    arrow = to_arrow(record)
    unions = tuple(i for i, field in enumerate(record.fields) if avro_wire.has_general_union(field.type))
    wire: str | None = None
    if all(_null_index(record, index) is not None for index in unions):
        names = avro_wire.Names()
        fields = [
            {"name": f"c{index}", "type": "long" if index in unions else names.wire(field.type, field.name)}
            for index, field in enumerate(record.fields)
            if avro_wire.smallest(field.type)
        ]
        wire = json.dumps(fields)
    return _Plan(record, arrow, avro_wire.smallest(record), unions, wire)


def _null_index(record: Record, index: int) -> int | None:
    node = record.fields[index].type
    if isinstance(node, Union) and node.nullable:
        return next(at for at, branch in enumerate(node.branches) if is_null(branch))
    return None


def _positions(plan: _Plan, columns: Sequence[str] | None) -> list[int]:
    names = {field.name: index for index, field in enumerate(plan.record.fields)}
    if columns is None:
        return list(range(len(plan.record.fields)))
    for name in columns:
        if name not in names:
            raise ColumnNotFound(f"no column {name!r} in the Avro records; they have: {', '.join(names)}")
    return [names[name] for name in columns]


def _may_be_fast(plan: _Plan, view: memoryview, count: int, length_prefixed: bool) -> bool:
    """Whether Polars is worth a try: where its guess fails it can panic, which is noisy, so look at some rows first."""
    if plan.wire is None:
        return False
    if not plan.unions:
        return True
    sample = _fastavro_rows(plan, view, min(count, _SAMPLE), length_prefixed, whole=False)
    return all(row[f"c{index}"] is None for row in sample for index in plan.unions)


def _by_polars(
    plan: _Plan, view: memoryview, count: int, wanted: Sequence[int], length_prefixed: bool
) -> list[pa.Array] | None:
    """The columns, or None where a union of several types holds a value."""
    import polars as pl  # a third of the time that importing this package took

    if plan.wire is None:
        return None
    fields = json.loads(plan.wire)
    selected = [f"c{index}" for index in dict.fromkeys([*plan.unions, *wanted])]
    if length_prefixed:
        fields.insert(0, {"name": _LENGTH, "type": "float"})
        selected.append(_LENGTH)
    on_wire = {field["name"] for field in fields}
    container = _container(fields, view, count)
    try:
        frame = pl.read_avro(io.BytesIO(container), columns=[name for name in selected if name in on_wire])
    except Exception as error:
        if plan.unions:
            return None
        raise _corrupt(error) from error
    except BaseException as error:
        # A Rust panic is a BaseException: Polars indexes past the end of bytes that lie about their lengths.
        if not isinstance(error, pl.exceptions.PanicException):
            raise
        if plan.unions:
            return None
        raise _corrupt(error) from None
    for index in plan.unions:
        if not (frame.get_column(f"c{index}") == _null_index(plan.record, index)).all():
            return None
    if length_prefixed:
        _check_lengths(frame.get_column(_LENGTH).to_numpy(), len(view))
    found = []
    for index in wanted:
        field = plan.record.fields[index]
        name = f"c{index}"
        array = frame.get_column(name).rechunk().to_arrow() if name in on_wire and index not in plan.unions else None
        found.append(_column(plan, index, array, count, field.name))
    return found


def _check_lengths(column: np.ndarray[Any, np.dtype[np.float32]], size: int) -> None:
    # Where one record was misread, the lengths after it stand at other places and do not add up any more.
    lengths = np.ascontiguousarray(column).view(">i4").astype(np.int64)
    if lengths.min() < 0 or int(lengths.sum()) + 4 * len(lengths) != size:
        raise CorruptFile("the lengths of the Avro records do not add up to the bytes that hold them")


def _container(fields: list[dict[str, Any]], view: memoryview, count: int) -> bytes:
    """An Avro file of one uncompressed block around the bytes."""
    text = json.dumps({"type": "record", "name": "row", "fields": fields}).encode()
    pairs = (b"avro.schema", text, b"avro.codec", b"null")
    head = b"Obj\x01" + avro_wire.varint(2) + b"".join(avro_wire.varint(len(part)) + part for part in pairs) + b"\0"
    sync = bytes(16)
    return b"".join([head, sync, avro_wire.varint(count), avro_wire.varint(len(view)), view, sync])


def _by_fastavro(
    plan: _Plan, view: memoryview, count: int, wanted: Sequence[int], length_prefixed: bool
) -> list[pa.Array]:
    rows = _fastavro_rows(plan, view, count, length_prefixed, whole=True)
    found = []
    for index in wanted:
        field = plan.record.fields[index]
        array = None
        plain, dtype = _fastavro_types(plan)[index]
        if dtype is not None:
            values = [row[f"c{index}"] for row in rows]
            try:
                array = pa.array(values if plain is None else map(plain, values), dtype)
            except (pa.ArrowException, OverflowError) as error:
                raise _corrupt(error) from error
        found.append(_column(plan, index, array, count, field.name))
    return found


def _fastavro_rows(
    plan: _Plan, view: memoryview, count: int, length_prefixed: bool, *, whole: bool
) -> list[dict[str, Any]]:
    found: Any
    try:
        if not whole:
            stream, row = io.BytesIO(view), _fastavro_schema(plan, length_prefixed)["items"]
            return [_fastavro_read(stream, row) for _ in range(count)]
        # One call for all of them: the rows are the items of an array whose count and end we add.
        stream = io.BytesIO(b"".join([avro_wire.varint(count), view, b"\0"]))
        found = _fastavro_read(stream, _fastavro_schema(plan, length_prefixed))
    except Exception as error:
        raise _corrupt(error) from error
    if len(found) != count or stream.tell() != len(stream.getbuffer()):
        raise CorruptFile(f"{len(view)} bytes do not hold {count} Avro records exactly")
    if length_prefixed:
        _check_lengths(np.frombuffer(b"".join(row[_LENGTH] for row in found), np.float32), len(view))
    return list(found)


@lru_cache(maxsize=128)
def _fastavro_types(plan: _Plan) -> list[tuple[Callable[[Any], Any] | None, pa.DataType | None]]:
    """What makes fastavro's values plain and the Arrow type that they then have, None where a column has no bytes."""
    return [
        (avro_wire.plain_values(field.type), avro_wire.arrow_type(field.type))
        if avro_wire.smallest(field.type)
        else (None, None)
        for field in plan.record.fields
    ]


@lru_cache(maxsize=128)
def _fastavro_schema(plan: _Plan, length_prefixed: bool) -> Any:
    names = avro_wire.Names(native_decimals=False)
    fields = [
        {"name": f"c{index}", "type": names.wire(field.type, field.name)}
        for index, field in enumerate(plan.record.fields)
        if avro_wire.smallest(field.type)
    ]
    if length_prefixed:
        fields.insert(0, {"name": _LENGTH, "type": {"type": "fixed", "name": "length", "size": 4}})
    return fastavro.parse_schema({"type": "array", "items": {"type": "record", "name": "row", "fields": fields}})


def _fastavro_read(stream: io.BytesIO, schema: Any) -> Any:
    # The name of a union's branch is given where there is more than one besides null.
    return fastavro.schemaless_reader(stream, schema, None, return_record_name=True, return_record_name_override=True)


def _column(plan: _Plan, index: int, array: pa.Array | None, count: int, name: str) -> pa.Array:
    field = plan.arrow.field(index)
    try:
        return to_column(plan.record.fields[index].type, field.type, array, count)
    except (UnsupportedTable, CorruptFile) as error:
        raise type(error)(f"column {name!r}: {error}") from error
    except pa.ArrowException as error:
        raise CorruptFile(f"column {name!r}: {error}") from error


def _corrupt(error: BaseException) -> CorruptFile:
    return CorruptFile(f"the bytes are not Avro records of their schema: {type(error).__name__}: {str(error)[:200]}")
