"""Columns of an older schema as columns of a newer one: added, moved, renamed and promoted, nested too (facts 14).

Promotions give what Hudi gives: float → double goes through text, so that 0.1 stays 0.1, and numbers become text as
Java prints them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import UnsupportedTable
from headwater.hudi.java_text import java_text

Renames = Mapping[tuple[str, ...], str | None]
"""Path of a target field → the name of its source at the same level; None where no source may be taken."""


def is_mislabelled(stored: pa.DataType, read: pa.DataType) -> bool:
    """Whether numbers that a file calls microseconds count milliseconds.

    Releases of Hudi wrote such files for columns of milliseconds. Since 1.1 it reads them by the table's label.
    """
    if not pa.types.is_timestamp(stored) or not pa.types.is_timestamp(read):
        return False
    return (stored.unit, read.unit) == ("us", "ms") and stored.tz is not None and read.tz is not None


def conform(table: pa.Table, target: pa.Schema, renames: Renames | None = None) -> pa.Table:
    """A file's rows with exactly the target's columns and types; columns that it lacks are null.

    >>> old = pa.table({"a": pa.array([1], pa.int32())})
    >>> conform(old, pa.schema([("b", pa.string()), ("a", pa.int64())])).to_pylist()
    [{'b': None, 'a': 1}]
    """
    if table.schema.equals(target):
        return table
    if not len(target):
        return table.select([])  # made of no arrays, it would have no rows
    renames = renames or {}
    columns = []
    for field in target:
        source = renames.get((field.name,), field.name)
        index = table.schema.get_field_index(source) if source is not None else -1
        if index < 0:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            columns.append(convert(table.column(index), field.type, (field.name,), renames, stored=True))
    return pa.Table.from_arrays(columns, schema=pa.schema([f.with_nullable(True) for f in target]))


def convert(
    column: pa.ChunkedArray,
    target: pa.DataType,
    path: tuple[str, ...] = (),
    renames: Renames | None = None,
    *,
    stored: bool = False,
) -> pa.ChunkedArray:
    """One column in another type. What comes out of a file is `stored`: its label may be wrong."""
    if column.type.equals(target):
        return column
    chunks = [_convert(chunk, target, path, renames or {}, stored) for chunk in column.chunks]
    return pa.chunked_array(chunks, target)


def needs_conversion(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether `convert` would do anything but rename list elements."""
    return not source.equals(target)


def _convert(array: pa.Array, target: pa.DataType, path: tuple[str, ...], renames: Renames, stored: bool) -> pa.Array:
    source = array.type
    if isinstance(array, pa.ExtensionArray):
        array, source = array.storage, array.type.storage_type
    if source.equals(target) and not any(key[: len(path)] == path and len(key) > len(path) for key in renames):
        return array
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if pa.types.is_dictionary(source):
        return _convert(array.dictionary_decode(), target, path, renames, stored)
    if pa.types.is_struct(target) and pa.types.is_struct(source):
        return _convert_struct(array, target, path, renames, stored)
    if _is_list(target) and _is_list(source):
        values = _convert(_list_values(array), target.value_type, (*path, "element"), renames, stored)
        return pa.ListArray.from_arrays(_offsets(array), values, type=target, mask=_null_mask(array))
    if pa.types.is_map(target) and (pa.types.is_map(source) or _is_list(source)):
        return _convert_map(array, target, path, renames, stored)
    if stored and is_mislabelled(source, target):
        return array.cast(pa.int64()).view(target)
    return _convert_value(array, target, path)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)) and not pa.types.is_map(kind)


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets that start at zero, whatever part of a longer array this is."""
    offsets = np.asarray(array.offsets)
    return pa.array((offsets - offsets[0]).astype(np.int32) if len(offsets) else np.zeros(1, np.int32))


def _list_values(array: pa.Array) -> pa.Array:
    offsets = np.asarray(array.offsets)
    return array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0])) if len(offsets) else array.values


def _convert_struct(
    array: pa.StructArray, target: pa.DataType, path: tuple[str, ...], renames: Renames, stored: bool
) -> pa.Array:
    children = []
    for field in target:
        here = (*path, field.name)
        source = renames.get(here, field.name)
        index = array.type.get_field_index(source) if source is not None else -1
        if index < 0:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(_convert(array.field(index), field.type, here, renames, stored))
    if not children:
        return pa.nulls(len(array), target) if array.null_count else pa.array([{}] * len(array), target)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=_null_mask(array))


def _convert_map(
    array: pa.Array, target: pa.DataType, path: tuple[str, ...], renames: Renames, stored: bool
) -> pa.Array:
    entries = _list_values(array)
    keys, items = (entries.field(0), entries.field(1))
    keys = _convert(keys, target.key_type, (*path, "key"), renames, stored)
    items = _convert(items, target.item_type, (*path, "value"), renames, stored)
    offsets = _offsets(array)
    if array.null_count:
        # MapArray takes nulls as null offsets
        offsets = pa.array(np.asarray(offsets), mask=np.append(np.asarray(array.is_null()), False))
    return pa.MapArray.from_arrays(offsets, keys, items, type=target)


def _convert_value(array: pa.Array, target: pa.DataType, path: tuple[str, ...]) -> pa.Array:
    source = array.type
    try:
        if _is_text(target) and not _is_text(source) and not _is_bytes(source):
            return java_text(array).cast(target)
        if pa.types.is_float64(target) and pa.types.is_float32(source):
            return array.cast(pa.string()).cast(pa.float64())
        if pa.types.is_floating(target) and pa.types.is_decimal(source):
            return array.cast(pa.float64()).cast(target)
        if pa.types.is_timestamp(target) and pa.types.is_timestamp(source):
            return _convert_timestamp(array, target)
        if pa.types.is_decimal(target) and pa.types.is_floating(source):
            return _text_to_decimal(array.cast(pa.string()), target)
        if pa.types.is_decimal(target) and pa.types.is_decimal(source):
            return array.cast(target, safe=False)
        return array.cast(target, safe=not (pa.types.is_floating(target) and pa.types.is_integer(source)))
    except pa.ArrowException as error:
        raise UnsupportedTable(
            f"column {'.'.join(path)}: stored as {source}, which cannot be read as {target} ({error}); "
            "rewrite the column with a type change that Hudi allows"
        ) from error


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _convert_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Another unit or zone: the stored number counts from the epoch in both, so the zone is a label only."""
    naive = array.cast(pa.int64()).view(pa.timestamp(array.type.unit))
    scaled = naive.cast(pa.timestamp(target.unit), safe=False)
    return scaled.cast(pa.int64()).view(target)


def _text_to_decimal(text: pa.Array, target: pa.DataType) -> pa.Array:
    rounded = pc.round(text.cast(pa.decimal256(76, 38)), ndigits=target.scale, round_mode="half_towards_infinity")
    return rounded.cast(target, safe=False)
