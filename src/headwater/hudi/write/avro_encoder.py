"""Arrow columns as Avro records, whole columns at a time: the other side of `avro_rows.decode_rows`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidArgument, WrongType
from headwater.hudi import avro_schema
from headwater.hudi.avro_schema import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    SchemaLike,
    Union,
    is_null,
    widened_kind,
)
from headwater.hudi.write.avro_bytes import RecordBytes, binary, data_of, offsets_of, spread, varints
from headwater.hudi.write.avro_leaves import encode_leaf

# So many records at once stay in a processor's cache.
_ROWS_AT_ONCE = 1 << 16


def encode_rows(schema: SchemaLike, rows: pa.Table, *, length_prefixed: bool = False) -> Iterator[pa.Buffer]:
    """The rows as Avro binary, in parts; each record behind its length (a big-endian int) for log blocks.

    Columns are taken by name; those that the schema does not have are left out.

    >>> schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": ["null", "long"]}]}
    >>> b"".join(map(bytes, encode_rows(schema, pa.table({"id": [1, None]})))).hex()
    '020200'
    """
    for records in encode_records(schema, rows, length_prefixed=length_prefixed):
        bounds = offsets_of(records)
        yield pa.py_buffer(data_of(records)).slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


def encode_records(
    schema: SchemaLike, rows: pa.Table, *, length_prefixed: bool = False
) -> Iterator[pa.LargeBinaryArray]:
    """The rows as Avro binary, one value for each, in arrays of bounded length: the values of an HFile, say.

    >>> schema = {"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]}
    >>> [array.to_pylist() for array in encode_records(schema, pa.table({"s": ["a", "bc"]}))]
    [[b'\\x02a', b'\\x04bc']]
    """
    record = avro_schema.parse(schema)
    missing = [field.name for field in record.fields if field.name not in rows.column_names]
    if missing:
        raise InvalidArgument(f"the rows lack the columns {', '.join(missing)} of the Avro schema {record.name}")
    for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
        part = rows.slice(start, _ROWS_AT_ONCE)
        made = RecordBytes(part.num_rows)
        for field in record.fields:
            encode_column(field.type, _one_array(part.column(field.name)), made, field.name)
        yield made.join(length_prefixed=length_prefixed)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks()


def encode_column(node: AvroType, array: pa.Array, made: RecordBytes, where: str) -> None:
    """Add one column to records; `where` names it in messages."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        if len(array) and len(array.dictionary) == 1 and not array.null_count:
            # The same value in every row is encoded once.
            one = RecordBytes(1)
            encode_column(node, array.dictionary, one, where)
            made.same(one.join()[0].as_py())
            return
        array = array.dictionary_decode()
    if isinstance(node, Union):
        _union(node, array, made, where)
    elif is_null(node):
        pass
    elif array.null_count:
        raise _not_null(array, where)
    else:
        _value(node, array, made, where)


def _not_null(array: pa.Array, where: str) -> InvalidArgument:
    return InvalidArgument(f"column {where!r} may not be null and {array.null_count} of the rows are; fill them")


def _value(node: AvroType, array: pa.Array, made: RecordBytes, where: str) -> None:
    """Add values of which none is null."""
    match node:
        case Primitive() | Fixed() | Enum():
            cells, run = encode_leaf(node, _typed(node, array, where), where)
            for values, lengths in cells:
                made.cell(values, lengths)
            if run is not None:
                made.run(run)
        case Record():
            if not pa.types.is_struct(array.type):
                raise WrongType(f"column {where!r} is {array.type} and its Avro schema says that it is a record")
            children = {array.type.field(index).name: child for index, child in enumerate(array.flatten())}
            for field in node.fields:
                child = children.get(field.name, pa.nulls(len(array)))
                encode_column(field.type, child, made, f"{where}.{field.name}")
        case Array():
            _check(pa.types.is_list(array.type) or pa.types.is_large_list(array.type), array, "an array", where)
            items = RecordBytes(len(values := array.flatten()))
            encode_column(node.items, values, items, f"{where}.element")
            _blocks(np.asarray(pc.list_value_length(array)), items, made)
        case Map():
            _check(pa.types.is_map(array.type), array, "a map", where)
            entries = pa.ListArray.from_arrays(
                array.offsets, pa.StructArray.from_arrays([array.keys, array.items], ["k", "v"])
            )
            entries = entries.flatten()
            items = RecordBytes(len(entries))
            encode_column(Primitive("string"), entries.field(0), items, f"{where}.key")
            encode_column(node.values, entries.field(1), items, f"{where}.value")
            _blocks(np.diff(np.asarray(array.offsets)), items, made)
        case _:
            raise AssertionError(node)


def _check(fits: bool, array: pa.Array, what: str, where: str) -> None:
    if not fits:
        raise WrongType(f"column {where!r} is {array.type} and its Avro schema says that it is {what}")


def _blocks(counts: npt.NDArray[np.int64], items: RecordBytes, made: RecordBytes) -> None:
    """Lists as Avro has them: the number of items, the items, and a zero; a zero alone where there are none."""
    counts = counts.astype(np.int64)
    for values, lengths in varints(counts):
        made.cell(values, lengths)
    joined = items.join()
    ends = np.concatenate(([0], np.cumsum(counts)))
    made.run(binary(data_of(joined), offsets_of(joined)[ends] if len(joined) else np.zeros(len(ends), np.int64)))
    made.cell(np.zeros(len(counts), np.uint64), (counts > 0).astype(np.int64))


def _typed(node: AvroType, array: pa.Array, where: str) -> pa.Array:
    """The array in the Arrow type that the schema says, where it comes in one with the same values."""
    wanted = avro_schema.arrow_type(node, where)
    if array.type.equals(wanted):
        return array
    try:
        if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type) and wanted.unit == array.type.unit:
            return array.cast(pa.int64()).view(wanted)
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise WrongType(f"column {where!r} is {array.type} and its Avro schema says {wanted}: {error}") from error


