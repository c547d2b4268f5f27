"""Tagging: where the records of a batch are stored, by whichever index the table has.

A key that only a log deletes still belongs to its file group: a later version of it goes there and is compared with the
delete, as in Hudi. Only the record index forgets deleted keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidArgument, UnsupportedTable
from headwater.hudi.base_file import BaseFile, RowGroup, open_base_file
from headwater.hudi.file_names import parse_base_file, parse_log_file
from headwater.hudi.footer_index import by_footer, key_range
from headwater.hudi.index.bucket import (
    BUCKET_INDEX_FOLDER,
    CONSISTENT_HASHING,
    COUNTS_OF_PARTITIONS,
    bucket_ids_of_keys,
    bucket_of_file_id,
)
from headwater.hudi.keys import key_columns, record_keys
from headwater.hudi.merge.fold import Rows
from headwater.hudi.metadata_table.reader import RECORD_INDEX
from headwater.hudi.record_index import HudiRecordIndex
from headwater.hudi.schema import RECORD_KEY
from headwater.hudi.table import HudiTable
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.options import IndexKind, WriteOptions
from headwater.spec.model import FileGroupId, FileSlice

UNKNOWN = -1
_BUCKET_ID = re.compile(r"0000\d{4}-")
# So many bytes of the record index are read for a key, at least; with less, the keys of the files are read sooner.
_INDEX_BYTES_A_KEY = 2048
# Keys of a file that are looked at together: each look builds a hash table of all that are wanted.
_KEYS_AT_ONCE = 64 * 1024 * 1024
# A bloom filter is asked where the keys are this many times fewer than the rows; elsewhere the keys are read at once.
_FEW = 16


@dataclass(frozen=True)
class Tags:
    """Places of records: one entry for each place. A row of the batch without an entry is not in the table."""

    row: Rows
    """Rows of the batch, rising."""
    slice: Rows
    """Which of `slices` holds the record."""
    position: Rows
    """The record's row in the slice's base file, where that is known; −1 elsewhere."""
    slices: tuple[FileSlice, ...]

    def absent(self, count: int) -> Rows:
        """The rows of a batch of so many that have no place."""
        flags = np.ones(count, bool)
        flags[self.row] = False
        return np.flatnonzero(flags)


NO_TAGS = Tags(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), ())


def latest_slices(table: HudiTable, partitions: Sequence[str] | None = None) -> list[FileSlice]:
    """The newest slice of every file group, of all partitions or of some."""
    index = table.file_index()
    paths = index.listing.partitions()
    if partitions is not None:
        wanted = set(partitions)
        paths = [path for path in paths if path in wanted]
    index.listing.files_of(paths)
    return [slice_ for path in paths for group in index.groups(path) if (slice_ := group.latest()) is not None]


def resolve_index(table: HudiTable, options: WriteOptions) -> IndexKind:
    """The index to tag with: the one asked for, else the best that the table has."""
    metadata = table.metadata
    has_index = metadata is not None and metadata.has(RECORD_INDEX)
    if options.index is not None:
        if options.index is IndexKind.RECORD_INDEX and not has_index:
            # The table's first write makes the index; until there is a row there is nothing to find.
            return IndexKind.GLOBAL_SIMPLE
        if options.index is IndexKind.BUCKET:
            _refuse_other_hashing(table)
        return options.index
    _refuse_unsaid_buckets(table)
    return IndexKind.RECORD_INDEX if has_index else IndexKind.BLOOM


def _refuse_unsaid_buckets(table: HudiTable) -> None:
    """Hudi writes down nowhere that keys are hashed; rows in another group than their bucket's it would never find."""
    if not table.timeline.commits:
        return
    _refuse_other_hashing(table)
    for partition in table.listing.partitions():
        names = [parse_base_file(file.name) or parse_log_file(file.name) for file in table.listing.files(partition)]
        ids = [name.file_id for name in names if name is not None]
        if ids and all(_BUCKET_ID.match(file_id) for file_id in ids):
            raise InvalidArgument(
                f"{table.storage.uri}: its file groups are numbered, as those of a bucket index are; say which it "
                'has, as Hudi was told: options={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": …}'
            )
        if ids:
            return


