"""The content of a delete block from columns: the other side of `log.deletes.read_deletes` (facts 5.4)."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidArgument, UnsupportedTable
from headwater.hudi.avro_schema import AvroType, Primitive, Union
from headwater.hudi.log.deletes import CONTENT_VERSION, Wrapper
from headwater.hudi.write.avro_bytes import RecordBytes, data_of, offsets_of, spread, varints
from headwater.hudi.write.avro_encoder import encode_column

_HEAD = struct.Struct(">ii")
_TEXT = Union((Primitive("null"), Primitive("string")))
# No ordering value is an int 0, as Hudi writes it.
_NONE = bytes([2 * Wrapper.INT, 0])


def encode_deletes(deletes: pa.Table) -> bytes:
    """The content of a delete block.

    Columns: `key`, `partition`, and `ordering` where deletes have an ordering value; a struct of several makes an array
    of values (from version 9 on).

    >>> encode_deletes(pa.table({"key": ["8"], "partition": ["city=la"]})).hex(" ", -4)
    '00000003 00000010 02020238 020e6369 74793d6c 61040000'
    """
    missing = {"key", "partition"} - set(deletes.column_names)
    if missing:
        raise InvalidArgument(f"deletes have the columns key and partition; these lack {', '.join(sorted(missing))}")
    made = RecordBytes(deletes.num_rows)
    for name in ("key", "partition"):
        encode_column(_TEXT, _whole(deletes.column(name)), made, name)
    if "ordering" in deletes.column_names:
        _ordering(_whole(deletes.column("ordering")), made)
    else:
        made.same(_NONE)
    records = made.join()
    bounds = offsets_of(records)
    body = bytes(data_of(records)[bounds[0] : bounds[-1]])
    if deletes.num_rows:
        count = RecordBytes(1)
        for values, lengths in varints(np.array([deletes.num_rows])):
            count.cell(values, lengths)
        body = bytes(count.join()[0].as_py()) + body
    return _HEAD.pack(CONTENT_VERSION, len(body) + 1) + body + b"\0"


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks()


def _ordering(values: pa.Array, made: RecordBytes) -> None:
    if pa.types.is_null(values.type):
        made.same(_NONE)
    elif not values.null_count:
        _wrapped(values, made)
    else:
        valid = np.asarray(values.is_valid())
        nothing = int.from_bytes(_NONE, "little")
        made.cell(np.full(len(values), nothing, np.uint64), np.where(valid, 0, len(_NONE)))
        inner = RecordBytes(int(valid.sum()))
        _wrapped(values.drop_null(), inner)
        made.run(spread(inner.join(), valid))


def _wrapped(values: pa.Array, made: RecordBytes) -> None:
    if not pa.types.is_struct(values.type):
        wrapper, node, plain = _wrapper(values)
        made.same(bytes([2 * wrapper]))
        encode_column(node, plain, made, "ordering")
        return
    # An array of wrappers: the branch of the union around it, the number of items, the items, a zero.
    made.same(bytes([2 * Wrapper.ARRAY, 2, 2 * values.type.num_fields]))
    for child in values.flatten():
        if pa.types.is_date(child.type):
            raise UnsupportedTable(
                "deletes with a date among several ordering fields are not written; order by another"
            )
        wrapper, node, plain = _wrapper(child)
        branches = [Primitive("null")] * int(wrapper)
        encode_column(Union((*branches, node)), plain, made, "ordering")
    made.same(b"\0")


def _wrapper(values: pa.Array) -> tuple[Wrapper, AvroType, pa.Array]:
    """The branch that Hudi puts values of a type into, with the values as that branch has them."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return Wrapper.BOOLEAN, Primitive("boolean"), values
    if pa.types.is_int64(kind) or pa.types.is_uint32(kind):
        return Wrapper.LONG, Primitive("long"), values
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return Wrapper.INT, Primitive("int"), values
    if pa.types.is_float32(kind):
        return Wrapper.FLOAT, Primitive("float"), values
    if pa.types.is_float64(kind):
        return Wrapper.DOUBLE, Primitive("double"), values
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Wrapper.STRING, Primitive("string"), values
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return Wrapper.BYTES, Primitive("bytes"), values
    if pa.types.is_date32(kind):
        return Wrapper.DATE, Primitive("int", "date"), values
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        # Hudi takes a timestamp's number as it stands in the record.
        return Wrapper.LONG, Primitive("long"), values.cast(pa.int64())
    if pa.types.is_decimal(kind):
        return Wrapper.DECIMAL, Primitive("bytes", "decimal", 30, 15), _decimals(values)
    raise UnsupportedTable(f"deletes with an ordering value of type {kind} are not written; order by another column")


def _decimals(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.decimal128(30, 15))
    except pa.ArrowInvalid as error:
        raise UnsupportedTable(
            f"an ordering value of type {values.type} does not fit the decimal(30,15) of delete blocks: {error}"
        ) from error
