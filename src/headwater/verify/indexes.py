"""Whether a table's metadata table agrees with its files: listing, statistics, bloom filters, record index."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import HeadwaterError
from headwater.hudi.base_file import BaseFile, open_base_file
from headwater.hudi.file_names import parse_log_file
from headwater.hudi.listing import FolderListing
from headwater.hudi.log import scan_blocks
from headwater.hudi.metadata_table.locations import count_locations
from headwater.hudi.metadata_table.reader import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataTable,
)
from headwater.hudi.metadata_table.records import BloomEntry, ColumnStats
from headwater.hudi.metadata_table.values import is_ordered_alike
from headwater.hudi.parquet_footer import BLOOM
from headwater.hudi.schema import RECORD_KEY
from headwater.hudi.table import HudiTable
from headwater.hudi.view import Horizon, ListedFile, build_groups
from headwater.inspect import footer_statistics
from headwater.spec.model import FileSlice
from headwater.spec.statistics import ColumnStatistics
from headwater.verify.report import Notes

_REBUILD = "rebuild the metadata table with Apache Hudi; until then open the table with metadata=False"


@dataclass
class IndexChecks:
    """The checks of one table's metadata table."""

    hudi: HudiTable
    notes: Notes
    deep: bool
    slices: Mapping[str, Sequence[FileSlice]]
    """The current slices by partition."""
    log_bounds: Mapping[str, Mapping[str, ColumnStatistics]]
    """Path of a log file → the ranges of its records' columns."""
    _files: dict[str, BaseFile | None] = field(default_factory=dict)

    def run(self, folders: FolderListing) -> None:
        where = "metadata table"
        try:
            metadata = MetadataTable.open(self.hudi.timeline, as_known=False)
            if metadata is None:
                return
            if not metadata.is_current:
                self.notes.warn(where, "does not know the newest commit, so readers leave it alone", _REBUILD)
                return
            self._check_listing(metadata, folders)
        except HeadwaterError as error:
            self.notes.error(where, str(error), _REBUILD)
            return
        checks = {
            COLUMN_STATS: self._check_statistics,
            PARTITION_STATS: self._check_partition_statistics,
            BLOOM_FILTERS: self._check_blooms,
            RECORD_INDEX: self._check_locations,
        }
        for index, check in checks.items():
            if metadata.has(index):
                try:
                    check(metadata)
                except HeadwaterError as error:
                    self.notes.error(f"{where}, {index}", str(error), _REBUILD)

    def _check_listing(self, metadata: MetadataTable, folders: FolderListing) -> None:
        """Names and sizes, partition by partition. Only files of current slices can do harm to a read."""
        known = metadata.partitions()
        listed = metadata.files_of(known)
        for done, partition in enumerate(sorted(self.slices.keys() | listed.keys()), 1):
            self.notes.progress("metadata table", done, len(self.slices.keys() | listed.keys()))
            there = {file.name: file.size for file in folders.files(partition)}
            theirs = {file.name: file.size for file in listed.get(partition, ())}
            self.notes.count("files in the metadata table", len(theirs))
            used = _names(self.slices.get(partition, ()))
            for name in sorted(used & there.keys() - theirs.keys()):
                if self._counts(_join(partition, name)):
                    what = "is read when folders are listed, and the metadata table does not list it"
                    self.notes.error(_join(partition, name), what, _REBUILD)
            would_use = _names(current_slices(self.hudi, partition, listed.get(partition, ())))
            for name in sorted(theirs.keys() - there.keys()):
                what = "the metadata table lists it, and it is not there"
                if name in would_use:
                    self.notes.error(_join(partition, name), what, _REBUILD)
                else:
                    self.notes.warn(_join(partition, name), f"{what}; no snapshot of now reads it", _REBUILD)
            for name in sorted(theirs.keys() & there.keys()):
                if theirs[name] != there[name]:
                    what = f"has {there[name]} bytes, the metadata table says {theirs[name]}"
                    (self.notes.error if name in used else self.notes.warn)(_join(partition, name), what, _REBUILD)

    def _counts(self, path: str) -> bool:
        """Whether a file holds rows of a completed commit. Before version 8, the name of a log file does not tell."""
        if parse_log_file(path.rsplit("/", 1)[-1]) is None or self.hudi.config.version >= 8:
            return True
        return any(self.hudi.timeline.is_committed(b.instant_time or "") for b in scan_blocks(self.hudi.storage, path))

    def _base_file(self, slice_: FileSlice) -> BaseFile | None:
        """The slice's base file; None where there is none, or it does not open, which is reported with the files."""
        if slice_.base_file is None:
            return None
        try:
            return open_base_file(self.hudi.storage, slice_.base_file.path)
        except HeadwaterError:
            return None

    def _all_slices(self) -> list[FileSlice]:
        return [slice_ for part in self.slices.values() for slice_ in part]

    def _check_statistics(self, metadata: MetadataTable) -> None:
        """The index's bounds must hold those of the files: a reader that trusts narrower ones loses rows."""
        todo = [partial(self._check_statistics_of, metadata, slice_) for slice_ in self._all_slices()]
        self.notes.run("column statistics", todo)

    def _check_statistics_of(self, metadata: MetadataTable, slice_: FileSlice) -> None:
        file = self._base_file(slice_)
        if file is not None and slice_.base_file is not None:
            self._compare(metadata, slice_, slice_.base_file.path, footer_statistics(file), "the footer")
        for ref in slice_.delta_files:
            self._compare(metadata, slice_, ref.path, self.log_bounds.get(ref.path, {}), "its records")

    def _compare(
        self, metadata: MetadataTable, slice_: FileSlice, path: str, known: Mapping[str, ColumnStatistics], by: str
    ) -> None:
        stats = metadata.column_stats(list(known), [(slice_.group.partition, path.rsplit("/", 1)[-1])])
        for (_, _, column), theirs in stats.items():
            self.notes.count("column statistics" if by == "the footer" else "column statistics of logs")
            for what in _contradictions(theirs, known[column], by):
                self.notes.error(f"{path}, column {column}", what, _REBUILD)

    def _check_partition_statistics(self, metadata: MetadataTable) -> None:
        """What the statistics of a partition rule out, those of each of its files must rule out too."""
        names = [field.name for field in self.hudi.schema.arrow if not pa.types.is_nested(field.type)]
        for done, (partition, slices) in enumerate(self.slices.items(), 1):
            self.notes.progress("partition statistics", done, len(self.slices))
            stats = metadata.partition_stats(names, [partition])
            files = [(partition, path.rsplit("/", 1)[-1]) for slice_ in slices for path in slice_.paths]
            of_files = metadata.column_stats([column for _, column in stats], files)
            self.notes.count("partition statistics", len(stats))
            for (_, file, column), theirs in sorted(of_files.items(), key=lambda item: item[0]):
                whole = stats[partition, column]
                if _exceeds(whole.min, theirs.min) or _exceeds(theirs.max, whole.max):
                    what = (
                        f"the partition's statistics reach from {whole.min!r} to {whole.max!r}, those of file {file} "
                        f"from {theirs.min!r} to {theirs.max!r}"
                    )
                    self.notes.error(f"partition {partition or '.'}, column {column}", what, _REBUILD)

    def _check_blooms(self, metadata: MetadataTable) -> None:
        """A bloom filter is that of its file's footer; with `deep`, it has every key of the file."""
        bases = [slice_ for slice_ in self._all_slices() if slice_.base_file is not None]
        places = [(s.group.partition, s.base_file.name) for s in bases if s.base_file is not None]
        entries = metadata.blooms(places)
        todo = [
            partial(self._check_bloom, slice_, entries[place])
            for slice_, place in zip(bases, places, strict=True)
            if place in entries
        ]
        self.notes.run("bloom filters", todo)

    def _check_bloom(self, slice_: FileSlice, entry: BloomEntry) -> None:
        assert slice_.base_file is not None
        path = slice_.base_file.path
        self.notes.count("bloom filters")
        try:
            bloom = entry.open(path)
            file = self._base_file(slice_)
            if file is None:
                return
            footer = file.footer.get(BLOOM)
            if footer is not None and footer != entry.text:
                what = "the metadata table's bloom filter is not that of the file's footer"
                self.notes.error(path, what, _REBUILD)
            if self.deep and RECORD_KEY in file.schema.names:
                lacking = 0
                for _, rows in file.batches([RECORD_KEY], file.row_groups):
                    keys = rows.column(RECORD_KEY).combine_chunks().cast(pa.string()).drop_null()
                    lacking += len(keys) - int(pc.sum(bloom.might_contain(keys)).as_py() or 0)
                if lacking:
                    what = f"the metadata table's bloom filter lacks {lacking} keys of the file"
                    self.notes.error(path, what, _REBUILD)
        except HeadwaterError as error:
            self.notes.error(path, str(error), _REBUILD)

    def _check_locations(self, metadata: MetadataTable) -> None:
        groups = {(slice_.group.partition, slice_.group.file_id) for slice_ in self._all_slices()}
        found: Counter[tuple[str, str]] = Counter()
        for done, total, counts in count_locations(metadata):
            self.notes.progress("record index", done, total)
            found.update(counts)
        self.notes.count("record locations", found.total())
        for (partition, file_id), count in sorted(found.items()):
            if (partition, file_id) not in groups:
                what = f"the record index places {count} records in this file group, and there is no such group"
                self.notes.error(_join(partition, file_id), what, _REBUILD)


