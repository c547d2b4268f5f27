"""From columns as they come off the wire (see `avro_wire`) to the Arrow types of a schema, column-wise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptFile
from headwater.hudi import avro_wire
from headwater.hudi.avro_schema import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union, widened_kind


def to_column(node: AvroType, dtype: pa.DataType, wire: pa.Array | None, length: int) -> pa.Array:
    """One column (or part of one) of the type that its node asks for.

    `wire` is None where the values take no bytes, or are all null.
    """
    if isinstance(node, Union):
        return _union(node, dtype, wire, length)
    if wire is None:
        return _of_no_bytes(node, dtype, length)
    match node:
        case Primitive(logical="decimal") | Fixed(logical="decimal"):
            return _decimals(wire, dtype)
        case Primitive(kind="string" | "bytes"):
            return wire.cast(dtype)
        case Primitive():
            return wire if node.logical is None else wire.view(dtype)
        case Fixed():
            return _fixed(wire, dtype)
        case Enum():
            return pa.array(node.symbols, pa.string()).take(wire)
        case Record():
            return _struct([field.type for field in node.fields], "f", dtype, wire)
        case Array():
            return _list(dtype, wire, to_column(node.items, dtype.value_type, *_values(wire)))
        case Map():
            entries = _values(wire)[0]
            keys, values = _parts(entries, ["k", "v"])
            items = to_column(node.values, dtype.item_type, values, len(entries))
            fields = [dtype.key_field, dtype.item_field]
            # Apache Avro's Java reader keeps the last value of a key that is there twice; so rare that we keep both.
            return _list(dtype, wire, pa.StructArray.from_arrays([keys.cast(pa.string()), items], fields=fields))
    raise AssertionError(node)


def _of_no_bytes(node: AvroType, dtype: pa.DataType, length: int) -> pa.Array:
    if isinstance(node, Fixed):
        return pa.array([b""] * length, dtype)
    if isinstance(node, Record):
        children = [
            to_column(field.type, dtype.field(index).type, None, length) for index, field in enumerate(node.fields)
        ]
        return _struct_array(children, dtype, None, length)
    return pa.nulls(length, dtype)


def _union(node: Union, dtype: pa.DataType, wire: pa.Array | None, length: int) -> pa.Array:
    members = node.members
    if wire is None or not members:
        return pa.nulls(length, dtype)
    if not avro_wire.is_general_union(node):
        if len(node.branches) == 1:
            (wire,) = _parts(wire, ["m"])
        return to_column(members[0], dtype, wire, length)
    parts = _parts(wire, [f"m{index}" for index in range(len(members))])
    if len(members) == 1:
        made = to_column(members[0], dtype, parts[0], length)
        return pc.if_else(wire.is_valid(), made, pa.scalar(None, dtype))
    if widened_kind(node) is not None:
        return pc.coalesce(*(part.cast(dtype) for part in parts))
    children = [
        to_column(member, dtype.field(index).type, parts[index], length) for index, member in enumerate(members)
    ]
    return _struct_array(children, dtype, wire, length)


def _struct(nodes: Sequence[AvroType], prefix: str, dtype: pa.DataType, wire: pa.Array) -> pa.Array:
    parts = _parts(wire, [f"{prefix}{index}" for index in range(len(nodes))])
    children = [
        to_column(node, dtype.field(index).type, part, len(wire))
        for index, (node, part) in enumerate(zip(nodes, parts, strict=True))
    ]
    return _struct_array(children, dtype, wire, len(wire))


def _struct_array(children: list[pa.Array], dtype: pa.DataType, wire: pa.Array | None, length: int) -> pa.Array:
    validity = _validity(wire) if wire is not None else None
    return pa.Array.from_buffers(dtype, length, [validity], children=children)


def _parts(wire: pa.Array, names: Sequence[str]) -> list[Any]:
    """The named children of a struct, None for those that are not on the wire."""
    at = {wire.type.field(index).name: index for index in range(wire.type.num_fields)}
    children = wire.flatten()
    return [children[at[name]] if name in at else None for name in names]


def _values(wire: pa.Array) -> tuple[pa.Array, int]:
    """The items of all lists, as they lie in memory from the first list's first to the last list's last."""
    offsets = wire.offsets
    first, last = (offsets[0].as_py(), offsets[-1].as_py()) if len(wire) else (0, 0)
    return wire.values.slice(first, last - first), last - first


def _list(dtype: pa.DataType, wire: pa.Array, values: pa.Array) -> pa.Array:
    offsets = np.asarray(wire.offsets)
    shifted = (offsets - offsets[0]).astype(np.int32) if len(offsets) else np.zeros(1, np.int32)
    return pa.Array.from_buffers(dtype, len(wire), [_validity(wire), pa.py_buffer(shifted)], children=[values])


def _validity(wire: pa.Array) -> pa.Buffer | None:
    """The null bitmap, from bit 0 on."""
    if not wire.null_count:
        return None
    if wire.offset == 0:
        return wire.buffers()[0]
    return wire.is_valid().buffers()[1]


def _fixed(wire: pa.Array, dtype: pa.DataType) -> pa.Array:
    values, filled = _dense_binary(wire, dtype.byte_width)
    data = np.zeros((len(wire), dtype.byte_width), np.uint8)
    data[filled] = values
    return pa.Array.from_buffers(dtype, len(wire), [_validity(wire), pa.py_buffer(data)])


def _dense_binary(wire: pa.Array, width: int) -> tuple[np.ndarray[Any, Any], Any]:
    """The bytes of the values that are not null as rows of `width` bytes, and where those rows belong."""
    data, offsets = _binary_buffers(wire)
    lengths = np.diff(offsets)
    filled = np.asarray(wire.is_valid()) if wire.null_count else slice(None)
    if (lengths[filled] != width).any():
        raise CorruptFile(f"a value is not {width} bytes long")
    # Null values have no bytes, but nothing says that an array could not hold some: take what the offsets tell.
    if offsets[-1] - offsets[0] == width * len(lengths[filled]):
        return data[offsets[0] : offsets[-1]].reshape(-1, width), filled
    return data[offsets[:-1][filled][:, None] + np.arange(width)], filled


def _binary_buffers(wire: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    wide = wire.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    bounds = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), bounds


def _decimals(wire: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Big-endian two's complement of any length to Arrow's little-endian of 16 or 32 bytes."""
    if pa.types.is_decimal(wire.type):
        return wire if wire.type.equals(dtype) else wire.cast(dtype)
    width = dtype.byte_width
    data, offsets = _binary_buffers(wire)
    lengths = np.diff(offsets)
    made = np.zeros((len(wire), width), np.uint8)
    for length in np.unique(lengths):
        if length == 0:
            continue
        rows = np.flatnonzero(lengths == length)
        big_endian = data[offsets[rows][:, None] + np.arange(length)]
        sign = np.where(big_endian[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
        if length > width:
            surplus, big_endian = big_endian[:, : length - width], big_endian[:, length - width :]
            if (surplus != sign).any() or ((big_endian[:, :1] ^ sign) & 0x80).any():
                raise CorruptFile(f"a decimal of {length} bytes does not fit {dtype}")
        filled = np.repeat(sign, width, axis=1)
        filled[:, : big_endian.shape[1]] = big_endian[:, ::-1]
        made[rows] = filled
    return pa.Array.from_buffers(dtype, len(wire), [_validity(wire), pa.py_buffer(made)])
