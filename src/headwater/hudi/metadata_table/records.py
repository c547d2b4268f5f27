"""The records of the metadata table: from Avro bytes to typed values (format facts 8.3)."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import fastavro

from headwater.errors import CorruptFile, UnsupportedTable
from headwater.hudi.index.bloom import BloomFilter
from headwater.hudi.index.hashing import split_secondary_key
from headwater.hudi.metadata_table.values import StatValue, stat_value

ALL_PARTITIONS_KEY = "__all_partitions__"

ALL_PARTITIONS, FILES, COLUMN_STATS, BLOOM_FILTERS, RECORD_INDEX, PARTITION_STATS, SECONDARY_INDEX = range(1, 8)

FILE_ID_UUID, FILE_ID_RAW = 0, 1


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A record that was deleted: it has a key and no content."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a partition, or a partition of the table (size 0); `deleted` marks one that is gone."""

    size: int
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class FileListing:
    """The files of a partition by name, or under `__all_partitions__` the partitions of the table by path.

    >>> FileListing({"a.parquet": ListedFile(10), "b.parquet": ListedFile(0, deleted=True)}).present
    {'a.parquet': 10}
    """

    files: Mapping[str, ListedFile]

    @property
    def present(self) -> dict[str, int]:
        """Names and sizes of what is not deleted."""
        return {name: file.size for name, file in self.files.items() if not file.deleted}


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """What is known of a column in a file (`file` is its name) or in a partition (`file` is its path).

    `min` and `max` are None when no value is known, as in a column of nulls only. Records before table version 9 do not
    say what a number means: there, timestamps are plain ints and only the table's schema tells their unit.
    `value_type` is the ordinal of Hudi's value type, None in such records.
    """

    file: str
    column: str
    min: StatValue
    max: StatValue
    value_count: int | None
    null_count: int | None
    total_size: int | None
    total_uncompressed_size: int | None
    is_deleted: bool = False
    is_tight: bool = False
    value_type: int | None = None


@dataclass(frozen=True, slots=True)
class BloomEntry:
    """The bloom filter of a base file, still serialized."""

    kind: str
    instant: str
    text: bytes
    is_deleted: bool = False

    def open(self, name: str = "bloom filter") -> BloomFilter:
        """The filter itself."""
        return BloomFilter.parse(self.text, self.kind, name=name)


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """Where a record lives; `position` is its row in the base file where that was recorded."""

    partition: str
    file_id: str
    instant_millis: int
    position: int | None = None


@dataclass(frozen=True, slots=True)
class SecondaryEntry:
    """A record that has a value in an indexed column."""

    value: str | None
    record_key: str
    is_deleted: bool = False


Payload: TypeAlias = FileListing | ColumnStats | BloomEntry | RecordLocation | SecondaryEntry | Tombstone


def decode_records(
    entries: Iterable[tuple[bytes, bytes]], schema: str | bytes, *, name: str = "metadata table"
) -> Iterator[tuple[str, Payload]]:
    """Keys and typed values of metadata records, from the entries of an HFile and their writer's schema.

    The schema is the file info's `schema` of a base file or the header's of a log block. An empty value is a
    `Tombstone`. One record after the other: for whole partitions of column statistics or of the record index see
    `metadata_table.columns`.
    """
    parsed = parsed_schema(schema, name)
    for key, value in entries:
        text = _text(key, name)
        yield text, decode_record(text, value, parsed, name=name)


def decode_raw_stats(
    entries: Iterable[tuple[bytes, bytes]], schema: str | bytes, *, name: str = "metadata table"
) -> Iterator[tuple[str, ColumnStats | None, str | None, str | None, Any, Any]]:
    """Statistics with their bounds unconverted: key, statistics, wrapper, type information, lower and upper bound."""
    parsed = parsed_schema(schema, name)
    for key, value in entries:
        text = _text(key, name)
        record = raw_record(text, value, parsed, name)
        stats = record.get("ColumnStatsMetadata")
        payload = decode_record(text, value, parsed, name=name)
        if stats is None or not isinstance(payload, ColumnStats):
            yield text, None, None, None, None, None
            continue
        (low_wrapper, low), (high_wrapper, high) = _unwrapped(stats["minValue"]), _unwrapped(stats["maxValue"])
        yield (
            text,
            payload,
            low_wrapper or high_wrapper,
            (stats.get("valueType") or {}).get("additionalInfo"),
            low,
            high,
        )


def decode_record(key: str, value: bytes | memoryview, parsed: Any, *, name: str = "metadata table") -> Payload:
    """One record; `parsed` is what `parsed_schema` gives for its writer's schema."""
    if not len(value):
        return Tombstone()
    record = raw_record(key, value, parsed, name)
    try:
        payload = _payload(key, record)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        if isinstance(error, CorruptFile):
            raise CorruptFile(f"{name}: {error}") from error
        raise _undecodable(key, name, error) from error
    if payload is None:
        raise UnsupportedTable(
            f"{name}: the record {key!r} has type {record.get('type')!r}; this reader knows 1 to 7: upgrade headwater, "
            "or open the table with metadata=False"
        )
    return payload