def _union(node: Union, array: pa.Array, made: RecordBytes, where: str) -> None:
    nulls = next((index for index, branch in enumerate(node.branches) if is_null(branch)), None)
    if array.null_count and nulls is None:
        raise _not_null(array, where)
    null_branch = 2 * (nulls or 0)
    members = [(2 * index, branch) for index, branch in enumerate(node.branches) if not is_null(branch)]
    if len(members) > 1 and (wide := widened_kind(node)) is not None:
        # Read as the wider of two numbers, written as that.
        members = [(branch, member) for branch, member in members if member == Primitive(wide)]
    if len(members) > 1:
        _several(members, null_branch, array, made, where)
        return
    valid = np.asarray(array.is_valid()) if array.null_count else None
    if not members or (valid is not None and not valid.any()):
        made.same(bytes([null_branch]))
        return
    ((branch, member),) = members
    if valid is None:
        made.same(bytes([branch]))
        _value(member, array, made, where)
    elif isinstance(member, Primitive | Fixed | Enum):
        _nullable_leaf(member, array, valid, (branch, null_branch), made, where)
    else:
        made.cell(np.where(valid, np.uint64(branch), np.uint64(null_branch)), 1)
        inner = RecordBytes(int(valid.sum()))
        _value(member, array.drop_null(), inner, where)
        made.run(spread(inner.join(), valid))


def _nullable_leaf(
    node: Primitive | Fixed | Enum,
    array: pa.Array,
    valid: npt.NDArray[np.bool_],
    branches: tuple[int, int],
    made: RecordBytes,
    where: str,
) -> None:
    """Values that are encoded with the nulls among them, which then are given no length."""
    head = np.where(valid, np.uint64(branches[0]), np.uint64(branches[1]))
    cells, run = encode_leaf(node, _typed(node, array, where), where)
    masked = [(values, np.where(valid, lengths, 0)) for values, lengths in cells]
    if masked and int(masked[0][1].max()) <= 7:
        values, lengths = masked.pop(0)
        made.cell((values << np.uint64(8)) | head, lengths + 1)
    else:
        made.cell(head, 1)
    for values, lengths in masked:
        made.cell(values, lengths)
    if run is not None:
        made.run(run)


def _several(
    members: list[tuple[int, AvroType]], null_branch: int, array: pa.Array, made: RecordBytes, where: str
) -> None:
    """A union of several types comes as a struct with a field for each, one of which is not null."""
    _check(
        pa.types.is_struct(array.type) and array.type.num_fields == len(members),
        array,
        "a union of several types",
        where,
    )
    valid = [np.asarray(child.is_valid()) for child in array.flatten()]
    if (np.sum(valid, axis=0) > 1).any() or (np.sum(valid, axis=0)[np.asarray(array.is_valid())] == 0).any():
        raise InvalidArgument(f"column {where!r} is a union of several types; each row must have one of them")
    branch = np.full(len(array), null_branch, np.uint64)
    for (number, _), here in zip(members, valid, strict=True):
        branch[here] = number
    made.cell(branch, 1)
    for (_, member), here, child in zip(members, valid, array.flatten(), strict=True):
        inner = RecordBytes(int(here.sum()))
        _value(member, child.drop_null(), inner, where)
        made.run(spread(inner.join(), here))
