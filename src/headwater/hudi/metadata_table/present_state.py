"""What an index must hold for the files that a table has now: listing, statistics, bloom filters, record places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.base_file import BaseFile, open_base_file
from headwater.hudi.file_names import parse_base_file, parse_log_file
from headwater.hudi.footer_index import BLOOM
from headwater.hudi.index import hashing
from headwater.hudi.metadata_table.changes import Changes, united_range
from headwater.hudi.metadata_table.encoding import encode, statistics_record
from headwater.hudi.metadata_table.layout import Entries
from headwater.hudi.metadata_table.reader import BLOOM_FILTERS, COLUMN_STATS, FILES
from headwater.hudi.metadata_table.record_schema import record_schema
from headwater.hudi.metadata_table.statistics import statistics_content
from headwater.hudi.table import HudiTable
from headwater.hudi.write.model import RECORD_MOVES, ColumnRange, WrittenFile
from headwater.spec.model import FileSlice


def entries(table: HudiTable, index: str, version: int, columns: Sequence[str]) -> Entries:
    """The records of an index; those of the record index, which are many, come from `places`."""
    if index == FILES:
        partitions = table.listing.partitions() if table.timeline.commits else []
        return _changes(table, _listed(table)).listing(version, partitions)
    files = [_described(table, slice_, columns, with_ranges=index != BLOOM_FILTERS) for slice_ in _bases(table)]
    if index == COLUMN_STATS:
        return _changes(table, files).statistics(version, columns)
    if index == BLOOM_FILTERS:
        return _changes(table, files).blooms(version)
    return _partition_statistics(table, files, version)


def count_records(table: HudiTable) -> int:
    """About how many records the table has: those of its base files."""
    return sum(
        open_base_file(table.storage, slice_.base_file.path).num_rows
        for slice_ in _bases(table)
        if slice_.base_file is not None
    )


def places(table: HudiTable) -> Iterator[pa.RecordBatch]:
    """Every record key and where it is, as `RECORD_MOVES`, slice by slice."""
    reader = table.reader(table.schema)
    for slice_ in _slices(table):
        for keys, _positions in reader.keys_of(slice_):
            count = len(keys)
            constants = (slice_.group.partition, slice_.group.file_id, slice_.base_instant, False)
            columns = [keys.cast(pa.string()), *(pa.repeat(value, count) for value in constants)]
            yield pa.record_batch(columns, schema=RECORD_MOVES)


def _changes(table: HudiTable, files: Sequence[WrittenFile]) -> Changes:
    newest = table.timeline.completed()
    instant = newest[-1].requested_at if newest else "0" * 17
    return Changes(instant, files, {}, {}, table.schema.arrow)


def _slices(table: HudiTable) -> list[FileSlice]:
    if not table.timeline.commits:
        return []
    return [slice_ for found in table.file_index().list_files_at() for slice_ in found.slices]


def _bases(table: HudiTable) -> list[FileSlice]:
    return [slice_ for slice_ in _slices(table) if slice_.base_file is not None]


def _listed(table: HudiTable) -> list[WrittenFile]:
    """All files of committed actions, those of earlier slices too: readers of the past and cleaners look for them."""
    found: list[WrittenFile] = []
    for partition, files in table.listing.files_of(table.listing.partitions()).items():
        for file in files:
            base, log = parse_base_file(file.name), parse_log_file(file.name)
            name = base or log
            if name is None:
                continue
            # Before version 8, a log's name tells its slice, and not who wrote it.
            certain = base is not None or table.config.version >= 8
            if not certain or table.timeline.is_committed(name.instant):
                found.append(WrittenFile(partition, name.file_id, file.name, file.size or 0, 0, is_log=log is not None))
    return found


def _described(table: HudiTable, slice_: FileSlice, columns: Sequence[str], *, with_ranges: bool) -> WrittenFile:
    assert slice_.base_file is not None
    file = open_base_file(table.storage, slice_.base_file.path)
    bloom = file.footer.get(BLOOM)
    return WrittenFile(
        partition=slice_.group.partition,
        file_id=slice_.group.file_id,
        name=slice_.base_file.name,
        size=slice_.base_file.size or 0,
        rows=file.num_rows,
        ranges=tuple(column_ranges(file, columns)) if with_ranges else (),
        bloom=bloom.decode() if bloom is not None else None,
    )


def column_ranges(file: BaseFile, columns: Sequence[str]) -> Iterator[ColumnRange]:
    """The ranges of a base file's columns, from its footer; floating columns are read, as footers pass over NaN."""
    groups = [file.statistics(group) for group in file.row_groups]
    for name in columns:
        if name not in file.schema.names:
            continue
        if pa.types.is_floating(file.schema.field(name).type):
            yield _floating_range(file, name)
            continue
        found: ColumnRange | None = None
        for group in groups:
            stats = group.get(name)
            if stats is None or stats.null_count is None or stats.value_count is None:
                break
            part = ColumnRange(name, stats.minimum, stats.maximum, stats.null_count, stats.value_count)
            if None in (part.minimum, part.maximum) and part.null_count < part.value_count:
                break
            found = part if found is None else united_range(found, part)
        else:
            if found is not None:
                yield found


def _floating_range(file: BaseFile, name: str) -> ColumnRange:
    low: Any = None
    high: Any = None
    nulls = 0
    for _, rows in file.batches([name], file.row_groups):
        values = rows.column(name)
        nulls += values.null_count
        plain = values.filter(pc.invert(pc.is_nan(values)))
        bounds = pc.min_max(plain).as_py()
        if bounds["min"] is not None:
            low = bounds["min"] if low is None else min(low, bounds["min"])
            high = bounds["max"] if high is None or high < bounds["max"] else high
        if len(plain) + values.null_count < len(values):
            # Java counts NaN for the greatest number of all.
            high = float("nan")
            low = high if low is None else low
    return ColumnRange(name, low, high, nulls, file.num_rows)


def _partition_statistics(table: HudiTable, files: Sequence[WrittenFile], version: int) -> Entries:
    """Only for partitions and columns of which all files are known: log files are not looked into."""
    logged = {slice_.group.partition for slice_ in _slices(table) if slice_.delta_files}
    by_partition: dict[str, list[WrittenFile]] = {}
    for file in files:
        by_partition.setdefault(file.partition, []).append(file)
    found: dict[str, bytes] = {}
    schema = table.schema.arrow
    for partition, members in by_partition.items():
        told = [{column.column: column for column in member.ranges} for member in members]
        for name in [] if partition in logged else told[0]:
            if name not in schema.names or not all(name in ranges for ranges in told):
                continue
            whole = told[0][name]
            for ranges in told[1:]:
                whole = united_range(whole, ranges[name])
            content = statistics_content(whole, schema.field(name).type, partition, version, tight=True)
            if content is not None:
                key = hashing.partition_stats_key(name, partition)
                found[key] = encode(statistics_record(content, of_partition=True), record_schema(version))
    return Entries.of(found)
