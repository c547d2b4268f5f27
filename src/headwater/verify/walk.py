"""The walk over a table's timeline and files.

Nothing is changed. It goes on after a finding: one run tells all that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from headwater.errors import HeadwaterError, MissingFile
from headwater.hudi.base_file import open_base_file
from headwater.hudi.file_names import PARTITION_MARKER
from headwater.hudi.listing import FolderListing
from headwater.hudi.log import BlockType, LogBlock, read_data_block, read_delete_block, scan_blocks
from headwater.hudi.table import HudiTable
from headwater.hudi.timeline.instants import WRITE_ACTIONS
from headwater.hudi.view import ListedFile
from headwater.spec.model import FileSlice
from headwater.spec.statistics import ColumnStatistics, merge_statistics
from headwater.table import Table
from headwater.verify.indexes import IndexChecks, current_slices, record_bounds
from headwater.verify.report import Notes, Progress, Severity, VerifyReport

_RESTORE = "restore the file from a backup, or read the table as of an earlier commit"


def verify(table: Table, progress: Progress | None = None, *, deep: bool = False) -> VerifyReport:
    """Check a table as it is now.

    - What the active timeline and the history wrote down can be read.
    - Every file of the current slices is there, has the size that its commit wrote down, and opens: footers of base
      files, with the row count; every block of the log files, decoded. A corrupt block is a warning, because a writer
      that died leaves one behind and readers pass over it; a log file without a block of the commit that wrote to it
      is an error.
    - Files of change records (CDC) that commits name are there and open, unless the cleaner took them.
    - The metadata table lists the same files with the same sizes as the folders; its column statistics hold what the
      footers and the log records say, its partition statistics what those of the files say; its bloom filters are those
      of the footers; its record index points to file groups that exist.

    Parameters
    ----------
    progress
        Called now and then.
    deep
        Read every page of the base files too, not only their footers, and look for their keys in the bloom filters.

    >>> import headwater
    >>> from headwater.demo import demo_table
    >>> report = verify(headwater.open(demo_table("trips")))
    >>> report.ok, report.checked["base files"], report.checked["log files"], report.findings
    (True, 4, 6, ())
    """
    return _Verification(table.hudi, Notes(progress or (lambda what, done, total: None)), deep).run()


@dataclass(frozen=True, slots=True)
class _Written:
    """What a commit wrote down about a file."""

    instant: str
    size: int
    rows: int


@dataclass
class _Verification:
    """One walk over one table."""

    hudi: HudiTable
    notes: Notes
    deep: bool
    log_bounds: dict[str, dict[str, ColumnStatistics]] = field(default_factory=dict)
    """Path of a log file → the ranges of its records' columns."""

    def run(self) -> VerifyReport:
        if self._check_timeline():
            written = self._written()
            folders = FolderListing(self.hudi.storage, self.hudi.config)
            slices = self._slices(folders, written)
            self._check_files(slices, written)
            self._check_change_files()
            IndexChecks(self.hudi, self.notes, self.deep, slices, self.log_bounds).run(folders)
        ordered = sorted(self.notes.findings, key=lambda f: (f.severity is not Severity.ERROR, f.where))
        return VerifyReport(self.hudi.storage.uri, tuple(ordered), dict(self.notes.checked))

    # The timeline

    def _check_timeline(self) -> bool:
        """Whether the timeline can be relied on to tell which files there should be."""
        timeline = self.hudi.timeline
        readable = True
        for done, instant in enumerate(timeline.completed(), 1):
            self.notes.progress("timeline", done, len(timeline.completed()))
            try:
                if instant.action in WRITE_ACTIONS:
                    timeline.metadata(instant)
                else:
                    timeline.read(instant)
                self.notes.count("actions")
            except HeadwaterError as error:
                readable &= instant.action not in WRITE_ACTIONS
                self.notes.error(f"instant {instant}", _said(error), "without it no read is to be trusted: restore it")
        try:
            self.notes.count("archived actions", len(timeline.history))
        except HeadwaterError as error:
            self.notes.error("archived timeline", _said(error), "reads of old commits fail; restore the file")
        try:
            _ = self.hudi.schema
        except HeadwaterError as error:
            self.notes.error("schema", _said(error), "restore the newest commit's file from a backup")
            readable = False
        return readable

    def _written(self) -> dict[str, _Written]:
        """Path → what the newest commit that wrote the file says of it."""
        found: dict[str, _Written] = {}
        for instant in self.hudi.timeline.commits:
            for stat in self.hudi.timeline.metadata(instant).write_stats:
                if stat.path:
                    path = f"{stat.partition}/{stat.name}" if stat.partition else stat.name
                    found[path] = _Written(instant.requested_at, stat.size, stat.num_writes)
        return found

    # Files

    def _slices(self, folders: FolderListing, written: Mapping[str, _Written]) -> dict[str, list[FileSlice]]:
        """The current slices by partition, made of the files that are there and those that the commits name."""
        named: dict[str, dict[str, ListedFile]] = {}
        for path, entry in written.items():
            partition, _, name = path.rpartition("/")
            named.setdefault(partition, {})[name] = ListedFile(name, entry.size)
        marked = set(folders.partitions())
        found: dict[str, list[FileSlice]] = {}
        for partition in sorted(marked | named.keys()):
            there = {file.name: file for file in folders.files(partition)}
            gone = named.get(partition, {}).keys() - there.keys()
            files = [*there.values(), *(named[partition][name] for name in gone)]
            slices = current_slices(self.hudi, partition, files)
            if not slices:
                continue
            found[partition] = slices
            if partition not in marked:
                self.notes.error(
                    partition,
                    f"the partition has no {PARTITION_MARKER}: readers that list folders do not see it",
                    "write the marker file again, or restore it from a backup",
                )
        return found

    def _check_files(self, slices: Mapping[str, Sequence[FileSlice]], written: Mapping[str, _Written]) -> None:
        todo: list[Callable[[], None]] = []
        for slice_ in (slice_ for part in slices.values() for slice_ in part):
            self.notes.count("slices")
            if slice_.base_file is not None:
                todo.append(partial(self._check_base, slice_.base_file.path, written.get(slice_.base_file.path)))
            todo += [partial(self._check_log, ref.path, written.get(ref.path)) for ref in slice_.delta_files]
        self.notes.run("files", todo)

    def _size(self, path: str, written: _Written | None) -> int | None:
        """The file's size, None where it is gone."""
        entry = self.hudi.storage.find(path)
        if entry is None or entry.is_directory:
            by = f"; commit {written.instant} wrote it" if written is not None else ""
            self.notes.error(path, f"the file is not there{by}", _RESTORE)
            return None
        self.notes.count("bytes", entry.size)
        return entry.size

    def _check_base(self, path: str, written: _Written | None) -> None:
        self.notes.count("base files")
        size = self._size(path, written)
        if size is None:
            return
        if written is not None and written.size and written.size != size:
            self.notes.error(path, f"has {size} bytes, commit {written.instant} wrote {written.size}", _RESTORE)
        try:
            file = open_base_file(self.hudi.storage, path)
            if self.deep:
                rows = sum(table.num_rows for _, table in file.batches(file.schema.names, file.row_groups))
                if rows != file.num_rows:
                    self.notes.error(path, f"holds {rows} rows, its footer says {file.num_rows}", _RESTORE)
        except HeadwaterError as error:
            self.notes.error(path, _said(error), _RESTORE)
            return
        self.notes.count("rows in base files", file.num_rows)
        if written is not None and written.rows and written.rows != file.num_rows:
            self.notes.error(path, f"has {file.num_rows} rows, commit {written.instant} wrote {written.rows}", _RESTORE)

    def _check_log(self, path: str, written: _Written | None) -> None:
        self.notes.count("log files")
        size = self._size(path, written)
        if size is None:
            return
        if written is not None and written.size and size < written.size:
            self.notes.error(path, f"has {size} bytes, commit {written.instant} left it at {written.size}", _RESTORE)
        try:
            seen = set()
            for block in scan_blocks(self.hudi.storage, path):
                self._check_block(path, block)
                seen.add(block.instant_time)
            if written is not None and written.instant not in seen:
                self.notes.error(path, f"holds no block of commit {written.instant}, which wrote to it", _RESTORE)
        except HeadwaterError as error:
            self.notes.error(path, _said(error), _RESTORE)

    def _check_block(self, path: str, block: LogBlock) -> None:
        self.notes.count("log blocks")
        where = f"{path}, byte {block.offset}"
        if block.type is BlockType.CORRUPT:
            what = f"{block.length} bytes are no whole block, and readers pass over them"
            self.notes.warn(where, what, "nothing to do if a writer died here; else restore the file from a backup")
            return
        if block.type is BlockType.COMMAND or not self.hudi.timeline.is_committed(block.instant_time or ""):
            return
        try:
            if block.type is BlockType.DELETE:
                rows = len(read_delete_block(block))
            else:
                records = read_data_block(block)
                rows = len(records)
                self._note_bounds(path, records)
            positions = block.positions
        except HeadwaterError as error:
            self.notes.error(where, _said(error), _RESTORE)
            return
        self.notes.count("rows in logs", rows)
        if positions is not None and len(positions) and len(positions) != rows:
            self.notes.error(where, f"holds {rows} records and {len(positions)} positions for them", _RESTORE)

    def _note_bounds(self, path: str, records: pa.Table) -> None:
        """What the records of a log file reach from and to, block by block; a column that one block lacks is out."""
        bounds = record_bounds(records)
        known = self.log_bounds.get(path)
        self.log_bounds[path] = bounds if known is None else merge_statistics(known, bounds)

    # Change files

    def _check_change_files(self) -> None:
        """Files of change records that commits name are there and open; those that the cleaner took are not missed."""
        named = [
            (instant.requested_at, path, size)
            for instant in self.hudi.timeline.commits
            for stat in self.hudi.timeline.metadata(instant).write_stats
            for path, size in stat.cdc_files
        ]
        earliest = self.hudi.file_index().earliest_retained
        self.notes.run("change files", [partial(self._check_change_file, *entry, earliest=earliest) for entry in named])

    def _check_change_file(self, instant: str, path: str, size: int, *, earliest: str | None) -> None:
        entry = self.hudi.storage.find(path)
        if entry is None or entry.is_directory:
            if earliest is None or instant >= earliest:
                what = f"the file of change records is not there; commit {instant} wrote it"
                self.notes.error(path, what, "changes of that commit cannot be read; restore the file from a backup")
            return
        self.notes.count("change files")
        self.notes.count("bytes", entry.size)
        if size and entry.size < size:
            self.notes.error(path, f"has {entry.size} bytes, commit {instant} wrote {size}", _RESTORE)
        try:
            seen = set()
            for block in scan_blocks(self.hudi.storage, path):
                self._check_block(path, block)
                seen.add(block.instant_time)
            if instant not in seen:
                self.notes.error(path, f"holds no block of commit {instant}, which wrote it", _RESTORE)
        except HeadwaterError as error:
            self.notes.error(path, _said(error), _RESTORE)


def _said(error: HeadwaterError) -> str:
    return "is not there" if isinstance(error, MissingFile) else str(error)
