"""A slice of the metadata table as one sorted stream of records: its base file with its logs folded in.

Records of the base file that no log names are passed on as bytes, block by block; only what the logs hold is in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.metadata_table import records
from headwater.hudi.metadata_table.columns import record_locations
from headwater.hudi.metadata_table.encoding import encode, place_values
from headwater.hudi.metadata_table.layout import Entries
from headwater.hudi.metadata_table.reader import RECORD_INDEX
from headwater.hudi.metadata_table.record_schema import record_schema, same_bytes

_Columns: TypeAlias = tuple[pa.Array, pa.Array, "str | bytes"]
"""Keys, values and the schema of the values."""
_Versions: TypeAlias = dict[bytes, list[tuple[bytes, "str | bytes"]]]


def folded(partition: str, base: Iterable[_Columns], logs: Sequence[_Columns], schema: str) -> Iterator[Entries]:
    """The live records of a slice in the order of their keys, as bytes of `schema`; what is gone is left out."""
    by_place = partition == RECORD_INDEX
    fold: _Replacing | _Merging = _Replacing(_newest(logs, schema)) if by_place else _Merging(logs, schema)
    for keys, values, written_as in base:
        yield from fold.block(keys.cast(pa.binary()), recoded(partition, keys, values, written_as, schema))
    yield from fold.rest()


def widest(schemas: Iterable[str | bytes], version: int) -> str:
    """The schema that can hold what all of these hold: releases add fields, and tables have writers of several."""
    own = record_schema(version)
    found: list[tuple[int, str]] = [(version, own)]
    for schema in schemas:
        text = schema.decode() if isinstance(schema, bytes) else schema
        known = next((v for v in (9, 8, 6) if same_bytes(text, record_schema(v))), None)
        found.append((len(text), text) if known is None else (known, record_schema(known)))
    return max(found, key=lambda item: item[0])[1]


def recoded(partition: str, keys: pa.Array, values: pa.Array, written_as: str | bytes, schema: str) -> pa.Array:
    """Values in the bytes of another schema; records that are gone stay empty."""
    values = values.cast(pa.binary())
    if not written_as or same_bytes(written_as, schema):
        return values
    if partition == RECORD_INDEX:
        version = next((v for v in (9, 8, 6) if same_bytes(schema, record_schema(v))), None)
        if version is not None:
            return place_values(record_locations(keys, values, written_as), version)
    parsed = records.parsed_schema(written_as)
    found = [value and encode(records.raw_record("", value, parsed), schema) for value in values.to_pylist()]
    return pa.array(found, pa.binary())


def _newest(logs: Sequence[_Columns], schema: str) -> Entries:
    """The last record of each key, sorted by key."""
    import polars as pl

    keys = [part[0].cast(pa.large_binary()) for part in logs]
    values = [recoded(RECORD_INDEX, *part, schema).cast(pa.large_binary()) for part in logs]
    if not keys:
        return Entries(pa.array([], pa.binary()), pa.array([], pa.binary()))
    frame = pl.DataFrame({"key": pl.Series(pa.concat_arrays(keys))}).with_row_index("row")
    rows = frame.unique("key", keep="last").sort("key").get_column("row").to_numpy()
    chosen = pa.array(rows)
    return Entries(
        pa.concat_arrays(keys).take(chosen).cast(pa.binary()), pa.concat_arrays(values).take(chosen).cast(pa.binary())
    )


class _Replacing:
    """A newer record takes the place of an older one."""

    def __init__(self, changed: Entries) -> None:
        self._changed = changed
        self._at = 0

    def block(self, keys: pa.Array, values: pa.Array) -> Iterator[Entries]:
        if not len(keys):
            return
        stop = bisect_right(_Keys(self._changed.keys), keys[len(keys) - 1].as_py(), self._at)
        new = Entries(
            self._changed.keys.slice(self._at, stop - self._at), self._changed.values.slice(self._at, stop - self._at)
        )
        self._at = stop
        if not len(new):
            yield Entries(keys, values)
            return
        old = pc.invert(pc.is_in(keys, value_set=new.keys))
        yield _ordered(
            pa.concat_arrays([keys.filter(old), new.keys]), pa.concat_arrays([values.filter(old), new.values])
        )

    def rest(self) -> Iterator[Entries]:
        yield _live(Entries(self._changed.keys.slice(self._at), self._changed.values.slice(self._at)))


class _Merging:
    """A newer record is put together with the older one."""

    def __init__(self, logs: Sequence[_Columns], schema: str) -> None:
        self._schema = schema
        self._versions: _Versions = {}
        for keys, values, written_as in logs:
            pairs = zip(keys.cast(pa.binary()).to_pylist(), values.to_pylist(), strict=True)
            for key, value in pairs:
                self._versions.setdefault(key, []).append((value, written_as))
        self._keys = sorted(self._versions)
        self._at = 0

    def block(self, keys: pa.Array, values: pa.Array) -> Iterator[Entries]:
        if not len(keys):
            return
        stop = bisect_right(self._keys, keys[len(keys) - 1].as_py(), self._at)
        touched = self._keys[self._at : stop]
        self._at = stop
        if not touched:
            yield Entries(keys, values)
            return
        same = pc.is_in(keys, value_set=pa.array(touched, pa.binary()))
        found = dict(zip(keys.filter(same).to_pylist(), values.filter(same).to_pylist(), strict=True))
        merged = {key: self._fold(found.get(key), self._versions[key]) for key in touched}
        rest = pc.invert(same)
        yield _ordered(
            pa.concat_arrays([keys.filter(rest), pa.array(list(merged), pa.binary())]),
            pa.concat_arrays([values.filter(rest), pa.array(list(merged.values()), pa.binary())]),
        )

    def rest(self) -> Iterator[Entries]:
        left = {key: self._fold(None, self._versions[key]) for key in self._keys[self._at :]}
        yield _live(Entries(pa.array(list(left), pa.binary()), pa.array(list(left.values()), pa.binary())))

    def _fold(self, base: bytes | None, versions: Sequence[tuple[bytes, str | bytes]]) -> bytes:
        whole: Mapping[str, Any] | None = None
        if base:
            whole = records.raw_record("", base, records.parsed_schema(self._schema))
        for value, written_as in versions:
            newer = records.raw_record("", value, records.parsed_schema(written_as)) if value else None
            whole = merged_record(whole, newer)
        whole = None if whole is None else _without_the_gone(whole)
        return b"" if whole is None else encode(whole, self._schema)


def merged_record(older: Mapping[str, Any] | None, newer: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The record after a newer one came, as `merging.merge` has it, with all that stands in them; None is gone."""
    if newer is None or _is_gone(newer):
        return None
    if older is None:
        return newer
    listed = newer.get("filesystemMetadata")
    if listed is not None:
        files = dict(older.get("filesystemMetadata") or {})
        for name, file in listed.items():
            known = files.get(name)
            if known is None or (known["isDeleted"] and file["isDeleted"]):
                files[name] = file
            elif file["isDeleted"]:
                del files[name]
            else:
                files[name] = {"size": max(known["size"], file["size"]), "isDeleted": False}
        return {**newer, "filesystemMetadata": files}
    if newer.get("ColumnStatsMetadata") is not None and older.get("ColumnStatsMetadata") is not None:
        return {**newer, "ColumnStatsMetadata": _merged_statistics(older, newer)}
    return newer


