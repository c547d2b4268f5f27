"""What a commit changes in the metadata table: the records of each of its partitions, made from the files written."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.hudi.index import hashing
from headwater.hudi.metadata_table.encoding import bloom_record, encode, listing_record, statistics_record
from headwater.hudi.metadata_table.layout import Entries
from headwater.hudi.metadata_table.merging import merge_column_stats
from headwater.hudi.metadata_table.reader import MetadataTable
from headwater.hudi.metadata_table.record_schema import record_schema
from headwater.hudi.metadata_table.records import ALL_PARTITIONS_KEY, ColumnStats
from headwater.hudi.metadata_table.statistics import deleted_content, kept_columns, statistics_content
from headwater.hudi.write.model import ColumnRange, WrittenFile

_BLOOM_KIND = "DYNAMIC_V0"
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Changes:
    """The files that an action wrote, those that it deleted, and the file groups that it replaced, by partition."""

    instant: str
    written: Sequence[WrittenFile]
    replaced: Mapping[str, Sequence[str]]
    deleted: Mapping[str, Sequence[str]]
    schema: pa.Schema
    """The table's columns as of this action."""

    @property
    def partitions(self) -> list[str]:
        """The partitions of the data table that get files."""
        return sorted({file.partition for file in self.written})

    def listing(self, version: int, partitions: Sequence[str] = ()) -> Entries:
        """For `files`: what came and what went, and the partitions that this touched; `partitions` are further ones."""
        by_partition: dict[str, dict[str, tuple[int, bool]]] = defaultdict(dict)
        for file in self.written:
            files = by_partition[file.partition or "."]
            files[file.name] = (file.size, False)
            # Hudi's cleaner finds the logs of changes here.
            files.update({path.rpartition("/")[2]: (size, False) for path, size in file.change_files})
        for partition, names in self.deleted.items():
            for name in names:
                by_partition[partition or "."].setdefault(name, (0, True))
        schema = record_schema(version)
        # A partition that loses files was there before: only those that get some are made known.
        known = {partition or ".": (0, False) for partition in (*self.partitions, *partitions)}
        found = {key: encode(listing_record(files), schema) for key, files in by_partition.items() if files}
        found[ALL_PARTITIONS_KEY] = encode(listing_record(known, of_table=True), schema)
        return Entries.of(found)

    def statistics(self, version: int, columns: Sequence[str] | None) -> Entries:
        """For `column_stats`: the ranges of each file's columns; `columns` are those that the index is defined for.

        A file has statistics of all these columns or of none: readers take a column that is left out for nulls.
        """
        schema, found = record_schema(version), {}
        kept = kept_columns(self.schema, columns, version)
        for file in self.written:
            told = _told(file, kept)
            contents = [statistics_content(told[n], kept[n], file.name, version) if n in told else None for n in kept]
            for content in contents if None not in contents else ():
                assert content is not None
                key = hashing.column_stats_key(content["columnName"], file.partition, file.name)
                found[key] = encode(statistics_record(content), schema)
        for partition, files in self.deleted.items():
            for file_name in files:
                for name in kept:
                    key = hashing.column_stats_key(name, partition, file_name)
                    found[key] = encode(statistics_record(deleted_content(name, file_name, version)), schema)
        return Entries.of(found)

    def blooms(self, version: int) -> Entries:
        """For `bloom_filters`: those of the new base files' footers."""
        schema, found = record_schema(version), {}
        for file in self.written:
            if not file.is_log and file.bloom is not None:
                key = hashing.bloom_filter_key(file.partition, file.name)
                found[key] = encode(bloom_record(_BLOOM_KIND, self.instant, file.bloom.encode()), schema)
        for partition, files in self.deleted.items():
            for name in files:
                if not name.startswith("."):
                    record = bloom_record(_BLOOM_KIND, self.instant, b"", deleted=True)
                    found[hashing.bloom_filter_key(partition, name)] = encode(record, schema)
        return Entries.of(found)

    def partition_statistics(
        self, metadata: MetadataTable, columns: Sequence[str] | None, added: Sequence[str] = ()
    ) -> Entries:
        """For `partition_stats`: the ranges of what the partition had, united with those of the new files.

        They hold all values of the partition, and after updates and deletes perhaps more than that. Every partition has
        statistics of every column, be they of no use: readers take what is left out for a partition without rows. So
        those that get no files are told that the columns which this action adds are null in them.
        """
        version, found = metadata.config.version, {}
        schema = record_schema(version)
        kept = kept_columns(self.schema, columns, version)
        old = metadata.partition_stats(list(kept), self.partitions)
        united: dict[tuple[str, str], ColumnRange] = {}
        for partition in self._with_older_files(metadata):
            for name, kind in kept.items():
                before = old.get((partition, name))
                united[partition, name] = UNKNOWN if before is None else _typed(_range_of(before), kind)
        for partition in metadata.partitions() if added else ():
            if partition not in self.partitions:
                united |= {(partition, name): NULLS for name in added if name in kept}
        for file in self.written:
            told = _told(file, kept)
            for name in kept:
                place = file.partition, name
                column = told.get(name, UNKNOWN)
                united[place] = column if place not in united else united_range(united[place], column)
        for (partition, name), column in united.items():
            named = replace(column, column=name)
            content = statistics_content(named, kept[name], partition, version, of_partition=True)
            assert content is not None
            key = hashing.partition_stats_key(name, partition)
            found[key] = encode(statistics_record(content, of_partition=True), schema)
        return Entries.of(found)

    def _with_older_files(self, metadata: MetadataTable) -> set[str]:
        """The partitions that have files which this action does not replace."""
        new = {file.path for file in self.written}
        found: set[str] = set()
        for partition, files in metadata.files_of(self.partitions).items():
            replaced = set(self.replaced.get(partition, ()))
            for file in files:
                owner = file.name.lstrip(".").split("_", 1)[0]
                path = f"{partition}/{file.name}" if partition else file.name
                if path not in new and owner not in replaced:
                    found.add(partition)
                    break
        return found


