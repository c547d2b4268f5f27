"""The codec of a delete block's content: `read_deletes` and `write_deletes` (format facts 5.4).

    version: int = 3   length: int   Avro array of {recordKey, partitionPath, orderingVal}

`orderingVal` is a union of thirteen branches, each a record around one value, so that its bytes are the branch's number
(one byte) and the bare value. Large blocks, whose values all have the same form, are read column-wise with that number
as a column of its own; all others go through fastavro.
"""

from __future__ import annotations

import enum
import io
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import CorruptFile, InvalidArgument, UnsupportedTable
from headwater.hudi import avro_wire
from headwater.hudi.avro_columns import to_column
from headwater.hudi.avro_rows import decode_rows
from headwater.hudi.avro_schema import AvroType, Primitive, arrow_type
from headwater.hudi.log.format import damaged

CONTENT_VERSION = 3
_HEAD = struct.Struct(">ii")
# Below this many records fastavro costs less than a wrong guess would.
_LARGE = 1_000


class Wrapper(enum.IntEnum):
    """The branches of an ordering value; the number is the one in the file."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12


_NODES: dict[Wrapper, Primitive] = {
    Wrapper.NULL: Primitive("null"),
    Wrapper.BOOLEAN: Primitive("boolean"),
    Wrapper.INT: Primitive("int"),
    Wrapper.LONG: Primitive("long"),
    Wrapper.FLOAT: Primitive("float"),
    Wrapper.DOUBLE: Primitive("double"),
    Wrapper.BYTES: Primitive("bytes"),
    Wrapper.STRING: Primitive("string"),
    Wrapper.DATE: Primitive("int", "date"),
    Wrapper.DECIMAL: Primitive("bytes", "decimal", 30, 15),
    Wrapper.TIME_MICROS: Primitive("long", "time-micros"),
    Wrapper.TIMESTAMP_MICROS: Primitive("long", "timestamp-micros"),
}
# Within an array the last branch is another kind of date.
_ITEMS = [*(_NODES[wrapper] for wrapper in Wrapper if wrapper != Wrapper.ARRAY), Primitive("int", "date")]
# All of these are one varint: where the branches differ among them, the columns can be read all the same.
_VARINTS = (Wrapper.INT, Wrapper.LONG, Wrapper.DATE, Wrapper.TIME_MICROS, Wrapper.TIMESTAMP_MICROS)


@dataclass(frozen=True, slots=True)
class OrderingGroup:
    """The deletes of a block whose ordering values are of one type."""

    rows: npt.NDArray[np.int64]
    values: pa.Array


@dataclass(frozen=True, slots=True)
class Deletes:
    """The deletes of one block.

    `is_default` tells which have no ordering value: those win over whatever was before them. The others are in
    `groups`, one for each type of value: most blocks have one at most. Several ordering fields make a struct of
    `field0`, `field1`, ….
    """

    key: pa.Array
    partition: pa.Array
    is_default: pa.BooleanArray
    groups: tuple[OrderingGroup, ...]

    def __len__(self) -> int:
        return len(self.key)

    @property
    def ordering(self) -> pa.Array | None:
        """One value per delete, null for those that have none; None where the values are of several types."""
        if len(self.groups) > 1:
            return None
        if not self.groups:
            return pa.nulls(len(self))
        (group,) = self.groups
        if len(group.rows) == len(self):
            return group.values
        places = np.zeros(len(self), np.int64)
        places[group.rows] = np.arange(len(group.rows))
        return group.values.take(pa.array(places, mask=np.asarray(self.is_default)))


def read_deletes(content: bytes | memoryview, where: str = "delete block") -> Deletes:
    """The deletes in the content of a block; `where` names the block in messages.

    >>> deletes = read_deletes(write_deletes([("a", "p", None), ("b", "p", (Wrapper.LONG, 7))]))
    >>> deletes.key.to_pylist(), deletes.is_default.to_pylist(), deletes.ordering.to_pylist()
    (['a', 'b'], [True, False], [None, 7])
    """
    view = memoryview(content)
    if len(view) < _HEAD.size:
        raise damaged(where, f"its content is {len(view)} bytes, too few for version and length")
    version, length = _HEAD.unpack_from(view)
    if version in (1, 2):
        raise UnsupportedTable(
            f"{where} has version {version}, which only Java can read (Kryo); compact the table with Hudi"
        )
    if version != CONTENT_VERSION:
        raise UnsupportedTable(
            f"{where} has version {version}; this reader knows version {CONTENT_VERSION}: upgrade headwater or compact "
            "the table with Hudi"
        )
    body = view[_HEAD.size :]
    if not 0 < length <= len(body):
        raise damaged(where, f"it says that its deletes are {length} bytes long; there are {len(body)}")
    try:
        body = body[:length]
        return _read_columns(body) or _read_records(body)
    except CorruptFile as error:
        raise damaged(where, str(error)) from error


def _read_columns(body: memoryview) -> Deletes | None:
    """The deletes of a large block, None where they must be read one by one."""
    count, start = _read_long(body)
    if count < _LARGE:
        return None
    wrapper = _first_wrapper(body[start:])
    if wrapper is None or wrapper == Wrapper.ARRAY:
        return None
    node = Primitive("long") if wrapper in _VARINTS else Primitive(_NODES[wrapper].kind)
    fields: list[dict[str, Any]] = [
        {"name": "key", "type": ["null", "string"]},
        {"name": "partition", "type": ["null", "string"]},
        {"name": "branch", "type": {"type": "fixed", "name": "one_byte", "size": 1}},
    ]
    if wrapper != Wrapper.NULL:
        fields.append({"name": "value", "type": node.kind})
    # The zero that ends the array is made the null key of one more record; if that comes out as it was put in, every
    # record before it was read right.
    sentinel = b"\0\xff" + bytes(8 if wrapper == Wrapper.DOUBLE else 4 if wrapper == Wrapper.FLOAT else 1)
    schema = {"type": "record", "name": "delete", "fields": fields}
    try:
        table = decode_rows(schema, b"".join([body[start:], sentinel]), count + 1)
    except CorruptFile:
        return None
    branches = _bytes_of(table.column("branch"))
    if branches[-1] != 0xFF or table.column("key")[-1].is_valid or table.column("partition")[-1].is_valid:
        return None
    table, branches = table.slice(0, count), np.right_shift(branches[:-1], np.uint8(1))
    if not np.isin(branches, _VARINTS if wrapper in _VARINTS else (wrapper,)).all():
        return None
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    groups = []
    default = branches == Wrapper.NULL
    for branch in np.unique(branches):
        if branch == Wrapper.NULL:
            continue
        rows = np.flatnonzero(branches == branch)
        values = columns["value"] if len(rows) == count else columns["value"].take(pa.array(rows))
        if branch == Wrapper.INT:
            zero = np.asarray(values) == 0
            default[rows[zero]] = True
            rows, values = rows[~zero], values.filter(pa.array(~zero))
        if len(rows):
            groups.append(OrderingGroup(rows, _typed(_NODES[Wrapper(branch)], values)))
    return Deletes(columns["key"], columns["partition"], pa.array(default), tuple(groups))


def _typed(node: Primitive, values: pa.Array) -> pa.Array:
    dtype = arrow_type(node, "orderingVal")
    if node.kind == "int":
        # Read as long together with the others.
        try:
            values = values.cast(pa.int32())
        except pa.ArrowInvalid as error:
            raise CorruptFile(f"an ordering value is no int: {error}") from error
    return to_column(node, dtype, values, len(values))


def _bytes_of(column: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    array = column.combine_chunks()
    return np.frombuffer(array.buffers()[1], np.uint8, len(array), array.offset)


def _read_long(body: memoryview) -> tuple[int, int]:
    """A varint at the start, and where it ends."""
    number = 0
    for at, byte in enumerate(body[:10]):
        number |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + 1
    raise CorruptFile("the number of deletes is no number")


def _first_wrapper(records: memoryview) -> Wrapper | None:
    """The branch of the first record, None where its bytes make no sense."""
    try:
        at = 0
        for _ in ("recordKey", "partitionPath"):
            branch, used = _read_long(records[at:])
            at += used
            if branch:
                length, used = _read_long(records[at:])
                at += used + length
        return Wrapper(_read_long(records[at:])[0])
    except (CorruptFile, ValueError):
        return None


def _wrapper_record(name: str, node: Primitive) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": node.kind}]}


def _list_schema() -> Any:
    """The schema of the content, without logical types: the values stay as they are on the wire."""
    plain = ["null", *(_wrapper_record(wrapper.name, _NODES[wrapper]) for wrapper in list(Wrapper)[1:-1])]
    items = ["null", *(wrapper.name for wrapper in list(Wrapper)[1:-1]), _wrapper_record("LOCAL_DATE", _ITEMS[-1])]
    array = {
        "type": "record",
        "name": "ARRAY",
        "fields": [{"name": "wrappedValues", "type": ["null", {"type": "array", "items": items}]}],
    }
    fields = [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": [*plain, array]},
    ]
    return fastavro.parse_schema({"type": "array", "items": {"type": "record", "name": "delete", "fields": fields}})


_SCHEMA = _list_schema()
_ITEM_NAMES = {name: index for index, name in enumerate(["NULL", *(w.name for w in list(Wrapper)[1:-1]), "LOCAL_DATE"])}


def _read_records(body: memoryview) -> Deletes:
    """The same, record by record: two seconds per million."""
    stream = io.BytesIO(body)
    try:
        records: Any = fastavro.schemaless_reader(stream, _SCHEMA, None, return_record_name=True)
    except Exception as error:
        raise CorruptFile(f"its deletes are not readable: {type(error).__name__}: {str(error)[:200]}") from error
    if stream.tell() != len(body):
        raise CorruptFile(f"its deletes end at byte {stream.tell()} of {len(body)}")
    default = np.zeros(len(records), bool)
    rows: dict[tuple[int, ...], list[int]] = {}
    values: dict[tuple[int, ...], list[Any]] = {}
    for row, record in enumerate(records):
        form, value = _form_and_value(record["orderingVal"])
        if form == (Wrapper.NULL,) or (form == (Wrapper.INT,) and value == 0):
            default[row] = True
            continue
        rows.setdefault(form, []).append(row)
        values.setdefault(form, []).append(value)
    try:
        groups = tuple(OrderingGroup(np.array(rows[form]), _group_values(form, values[form])) for form in rows)
    except (pa.ArrowException, OverflowError) as error:
        raise CorruptFile(f"an ordering value is out of range: {error}") from error
    keys = pa.array([record["recordKey"] for record in records], pa.string())
    partitions = pa.array([record["partitionPath"] for record in records], pa.string())
    return Deletes(keys, partitions, pa.array(default), groups)


def _form_and_value(ordering: Any) -> tuple[tuple[int, ...], Any]:
    """The branch with the bare value; for several fields the array's branch and those of its items."""
    if ordering is None:
        return (Wrapper.NULL,), None
    name, record = ordering
    if name != "ARRAY":
        return (Wrapper[name],), record["value"]
    items = record["wrappedValues"]
    if items is None:
        return (Wrapper.NULL,), None
    form = (Wrapper.ARRAY, *(_ITEM_NAMES["NULL" if item is None else item[0]] for item in items))
    return form, [None if item is None else item[1]["value"] for item in items]