def raw_record(key: str, value: bytes | memoryview, parsed: Any, name: str = "metadata table") -> Mapping[str, Any]:
    """A record with all that stands in it; a union of several types is a pair of name and value."""
    try:
        record: Any = fastavro.schemaless_reader(
            io.BytesIO(value), parsed, None, return_record_name=True, return_record_name_override=True
        )
    except Exception as error:  # fastavro raises whatever the bytes lead it to
        raise _undecodable(key, name, error) from error
    if not isinstance(record, dict):
        raise CorruptFile(f"{name}: the schema of {key!r} is not that of a record; rebuild the metadata table")
    return record


def _undecodable(key: str, name: str, error: Exception) -> CorruptFile:
    return CorruptFile(
        f"{name}: the record {key!r} does not decode with its schema ({repr(error)[:200]}); rebuild the metadata table"
    )


@lru_cache(maxsize=32)
def parsed_schema(schema: str | bytes, name: str = "metadata table") -> Any:
    """A schema made ready for `decode_record`, without logical types: their meaning is given by Hudi's value types."""
    try:
        return fastavro.parse_schema(_without_logical_types(json.loads(schema)))
    except Exception as error:  # as above
        raise CorruptFile(f"{name}: its Avro schema cannot be read ({error!r}); rebuild the metadata table") from error


def record_file_id(high: int, low: int, index: int) -> str:
    """The file id that the record index keeps as two longs and a number.

    >>> record_file_id(0x7615F7701C61323C, -0x403B2A5C83C0D1C7, 0)
    '7615f770-1c61-323c-bfc4-d5a37c3f2e39-0'
    """
    name = str(uuid.UUID(int=(high & (1 << 64) - 1) << 64 | low & (1 << 64) - 1))
    return name if index < 0 else f"{name}-{index}"


def _payload(key: str, record: Mapping[str, Any]) -> Payload | None:
    kind = record["type"]
    if kind in (ALL_PARTITIONS, FILES):
        listed = record.get("filesystemMetadata") or {}
        return FileListing({name: ListedFile(info["size"], info["isDeleted"]) for name, info in listed.items()})
    if kind in (COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS):
        # An expression index keeps both kinds under its own record types: what is there decides.
        if record.get("ColumnStatsMetadata") is not None:
            return column_stats(record["ColumnStatsMetadata"])
        if record.get("BloomFilterMetadata") is not None:
            bloom = record["BloomFilterMetadata"]
            return BloomEntry(bloom["type"], bloom["timestamp"], bloom["bloomFilter"], bloom["isDeleted"])
        return Tombstone()
    if kind == RECORD_INDEX:
        found = record.get("recordIndexMetadata")
        return Tombstone() if found is None else _record_location(found)
    if kind == SECONDARY_INDEX:
        value, record_key = split_secondary_key(key)
        found = record.get("SecondaryIndexMetadata") or {}
        return SecondaryEntry(value, record_key, bool(found.get("isDeleted", False)))
    return None


def column_stats(stats: Mapping[str, Any]) -> ColumnStats:
    """The statistics of a raw record."""
    kind = stats.get("valueType") or {}
    ordinal, info = kind.get("typeOrdinal"), kind.get("additionalInfo")
    return ColumnStats(
        file=stats["fileName"] or "",
        column=stats.get("columnName") or "",
        min=_wrapped(stats["minValue"], ordinal, info, upper=False),
        max=_wrapped(stats["maxValue"], ordinal, info, upper=True),
        value_count=stats["valueCount"],
        null_count=stats["nullCount"],
        total_size=stats["totalSize"],
        total_uncompressed_size=stats["totalUncompressedSize"],
        is_deleted=stats["isDeleted"],
        is_tight=stats.get("isTightBound", False),
        value_type=ordinal,
    )


def _wrapped(
    union: tuple[str, Mapping[str, Any]] | None, ordinal: int | None, info: str | None, *, upper: bool
) -> StatValue:
    if union is None:
        return None
    wrapper, content = union
    wrapper = wrapper.rsplit(".", 1)[-1]
    if wrapper == "ArrayWrapper":
        return tuple(_wrapped(part, ordinal, info, upper=upper) for part in content["wrappedValues"] or ())
    return stat_value(content["value"], wrapper, ordinal, info, upper=upper)


def _unwrapped(union: tuple[str, Mapping[str, Any]] | None) -> tuple[str | None, Any]:
    if union is None or "value" not in union[1]:
        return None, None
    return union[0].rsplit(".", 1)[-1], union[1]["value"]


def _record_location(found: Mapping[str, Any]) -> RecordLocation:
    file_id = found.get("fileId") or ""
    if found.get("fileIdEncoding", FILE_ID_UUID) == FILE_ID_UUID:
        file_id = record_file_id(found["fileIdHighBits"], found["fileIdLowBits"], found["fileIndex"])
    partition = found["partitionName"] if "partitionName" in found else found["partition"]
    return RecordLocation(partition or "", file_id, found["instantTime"], found.get("position"))


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _without_logical_types(value) for key, value in schema.items() if key != "logicalType"}
    if isinstance(schema, list):
        return [_without_logical_types(part) for part in schema]
    return schema


def _text(key: bytes, name: str) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise CorruptFile(f"{name}: the key {key!r} is not UTF-8; rebuild the metadata table") from error