def _refuse_other_hashing(table: HudiTable) -> None:
    """Buckets that are not one number for all of the table: a row that we put by its hash Hudi would never find."""
    if table.storage.find(BUCKET_INDEX_FOLDER) is None:
        return
    for folder, how in {
        CONSISTENT_HASHING: "its keys are hashed consistently",
        COUNTS_OF_PARTITIONS: "its partitions differ in how many buckets they have",
    }.items():
        if table.storage.find(folder) is not None:
            raise UnsupportedTable(
                f"{table.storage.uri}: {how} ({folder}), which can be read but not written; write with Apache Hudi"
            )


def tag(table: HudiTable, batch: Batch, index: IndexKind, options: WriteOptions, *, live: bool = False) -> Tags:
    """Find the records of a batch. Each key stands in it once (and partition, where the index is not global).

    With `live`, records that the log has deleted are not found.
    """
    if not len(batch) or not table.timeline.commits:
        return NO_TAGS
    if index is IndexKind.BUCKET:
        return _by_bucket(table, batch, bucket_count(table, options), options)
    if index is IndexKind.RECORD_INDEX:
        return _by_files(table, batch) if _asks_for_much(table, len(batch)) else _by_record_index(table, batch)
    return _by_keys(table, batch, index, live=live)


# ------------------------------------------------------------------------------------------------------- buckets


def bucket_count(table: HudiTable, options: WriteOptions) -> int:
    """How many buckets each partition has: written down by us, a writer's option for Hudi."""
    if options.buckets:
        return options.buckets
    raise InvalidArgument(
        f"{table.storage.uri}: a bucket index needs the number of buckets, which Hudi leaves to each writer; give "
        'options={"hoodie.bucket.index.num.buckets": …} as the table was written with'
    )


def buckets_of(batch: Batch, table: HudiTable, count: int, options: WriteOptions) -> Rows:
    """The bucket of each row."""
    fields = options.bucket_fields or table.config.record_key_fields
    return bucket_ids_of_keys(batch.keys, count, fields=fields).astype(np.int64)


def _by_bucket(table: HudiTable, batch: Batch, count: int, options: WriteOptions) -> Tags:
    """A record that is stored, or would be: all rows of a bucket that exists are tagged with it."""
    codes, paths = batch.partition_codes
    slices = latest_slices(table, paths)
    place = np.full((len(paths), count), UNKNOWN, np.int64)
    number = {path: index for index, path in enumerate(paths)}
    for at, slice_ in enumerate(slices):
        bucket = bucket_of_file_id(slice_.group.file_id)
        if bucket is None or bucket >= count:
            raise InvalidArgument(
                f"{table.storage.describe(slice_.group.partition)}: file group {slice_.group.file_id} is none of "
                f"{count} buckets; the table is not hashed so: give the index and the buckets it was written with"
            )
        place[number[slice_.group.partition], bucket] = at
    found = place[codes, buckets_of(batch, table, count, options)]
    row = np.flatnonzero(found >= 0)
    return Tags(row, found[row], np.full(len(row), UNKNOWN), tuple(slices))


# -------------------------------------------------------------------------------------------------- record index


def _by_record_index(table: HudiTable, batch: Batch) -> Tags:
    located = HudiRecordIndex(table).tag(batch.keys)
    row = np.asarray(pc.index_in(located.column("key"), value_set=batch.keys)).astype(np.int64)
    known = np.asarray(located.column("file_id").is_valid())
    located, row = located.filter(pa.array(known)), row[known]
    places = located.group_by(["partition", "file_id"], use_threads=False).aggregate([])
    names = list(zip(places.column("partition").to_pylist(), places.column("file_id").to_pylist(), strict=True))
    wanted = {FileGroupId(partition, file_id) for partition, file_id in names}
    slices = [s for s in latest_slices(table, [partition for partition, _ in names]) if s.group in wanted]
    number = pa.table(
        {
            "partition": pa.array([s.group.partition for s in slices], pa.string()),
            "file_id": pa.array([s.group.file_id for s in slices], pa.string()),
            "slice": pa.array(np.arange(len(slices)), pa.int64()),
        }
    )
    entries = pa.table(
        {
            "row": pa.array(row),
            "partition": located.column("partition"),
            "file_id": located.column("file_id"),
        }
    )
    joined = entries.join(number, keys=["partition", "file_id"], join_type="inner").sort_by("row")
    rows = _ints(joined, "row")
    # Positions that the index may note are those of the file that the record was first written to.
    return Tags(rows, _ints(joined, "slice"), np.full(len(rows), UNKNOWN), tuple(slices))