def record_bounds(rows: pa.Table | pa.RecordBatch) -> dict[str, ColumnStatistics]:
    """The ranges of columns that have an order; those of floats only without NaN, which statistics do not count."""
    found: dict[str, ColumnStatistics] = {}
    for name in rows.schema.names:
        values = rows.column(name)
        if pa.types.is_nested(values.type) or pa.types.is_null(values.type) or pa.types.is_boolean(values.type):
            continue
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            continue
        try:
            bounds = pc.min_max(values).as_py()
        except (pa.ArrowException, ValueError, OverflowError):
            continue  # no order in Arrow, or no such value in Python
        found[name] = ColumnStatistics(bounds["min"], bounds["max"])
    return found


def current_slices(hudi: HudiTable, partition: str, files: Iterable[ListedFile]) -> list[FileSlice]:
    """The slices that a snapshot reads, were these the files of the partition."""
    groups = build_groups(partition, files, Horizon(hudi.timeline))
    return [latest for group in groups if (latest := group.latest()) is not None]


def _names(slices: Iterable[FileSlice]) -> set[str]:
    return {path.rsplit("/", 1)[-1] for slice_ in slices for path in slice_.paths}


def _join(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name


def _contradictions(theirs: ColumnStats, footer: ColumnStatistics, by: str) -> Iterable[str]:
    """What the index says of a column that the file denies."""
    if theirs.is_deleted:
        yield "the column statistics call the file deleted"
        return
    if None not in (theirs.null_count, footer.null_count) and theirs.null_count != footer.null_count:
        yield f"the column statistics count {theirs.null_count} nulls, {by} {footer.null_count}"
    if None not in (theirs.value_count, footer.value_count) and theirs.value_count != footer.value_count:
        yield f"the column statistics count {theirs.value_count} values, {by} {footer.value_count}"
    if _exceeds(theirs.min, footer.minimum):
        yield f"the column statistics' least value is {theirs.min!r}, {_whose(by)} {footer.minimum!r}"
    if _exceeds(footer.maximum, theirs.max):
        yield f"the column statistics' greatest value is {theirs.max!r}, {_whose(by)} {footer.maximum!r}"


def _whose(by: str) -> str:
    return f"{by}'" if by.endswith("s") else f"{by}'s"


def _exceeds(left: Any, right: Any) -> bool:
    """Whether one bound is certainly greater than another; bounds of different kinds are not compared."""
    if left is None or right is None or not (is_ordered_alike(left) and is_ordered_alike(right)):
        return False
    if isinstance(left, float) and isinstance(right, float):
        # A float that became a double went through its text.
        return left > right and not math.isclose(left, right, rel_tol=2e-7)
    if type(left) is not type(right):
        return False
    try:
        return bool(left > right)
    except TypeError:
        return False