def _group_values(form: tuple[int, ...], values: list[Any]) -> pa.Array:
    if form[0] != Wrapper.ARRAY:
        return _array(_NODES[Wrapper(form[0])], values)
    fields = [_array(_ITEMS[branch], [value[at] for value in values]) for at, branch in enumerate(form[1:])]
    if not fields:
        return pa.array([{}] * len(values), pa.struct([]))
    return pa.StructArray.from_arrays(fields, [f"field{index}" for index in range(len(fields))])


def _array(node: AvroType, values: list[Any]) -> pa.Array:
    wire = pa.array(values, avro_wire.arrow_type(node))
    return to_column(node, arrow_type(node, "orderingVal"), wire, len(wire))


def write_deletes(records: Iterable[tuple[str | None, str | None, tuple[Wrapper, Any] | None]]) -> bytes:
    """The content of a delete block; one step per record.

    Each record is key, partition path and ordering value. The ordering value is None for the default (an int 0, as Hudi
    writes it), or a wrapper with the value as on the wire: days, microseconds, the unscaled number of a
    decimal(30,15). For several fields it is `Wrapper.ARRAY` with a list of such pairs.
    """
    encoded = [
        {"recordKey": key, "partitionPath": partition, "orderingVal": _wrap(ordering or (Wrapper.INT, 0))}
        for key, partition, ordering in records
    ]
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, _SCHEMA, encoded)
    return _HEAD.pack(CONTENT_VERSION, stream.tell()) + stream.getvalue()


def _wrap(ordering: tuple[Wrapper, Any] | None) -> Any:
    if ordering is None or ordering[0] == Wrapper.NULL:
        return None
    wrapper, value = ordering
    if wrapper == Wrapper.ARRAY:
        if not isinstance(value, Sequence):
            raise InvalidArgument(f"an ordering value of several fields is a list of pairs, not {value!r}")
        return "ARRAY", {"wrappedValues": [_wrap(item) for item in value]}
    if wrapper == Wrapper.DECIMAL:
        number = int(value)
        value = number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
    return wrapper.name, {"value": value}
