"""Column statistics and record locations as Arrow tables, for partitions with millions of records.

`metadata_table.records` gives the same values one by one; it is the fallback for what the columnar decoder does not
follow, and the oracle of its tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptFile
from headwater.hudi.metadata_table import records
from headwater.hudi.metadata_table.avro_arrays import (
    CannotDecodeError,
    Column,
    Datums,
    Numbers,
    Record,
    Texts,
    Union,
    numbers,
    spread,
)

_Longs: TypeAlias = npt.NDArray[np.int64]

LOCATIONS = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        ("partition", pa.string()),
        ("file_id", pa.string()),
        ("instant_millis", pa.int64()),
        ("position", pa.int64()),
    ]
)
"""The columns of `record_locations`."""

STATISTICS = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        ("file", pa.string()),
        ("column", pa.string()),
        ("wrapper", pa.string()),
        ("value_type", pa.int32()),
        ("type_info", pa.string()),
        ("min_long", pa.int64()),
        ("max_long", pa.int64()),
        ("min_double", pa.float64()),
        ("max_double", pa.float64()),
        ("min_bytes", pa.binary()),
        ("max_bytes", pa.binary()),
        ("value_count", pa.int64()),
        ("null_count", pa.int64()),
        ("total_size", pa.int64()),
        ("total_uncompressed_size", pa.int64()),
        ("is_deleted", pa.bool_()),
        ("is_tight", pa.bool_()),
    ]
)
"""The columns of `column_statistics`: bounds unconverted, in the column that fits their wrapper."""


def record_locations(keys: pa.Array, values: pa.Array, schema: str | bytes, *, name: str = "record index") -> pa.Table:
    """The record index's records as a table of `LOCATIONS`; a deleted record has a null `file_id`.

    `keys` and `values` are what `HFileReader.scan_columns` or `get_columns` gives.
    """
    return _by_parts(keys, values, schema, name, LOCATIONS, _locations, _location_rows)


def column_statistics(
    keys: pa.Array, values: pa.Array, schema: str | bytes, *, name: str = "column statistics"
) -> pa.Table:
    """Column or partition statistics as a table of `STATISTICS`; a deleted record has `is_deleted`.

    Bounds of ints, longs, booleans, dates and times are in `min_long` and `max_long`, of floats in `min_double` and
    `max_double`, of strings, bytes and decimals (unscaled) in `min_bytes` and `max_bytes`.
    """
    return _by_parts(keys, values, schema, name, STATISTICS, _statistics, _statistic_rows)


def _by_parts(
    keys: pa.Array, values: pa.Array, schema: str | bytes, name: str, target: pa.Schema, fast: Any, slow: Any
) -> pa.Table:
    """Deleted records aside, the fast way or, where it cannot, the slow one."""
    try:
        keys = keys.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptFile(f"{name}: a key is not UTF-8 ({error}); rebuild the metadata table") from error
    values = values.cast(pa.binary())
    there = pc.greater(pc.binary_length(values), 0)
    some = values.filter(there)
    try:
        columns = fast(Datums(some), schema) if len(some) else {}
    except CannotDecodeError:
        columns = slow(keys.filter(there), some, schema, name)
    rows = np.nonzero(there.to_numpy(zero_copy_only=False))[0]
    arrays = [keys]
    for field in list(target)[1:]:
        found = columns.get(field.name)
        full = pa.nulls(len(values), field.type) if found is None else spread(found.cast(field.type), rows, len(values))
        arrays.append(pc.fill_null(full, field.name == "is_deleted") if pa.types.is_boolean(field.type) else full)
    return pa.Table.from_arrays(arrays, schema=target)


def _locations(datums: Datums, schema: str | bytes) -> dict[str, pa.Array]:
    size = len(datums)
    info = _all_present(datums.decode(schema).fields.get("recordIndexMetadata"), size)
    partition, _ = _optional(datums, info.fields["partitionName"], size, pa.string())
    instant, _ = _optional(datums, info.fields["instantTime"], size, pa.int64())
    high, _ = _optional(datums, info.fields["fileIdHighBits"], size, pa.int64())
    low, _ = _optional(datums, info.fields["fileIdLowBits"], size, pa.int64())
    index, _ = _optional(datums, info.fields["fileIndex"], size, pa.int64())
    encoding = numbers(info.fields["fileIdEncoding"], pa.int64()) if "fileIdEncoding" in info.fields else None
    file_id = _file_ids(high, low, index)
    if encoding is not None and pc.any(pc.not_equal(encoding, records.FILE_ID_UUID)).as_py():
        text, _ = _optional(datums, info.fields["fileId"], size, pa.string())
        file_id = pc.if_else(pc.equal(encoding, records.FILE_ID_UUID), file_id, text)
    columns = {"partition": partition, "file_id": file_id, "instant_millis": instant}
    if "position" in info.fields:
        columns["position"], _ = _optional(datums, info.fields["position"], size, pa.int64())
    return columns


def _file_ids(high: pa.Array, low: pa.Array, index: pa.Array) -> pa.Array:
    """`records.record_file_id` for whole columns."""
    bits = np.stack([pc.fill_null(part, 0).to_numpy(zero_copy_only=False) for part in (high, low)], axis=1)
    raw = bits.astype(">i8").view(np.uint8).reshape(len(bits), 16)
    nibbles = np.stack([raw >> 4, raw & 15], axis=2).reshape(len(bits), 32)
    text = np.full((len(bits), 36), ord("-"), np.uint8)
    text[:, [at for at in range(36) if at not in (8, 13, 18, 23)]] = np.frombuffer(b"0123456789abcdef", np.uint8)[
        nibbles
    ]
    offsets = np.arange(0, 36 * len(bits) + 1, 36, dtype=np.int64)
    names = pa.Array.from_buffers(
        pa.large_string(), len(bits), [None, pa.py_buffer(offsets), pa.py_buffer(text.tobytes())]
    ).cast(pa.string())
    suffixed = pc.binary_join_element_wise(names, pc.fill_null(index, -1).cast(pa.string()), "-")
    return pc.if_else(pc.greater_equal(pc.fill_null(index, -1), 0), suffixed, names)


def _statistics(datums: Datums, schema: str | bytes) -> dict[str, pa.Array]:
    size = len(datums)
    stats = _all_present(datums.decode(schema).fields.get("ColumnStatsMetadata"), size)
    columns = {
        "file": _optional(datums, stats.fields["fileName"], size, pa.string())[0],
        "column": _optional(datums, stats.fields["columnName"], size, pa.string())[0],
        "value_count": _optional(datums, stats.fields["valueCount"], size, pa.int64())[0],
        "null_count": _optional(datums, stats.fields["nullCount"], size, pa.int64())[0],
        "total_size": _optional(datums, stats.fields["totalSize"], size, pa.int64())[0],
        "total_uncompressed_size": _optional(datums, stats.fields["totalUncompressedSize"], size, pa.int64())[0],
        "is_deleted": numbers(stats.fields["isDeleted"], pa.bool_()),
    }
    if "isTightBound" in stats.fields:
        columns["is_tight"] = numbers(stats.fields["isTightBound"], pa.bool_())
    kind = stats.fields.get("valueType")
    if isinstance(kind, Union) and "HoodieValueTypeInfo" in kind.branches:
        rows, info = kind.branches["HoodieValueTypeInfo"]
        assert isinstance(info, Record)
        columns["value_type"] = numbers(info.fields["typeOrdinal"], pa.int32(), rows, size)
        columns["type_info"] = spread(
            _optional(datums, info.fields["additionalInfo"], len(rows), pa.string())[0], rows, size
        )
    low = _bounds(datums, "min", stats.fields["minValue"], size)
    high = _bounds(datums, "max", stats.fields["maxValue"], size)
    return {**columns, **low, **high, "wrapper": pc.coalesce(low["wrapper"], high["wrapper"])}


def _bounds(datums: Datums, side: str, column: Column, size: int) -> dict[str, pa.Array]:
    if not isinstance(column, Union):
        raise CannotDecodeError("the bounds are no union")
    parts: dict[str, pa.Array] = {}
    names: list[str | None] = [None]
    wrapper = np.zeros(size, np.int32)
    for name, (rows, content) in column.branches.items():
        if name == "null":
            continue
        value = content.fields.get("value") if isinstance(content, Record) else None
        if isinstance(value, Texts):
            found, target = datums.texts(value, rows, size, binary=True), "bytes"
        elif isinstance(value, Numbers) and value.values.dtype.kind == "f":
            found, target = numbers(value, pa.float64(), rows, size), "double"
        elif isinstance(value, Numbers):
            found, target = numbers(value, pa.int64(), rows, size), "long"
        else:
            raise CannotDecodeError(f"bounds in a {name}")
        parts[target] = found if target not in parts else pc.coalesce(parts[target], found)
        wrapper[rows] = len(names)
        names.append(name)
    result = {f"{side}_{target}": found for target, found in parts.items()}
    result["wrapper"] = pa.array(names, pa.string()).take(pa.array(wrapper))
    return result


def _all_present(column: Column, size: int) -> Record:
    """The records of a nullable field that no row leaves out."""
    if isinstance(column, Union):
        for rows, content in column.branches.values():
            if isinstance(content, Record) and len(rows) == size:
                return content
    raise CannotDecodeError("some rows hold another kind of record")


def _optional(datums: Datums, column: Column, size: int, kind: pa.DataType) -> tuple[pa.Array, int]:
    """A nullable column as Arrow, and how many rows have a value."""
    if isinstance(column, Union):
        for rows, content in column.branches.values():
            if isinstance(content, Texts):
                return datums.texts(content, rows, size), len(rows)
            if isinstance(content, Numbers):
                return numbers(content, kind, rows, size), len(rows)
    return pa.nulls(size, kind), 0


# The same, record by record


def _location_rows(keys: pa.Array, values: pa.Array, schema: str | bytes, name: str) -> dict[str, pa.Array]:
    rows: list[tuple[Any, ...]] = []
    for _key, payload in records.decode_records(_pairs(keys, values), schema, name=name):
        if isinstance(payload, records.RecordLocation):
            rows.append((payload.partition, payload.file_id, payload.instant_millis, payload.position))
        else:
            rows.append((None, None, None, None))
    return _arrays(rows, LOCATIONS.names[1:], LOCATIONS)


def _statistic_rows(keys: pa.Array, values: pa.Array, schema: str | bytes, name: str) -> dict[str, pa.Array]:
    rows: list[tuple[Any, ...]] = []
    for _key, payload, wrapper, info, low, high in records.decode_raw_stats(_pairs(keys, values), schema, name=name):
        if payload is None:
            rows.append((*(None,) * 15, True, False))
            continue
        rows.append(
            (
                payload.file,
                payload.column,
                wrapper,
                payload.value_type,
                info,
                *(bound for pair in zip(_split(low), _split(high), strict=True) for bound in pair),
                payload.value_count,
                payload.null_count,
                payload.total_size,
                payload.total_uncompressed_size,
                payload.is_deleted,
                payload.is_tight,
            )
        )
    return _arrays(rows, STATISTICS.names[1:], STATISTICS)


def _split(raw: Any) -> tuple[int | None, float | None, bytes | None]:
    if isinstance(raw, (str, bytes)):
        return None, None, raw.encode() if isinstance(raw, str) else raw
    if isinstance(raw, float):
        return None, raw, None
    return (None if raw is None else int(raw)), None, None


def _pairs(keys: pa.Array, values: pa.Array) -> Iterable[tuple[bytes, bytes]]:
    return zip(keys.cast(pa.binary()).to_pylist(), values.to_pylist(), strict=True)


def _arrays(rows: Sequence[tuple[Any, ...]], names: Sequence[str], schema: pa.Schema) -> dict[str, pa.Array]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {name: pa.array(column, schema.field(name).type) for name, column in zip(names, columns, strict=True)}
