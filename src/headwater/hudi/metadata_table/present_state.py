"""What an index must hold for the files that a table has now: listing, statistics, bloom filters, record places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from headwater.hudi.base_file import open_base_file
from headwater.hudi.file_names import parse_base_file, parse_log_file
from headwater.hudi.index import hashing
from headwater.hudi.log import scan_blocks
from headwater.hudi.metadata_table.changes import UNKNOWN, Changes, united_range
from headwater.hudi.metadata_table.encoding import encode, statistics_record
from headwater.hudi.metadata_table.layout import Entries
from headwater.hudi.metadata_table.reader import BLOOM_FILTERS, COLUMN_STATS, FILES
from headwater.hudi.metadata_table.record_schema import record_schema
from headwater.hudi.metadata_table.statistics import kept_columns, statistics_content
from headwater.hudi.parquet_footer import BLOOM, read_footer
from headwater.hudi.table import HudiTable
from headwater.hudi.write.file_ranges import FileRanges, ranges_of_rows
from headwater.hudi.write.model import RECORD_MOVES, ColumnRange, WrittenFile
from headwater.spec.model import FileSlice
from headwater.storage import Storage


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
    return _partition_statistics(table, files, columns, version)


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
    unsure = any(not instant.is_completed for instant in table.timeline.instants)
    for partition, files in table.listing.files_of(table.listing.partitions()).items():
        for file in files:
            base, log = parse_base_file(file.name), parse_log_file(file.name)
            name = base or log
            if name is None:
                continue
            # Before version 8, a log's name tells its slice, and not who wrote it.
            if base is None and table.config.version < 8:
                counts = not unsure or _has_committed_blocks(table, partition, file.name)
            else:
                counts = table.timeline.is_committed(name.instant)
            if counts:
                found.append(WrittenFile(partition, name.file_id, file.name, file.size or 0, 0, is_log=log is not None))
    return found


def _has_committed_blocks(table: HudiTable, partition: str, name: str) -> bool:
    path = f"{partition}/{name}" if partition else name
    return any(table.timeline.is_committed(block.instant_time or "") for block in scan_blocks(table.storage, path))


def _described(table: HudiTable, slice_: FileSlice, columns: Sequence[str], *, with_ranges: bool) -> WrittenFile:
    assert slice_.base_file is not None
    file = open_base_file(table.storage, slice_.base_file.path)
    bloom = file.footer.get(BLOOM)
    ranges: tuple[ColumnRange, ...] = ()
    if with_ranges:
        # A column that a file does not have is null in it, unless it had another name then.
        tops = dict.fromkeys(name.split(".")[0] for name in columns)
        schema = table.schema.arrow
        wanted = pa.schema([schema.field(name) for name in tops if name in schema.names])
        renamed = table.schema.internal is not None
        missing = [] if renamed else [n for n in columns if n.split(".")[0] not in file.schema.names]
        absent = (ColumnRange(name, None, None, file.num_rows, file.num_rows) for name in missing)
        ranges = (*column_ranges(table.storage, slice_.base_file.path, wanted), *absent)
    return WrittenFile(
        partition=slice_.group.partition,
        file_id=slice_.group.file_id,
        name=slice_.base_file.name,
        size=slice_.base_file.size or 0,
        rows=file.num_rows,
        ranges=ranges,
        bloom=bloom.decode() if bloom is not None else None,
    )


def column_ranges(storage: Storage, path: str, schema: pa.Schema) -> Iterator[ColumnRange]:
    """The ranges of a base file's columns, from its footer; floating columns are read, as footers pass over NaN.

    `schema` has the columns that are wanted, as the table has them. A column that the file keeps in a type whose values
    may be others once they are read as the table's is left out, and so is all of a file that is not Parquet.
    """
    if not path.endswith(".parquet"):
        return
    with storage.open(path) as source:
        footer = read_footer(source)
    file = open_base_file(storage, path)
    fields = [
        f for f in schema if f.name in file.schema.names and _reads_as_it_is(file.schema.field(f.name).type, f.type)
    ]
    ranges = FileRanges(pa.schema([file.schema.field(f.name) for f in fields]))
    floats = [f.name for f in fields if _has_floats(f.type)]
    for _, rows in file.batches(floats, file.row_groups) if floats else ():
        ranges.look_at(rows)
    names = {f.name for f in fields}
    yield from (column for column in ranges.of_footer(footer) if column.column.split(".")[0] in names)


def _reads_as_it_is(stored: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    return bool(stored == wanted or (types.is_integer(stored) and types.is_integer(wanted)))


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_floats(field.type) for field in kind)
    return bool(pa.types.is_floating(kind))


def _partition_statistics(
    table: HudiTable, files: Sequence[WrittenFile], columns: Sequence[str], version: int
) -> Entries:
    """The ranges of all files of each partition; where there are logs, those of the rows that they make."""
    schema = table.schema.arrow
    kept = kept_columns(schema, columns, version)
    whole: dict[tuple[str, str], ColumnRange] = {}

    def add(partition: str, told: dict[str, ColumnRange]) -> None:
        for name in kept:
            place, column = (partition, name), told.get(name, UNKNOWN)
            whole[place] = column if place not in whole else united_range(whole[place], column)

    for file in files:
        add(file.partition, {column.column: column for column in file.ranges})
    top = list(dict.fromkeys(name.split(".")[0] for name in kept))
    reader = table.reader(table.schema).project(pa.schema([schema.field(name) for name in top]))
    for slice_ in _slices(table):
        if slice_.delta_files:
            for batch in reader.open(slice_):
                told = {column.column: column for column in ranges_of_rows(pa.Table.from_batches([batch]))}
                add(slice_.group.partition, told)
    found: dict[str, bytes] = {}
    for (partition, name), column in whole.items():
        named = replace(column, column=name)
        content = statistics_content(named, kept[name], partition, version, of_partition=True)
        assert content is not None
        key = hashing.partition_stats_key(name, partition)
        found[key] = encode(statistics_record(content, of_partition=True), record_schema(version))
    return Entries.of(found)