def _asks_for_much(table: HudiTable, count: int) -> bool:
    """Whether so many keys touch about every block of the record index."""
    if table.metadata is None:
        return False
    size = sum(group.slice.size for group in table.metadata.file_groups(RECORD_INDEX))
    return count * _INDEX_BYTES_A_KEY > size


def _by_files(table: HudiTable, batch: Batch) -> Tags:
    """What the record index would tell, from the files themselves, with positions; most records are where they were."""
    at_home = _by_keys(table, batch, IndexKind.SIMPLE, live=True)
    absent = at_home.absent(len(batch))
    if not len(absent) or not table.config.partition_fields:
        return at_home
    elsewhere = _by_keys(table, batch.take(absent), IndexKind.GLOBAL_SIMPLE, live=True)
    number = {slice_.group: at for at, slice_ in enumerate(elsewhere.slices)}
    renumbered = np.array([number[slice_.group] for slice_ in at_home.slices], np.int64)
    row = np.concatenate([at_home.row, absent[elsewhere.row]])
    places = np.concatenate([renumbered[at_home.slice], elsewhere.slice])
    position = np.concatenate([at_home.position, elsewhere.position])
    order = np.argsort(row, kind="stable")
    return Tags(row[order], places[order], position[order], elsewhere.slices)


def _ints(table: pa.Table, name: str) -> Rows:
    found: Rows = table.column(name).to_numpy().astype(np.int64)
    return found


# --------------------------------------------------------------------------------------- key columns of the files


def _by_keys(table: HudiTable, batch: Batch, index: IndexKind, *, live: bool) -> Tags:
    codes, paths = batch.partition_codes
    slices = latest_slices(table, None if index.is_global else paths)
    everyone = np.arange(len(batch))
    rows_of = {path: everyone if index.is_global else np.flatnonzero(codes == n) for n, path in enumerate(paths)}
    keys_of = {path: batch.keys if index.is_global else batch.keys.take(pa.array(rows_of[path])) for path in paths}

    def find(number: int) -> tuple[Rows, Rows, Rows]:
        slice_ = slices[number]
        wanted = batch.keys if index.is_global else keys_of[slice_.group.partition]
        rows = everyone if index.is_global else rows_of[slice_.group.partition]
        search = _SliceSearch(table, slice_, wanted, blooms=index in (IndexKind.BLOOM, IndexKind.GLOBAL_BLOOM))
        found, positions = search.live() if live else search.stored()
        return rows[found], np.full(len(found), number), positions

    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        parts = list(pool.map(find, range(len(slices))))
    row, number, position = (
        np.concatenate([part[at] for part in parts]) if parts else np.zeros(0, np.int64) for at in range(3)
    )
    order = np.lexsort((position, number, row))
    tags = Tags(row[order], number[order], position[order], tuple(slices))
    return tags if live else _without_dead_places(table, batch, tags)


def _without_dead_places(table: HudiTable, batch: Batch, tags: Tags) -> Tags:
    """Of a record with several places, those where it lives; where it lives in none, the newest.

    A record that was deleted in a log and then inserted anew stands in two groups: a new version that went to both
    would bring the deleted one back.
    """
    ends = np.flatnonzero(np.r_[tags.row[1:] != tags.row[:-1], True]) if len(tags.row) else tags.row
    counts = np.diff(np.r_[-1, ends])
    repeated = np.repeat(counts > 1, counts)
    has_log = np.array([bool(slice_.delta_files) for slice_ in tags.slices], bool)
    if not len(tags.row) or not (repeated & has_log[tags.slice]).any():
        return tags
    alive = ~has_log[tags.slice]
    for number in np.unique(tags.slice[repeated & has_log[tags.slice]]).tolist():
        entries = np.flatnonzero(repeated & (tags.slice == number))
        keys = batch.keys.take(pa.array(tags.row[entries]))
        found, _ = _SliceSearch(table, tags.slices[number], keys, blooms=False).live()
        living = keys.take(pa.array(np.unique(found)))
        alive[entries] = np.asarray(pc.is_in(keys, value_set=living))
    born = np.array([slice_.base_instant for slice_ in tags.slices])
    newest = np.zeros(len(tags.row), bool)
    rank = np.argsort(np.argsort(born, kind="stable"))
    newest[np.lexsort((rank[tags.slice], tags.row))[ends]] = True
    lives = np.zeros(len(batch), bool)
    lives[tags.row[alive & repeated]] = True
    keep = ~repeated | np.where(lives[tags.row], alive, newest)
    return Tags(tags.row[keep], tags.slice[keep], tags.position[keep], tags.slices)