UNKNOWN = ColumnRange("", None, None, null_count=1, value_count=2)
"""Of a column of which nothing is known: it has a null and a value."""


NULLS = ColumnRange("", None, None, null_count=1, value_count=1)
"""Of a column that has nulls and nothing else."""


def _told(file: WrittenFile, kept: Mapping[str, pa.DataType]) -> dict[str, ColumnRange]:
    """The ranges of a file's columns; a log of deletes alone has no values."""
    if file.is_log and not file.ranges and file.rows == file.deleted:
        return {name: ColumnRange(name, None, None, 0, 0) for name in kept}
    return {column.column: column for column in file.ranges}


def united_range(older: ColumnRange, newer: ColumnRange) -> ColumnRange:
    """The range of both; without bounds where the two have no common order."""
    for known, other in ((older, newer), (newer, older)):
        if known.minimum is None and known.null_count < known.value_count:
            return replace(
                known,
                null_count=known.null_count + other.null_count,
                value_count=known.value_count + other.value_count,
            )
    stats = merge_column_stats(_stats(_typed(older)), _stats(_typed(newer)))
    if stats.value_count is None:
        return replace(UNKNOWN, value_count=older.value_count + newer.value_count + 1)
    return _range_of(stats)


def _typed(column: ColumnRange, kind: pa.DataType | None = None) -> ColumnRange:
    """The range with times in one form: the index of old versions keeps plain numbers, footers may tell a zone."""

    def plain(value: Any) -> Any:
        if kind is not None and pa.types.is_timestamp(kind) and isinstance(value, int):
            return _EPOCH + datetime.timedelta(microseconds=value * (1 if kind.unit == "us" else 1000))
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return value

    return replace(column, minimum=plain(column.minimum), maximum=plain(column.maximum))


def _stats(column: ColumnRange) -> ColumnStats:
    return ColumnStats(
        "",
        column.column,
        column.minimum,
        column.maximum,
        column.value_count,
        column.null_count,
        column.size,
        column.uncompressed_size,
    )


def _range_of(stats: ColumnStats) -> ColumnRange:
    return ColumnRange(
        stats.column,
        stats.min,
        stats.max,
        stats.null_count or 0,
        stats.value_count or 0,
        stats.total_size or 0,
        stats.total_uncompressed_size or 0,
    )