def _merged_statistics(older: Mapping[str, Any], newer: Mapping[str, Any]) -> Mapping[str, Any]:
    before, after = older["ColumnStatsMetadata"], newer["ColumnStatsMetadata"]
    if after.get("isTightBound"):
        return after  # type: ignore[no-any-return]
    from headwater.hudi.metadata_table.merging import merge_column_stats

    one, other = records.column_stats(before), records.column_stats(after)
    whole = merge_column_stats(one, other)
    bounds = {}
    for side, side_name in (("min", "minValue"), ("max", "maxValue")):
        value = getattr(whole, side)
        kept = after if _same(value, getattr(other, side)) else before
        bounds[side_name] = None if value is None else kept[side_name]
    counts = {
        "valueCount": whole.value_count,
        "nullCount": whole.null_count,
        "totalSize": whole.total_size,
        "totalUncompressedSize": whole.total_uncompressed_size,
    }
    return {**after, **bounds, **counts}


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or (one != one and other != other)


def _is_gone(record: Mapping[str, Any]) -> bool:
    for name in ("ColumnStatsMetadata", "BloomFilterMetadata", "SecondaryIndexMetadata"):
        content = record.get(name)
        if content is not None:
            return bool(content["isDeleted"])
    return False


def _without_the_gone(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Below the base file there is nothing that a file's removal could apply to."""
    listed = record.get("filesystemMetadata")
    if listed is None:
        return record
    return {**record, "filesystemMetadata": {name: f for name, f in listed.items() if not f["isDeleted"]}}


def _ordered(keys: pa.Array, values: pa.Array) -> Entries:
    order = pc.sort_indices(keys)
    return _live(Entries(keys.take(order), values.take(order)))


def _live(entries: Entries) -> Entries:
    there = pc.greater(pc.binary_length(entries.values), 0)
    return Entries(entries.keys.filter(there), entries.values.filter(there))


class _Keys(Sequence[bytes]):
    """An Arrow array for `bisect`, which looks at a few of its values only."""

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, index: Any) -> Any:
        return self._keys[index].as_py()