@dataclass(frozen=True)
class _SliceSearch:
    """Which of some keys a slice has."""

    table: HudiTable
    slice: FileSlice
    wanted: pa.Array
    blooms: bool

    def stored(self) -> tuple[Rows, Rows]:
        """Keys by their number, each with its row in the base file; −1 for those that only the log has."""
        numbers, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        ref = self.slice.base_file
        base = None if ref is None else open_base_file(self.table.storage, ref.path)
        for keys, start in () if base is None else self._base_keys(base):
            found = _matches(keys, self.wanted)
            at = np.flatnonzero(found >= 0)
            numbers.append(found[at])
            positions.append(start + at)
        if self.slice.delta_files:
            for keys in self._log_keys():
                found = _matches(keys, self.wanted)
                only = np.setdiff1d(found[found >= 0], np.concatenate(numbers))
                numbers.append(only)
                positions.append(np.full(len(only), UNKNOWN))
        return np.concatenate(numbers), np.concatenate(positions)

    def live(self) -> tuple[Rows, Rows]:
        """The same, without what the log has deleted."""
        numbers, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        if not self.slice.delta_files:
            return self.stored()
        for keys, at in self.table.reader(self.table.schema).keys_of(self.slice):
            found = _matches(keys, self.wanted)
            hit = np.flatnonzero(found >= 0)
            numbers.append(found[hit])
            positions.append(np.asarray(pc.fill_null(at, UNKNOWN)).astype(np.int64)[hit])
        return np.concatenate(numbers), np.concatenate(positions)

    def _base_keys(self, base: BaseFile) -> Iterator[tuple[pa.ChunkedArray, int]]:
        wanted = self.wanted
        if self.blooms and len(wanted) * _FEW < base.num_rows:
            wanted = by_footer(base, wanted)
        elif not _in_range(base, wanted):
            return
        if not len(wanted):
            return
        names = key_columns(self.table.config)
        held: list[pa.Array] = []
        begin = end = size = 0
        for start, part in base.batches(names, list(_groups_with(base, wanted))):
            keys = part.column(0) if names == (RECORD_KEY,) else record_keys(self.table.config, part)
            if held and (start != end or size > _KEYS_AT_ONCE):
                yield pa.chunked_array(held), begin
                held, size = [], 0
            if not held:
                begin = start
            held += keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
            end = start + len(keys)
            size += keys.nbytes
        if held:
            yield pa.chunked_array(held), begin

    def _log_keys(self) -> Iterator[pa.ChunkedArray]:
        config = self.table.config
        schema = pa.schema([self.table.schema.arrow.field(name) for name in key_columns(config)])
        for part in self.table.reader(self.table.schema).project(schema).merge_over_base(self.slice):
            rows = part.added
            yield rows.column(0) if config.populate_meta_fields else record_keys(config, rows)


def _matches(keys: pa.ChunkedArray | pa.Array, wanted: pa.Array) -> Rows:
    """For each key its number among the wanted ones; −1 where it is none of them."""
    found: Rows = np.asarray(pc.fill_null(pc.index_in(keys, value_set=wanted), UNKNOWN)).astype(np.int64)
    return found


def _in_range(base: BaseFile, wanted: pa.Array) -> bool:
    known = key_range(base)
    return known is None or _any_between(wanted, *known)


def _groups_with(base: BaseFile, wanted: pa.Array) -> Iterator[RowGroup]:
    """Row groups whose range of keys holds a wanted one."""
    for group in base.row_groups:
        known = base.statistics(group).get(RECORD_KEY)
        low, high = (None, None) if known is None else (known.minimum, known.maximum)
        if not isinstance(low, str) or not isinstance(high, str) or _any_between(wanted, low, high):
            yield group


def _any_between(wanted: pa.Array, low: str, high: str) -> bool:
    return bool(pc.any(pc.and_(pc.greater_equal(wanted, low), pc.less_equal(wanted, high))).as_py())
