"""Walking a whole table to see whether everything that its metadata names is there, opens and agrees.

Nothing is changed. `verify` goes on after a finding: one run tells all that is wrong.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, TypeAlias

from headwater.errors import HeadwaterError, MissingFile
from headwater.hudi.base_file import open_base_file
from headwater.hudi.file_names import PARTITION_MARKER, parse_log_file
from headwater.hudi.listing import FolderListing
from headwater.hudi.log import BlockType, LogBlock, read_data_block, read_delete_block, scan_blocks
from headwater.hudi.metadata_table.reader import COLUMN_STATS, RECORD_INDEX, MetadataTable
from headwater.hudi.metadata_table.records import ColumnStats, RecordLocation
from headwater.hudi.table import HudiTable
from headwater.hudi.timeline.instants import WRITE_ACTIONS
from headwater.hudi.view import Horizon, ListedFile, build_groups
from headwater.inspect import footer_statistics
from headwater.spec.model import FileSlice
from headwater.spec.statistics import ColumnStatistics
from headwater.table import Table

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being checked, how much of it is done, and how much there is."""

_READERS = 8
_RESTORE = "restore the file from a backup, or read the table as of an earlier commit"
_REBUILD = "rebuild the metadata table with Apache Hudi; until then open the table with metadata=False"


class Severity(Enum):
    """An error makes some read fail or give wrong rows; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be: how bad, where, what, and what to do."""

    severity: Severity
    where: str
    what: str
    todo: str

    def __str__(self) -> str:
        return f"{self.severity.value}: {self.where}: {self.what}; {self.todo}"


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` found, and how much it looked at."""

    table: str
    findings: tuple[Finding, ...]
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings are allowed."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    def __str__(self) -> str:
        looked = ", ".join(f"{count} {what}" for what, count in self.checked.items() if count)
        head = f"{self.table}: {'fine' if self.ok else 'damaged'} ({looked})"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])


def verify(table: Table, progress: Progress | None = None, *, deep: bool = False) -> VerifyReport:
    """Check a table as it is now.

    - What the active timeline and the history wrote down can be read.
    - Every file of the current slices is there, has the size that its commit wrote down, and opens: footers of base
      files, with the row count; every block of the log files, decoded. A corrupt block is a warning, because a writer
      that died leaves one behind and readers pass over it; a log file without a block of the commit that wrote to it
      is an error.
    - The metadata table lists the same files with the same sizes as the folders; its column statistics hold what the
      footers say; its record index points to file groups that exist.

    Parameters
    ----------
    progress
        Called now and then.
    deep
        Read every page of the base files too, not only their footers.

    >>> import headwater
    >>> from headwater.demo import demo_table
    >>> report = verify(headwater.open(demo_table("trips")))
    >>> report.ok, report.checked["base files"], report.checked["log files"], report.findings
    (True, 4, 6, ())
    """
    return _Verification(table.hudi, progress or (lambda what, done, total: None), deep).run()


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
    progress: Progress
    deep: bool
    findings: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> VerifyReport:
        if self._check_timeline():
            written = self._written()
            folders = FolderListing(self.hudi.storage, self.hudi.config)
            slices = self._slices(folders, written)
            self._check_files(slices, written)
            self._check_metadata_table(folders, slices)
        ordered = sorted(self.findings, key=lambda f: (f.severity is not Severity.ERROR, f.where))
        return VerifyReport(self.hudi.storage.uri, tuple(ordered), dict(self.checked))

    def count(self, what: str, number: int = 1) -> None:
        with self._lock:
            self.checked[what] += number

    def error(self, where: str, what: str, todo: str) -> None:
        self.findings.append(Finding(Severity.ERROR, where, what, todo))

    def warn(self, where: str, what: str, todo: str) -> None:
        self.findings.append(Finding(Severity.WARNING, where, what, todo))

    # The timeline

    def _check_timeline(self) -> bool:
        """Whether the timeline can be relied on to tell which files there should be."""
        timeline = self.hudi.timeline
        readable = True
        for done, instant in enumerate(timeline.completed(), 1):
            self.progress("timeline", done, len(timeline.completed()))
            try:
                if instant.action in WRITE_ACTIONS:
                    timeline.metadata(instant)
                else:
                    timeline.read(instant)
                self.count("actions")
            except HeadwaterError as error:
                readable &= instant.action not in WRITE_ACTIONS
                self.error(f"instant {instant}", _said(error), "without it no read is to be trusted: restore it")
        try:
            self.count("archived actions", len(timeline.history))
        except HeadwaterError as error:
            self.error("archived timeline", _said(error), "reads of old commits fail; restore the file")
        try:
            _ = self.hudi.schema
        except HeadwaterError as error:
            self.error("schema", _said(error), "restore the newest commit's file from a backup")
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
                self.error(
                    partition,
                    f"the partition has no {PARTITION_MARKER}: readers that list folders do not see it",
                    "write the marker file again, or restore it from a backup",
                )
        return found

    def _check_files(self, slices: Mapping[str, Sequence[FileSlice]], written: Mapping[str, _Written]) -> None:
        todo: list[Callable[[], None]] = []
        for slice_ in (slice_ for part in slices.values() for slice_ in part):
            self.count("slices")
            if slice_.base_file is not None:
                todo.append(partial(self._check_base, slice_.base_file.path, written.get(slice_.base_file.path)))
            todo += [partial(self._check_log, ref.path, written.get(ref.path)) for ref in slice_.delta_files]
        self._run("files", todo)

    def _run(self, what: str, todo: Sequence[Callable[[], None]]) -> None:
        """Checks side by side: most of their time is waiting for storage."""
        pool = ThreadPoolExecutor(_READERS)
        try:
            for done, _ in enumerate(pool.map(lambda check: check(), todo), 1):
                self.progress(what, done, len(todo))
        finally:
            pool.shutdown(cancel_futures=True)

    def _size(self, path: str, written: _Written | None) -> int | None:
        """The file's size, None where it is gone."""
        entry = self.hudi.storage.find(path)
        if entry is None or entry.is_directory:
            by = f"; commit {written.instant} wrote it" if written is not None else ""
            self.error(path, f"the file is not there{by}", _RESTORE)
            return None
        self.count("bytes", entry.size)
        return entry.size

    def _check_base(self, path: str, written: _Written | None) -> None:
        self.count("base files")
        size = self._size(path, written)
        if size is None:
            return
        if written is not None and written.size and written.size != size:
            self.error(path, f"has {size} bytes, commit {written.instant} wrote {written.size}", _RESTORE)
        try:
            file = open_base_file(self.hudi.storage, path)
            if self.deep:
                rows = sum(table.num_rows for _, table in file.batches(file.schema.names, file.row_groups))
                if rows != file.num_rows:
                    self.error(path, f"holds {rows} rows, its footer says {file.num_rows}", _RESTORE)
        except HeadwaterError as error:
            self.error(path, _said(error), _RESTORE)
            return
        self.count("rows in base files", file.num_rows)
        if written is not None and written.rows and written.rows != file.num_rows:
            self.error(path, f"has {file.num_rows} rows, commit {written.instant} wrote {written.rows}", _RESTORE)

    def _check_log(self, path: str, written: _Written | None) -> None:
        self.count("log files")
        size = self._size(path, written)
        if size is None:
            return
        if written is not None and written.size and size < written.size:
            self.error(path, f"has {size} bytes, commit {written.instant} left it at {written.size}", _RESTORE)
        try:
            seen = set()
            for block in scan_blocks(self.hudi.storage, path):
                self._check_block(path, block)
                seen.add(block.instant_time)
            if written is not None and written.instant not in seen:
                self.error(path, f"holds no block of commit {written.instant}, which wrote to it", _RESTORE)
        except HeadwaterError as error:
            self.error(path, _said(error), _RESTORE)

    def _check_block(self, path: str, block: LogBlock) -> None:
        self.count("log blocks")
        where = f"{path}, byte {block.offset}"
        if block.type is BlockType.CORRUPT:
            what = f"{block.length} bytes are no whole block, and readers pass over them"
            self.warn(where, what, "nothing to do if a writer died here; else restore the file from a backup")
            return
        if block.type is BlockType.COMMAND or not self.hudi.timeline.is_committed(block.instant_time or ""):
            return
        try:
            rows = len(read_delete_block(block) if block.type is BlockType.DELETE else read_data_block(block))
            positions = block.positions
        except HeadwaterError as error:
            self.error(where, _said(error), _RESTORE)
            return
        self.count("rows in logs", rows)
        if positions is not None and len(positions) and len(positions) != rows:
            self.error(where, f"holds {rows} records and {len(positions)} positions for them", _RESTORE)

    # The metadata table

    def _check_metadata_table(self, folders: FolderListing, slices: Mapping[str, Sequence[FileSlice]]) -> None:
        where = "metadata table"
        try:
            metadata = MetadataTable.open(self.hudi.timeline)
            if metadata is None:
                return
            if not metadata.is_current:
                self.warn(where, "does not know the newest commit, so readers leave it alone", _REBUILD)
                return
            self._check_listing(metadata, folders, slices)
        except HeadwaterError as error:
            self.error(where, _said(error), _REBUILD)
            return
        for index, check in ((COLUMN_STATS, self._check_statistics), (RECORD_INDEX, self._check_locations)):
            if metadata.has(index):
                try:
                    check(metadata, slices)
                except HeadwaterError as error:
                    self.error(f"{where}, {index}", _said(error), _REBUILD)

    def _check_listing(
        self, metadata: MetadataTable, folders: FolderListing, slices: Mapping[str, Sequence[FileSlice]]
    ) -> None:
        """Names and sizes, partition by partition. Only files of current slices can do harm to a read."""
        known = metadata.partitions()
        listed = metadata.files_of(known)
        for done, partition in enumerate(sorted(slices.keys() | listed.keys()), 1):
            self.progress("metadata table", done, len(slices.keys() | listed.keys()))
            there = {file.name: file.size for file in folders.files(partition)}
            theirs = {file.name: file.size for file in listed.get(partition, ())}
            self.count("files in the metadata table", len(theirs))
            used = _names(slices.get(partition, ()))
            for name in sorted(used & there.keys() - theirs.keys()):
                if self._counts(_join(partition, name)):
                    what = "is read when folders are listed, and the metadata table does not list it"
                    self.error(_join(partition, name), what, _REBUILD)
            would_use = _names(current_slices(self.hudi, partition, listed.get(partition, ())))
            for name in sorted(theirs.keys() - there.keys()):
                what = "the metadata table lists it, and it is not there"
                if name in would_use:
                    self.error(_join(partition, name), what, _REBUILD)
                else:
                    self.warn(_join(partition, name), f"{what}; no snapshot of now reads it", _REBUILD)
            for name in sorted(theirs.keys() & there.keys()):
                if theirs[name] != there[name]:
                    what = f"has {there[name]} bytes, the metadata table says {theirs[name]}"
                    (self.error if name in used else self.warn)(_join(partition, name), what, _REBUILD)

    def _counts(self, path: str) -> bool:
        """Whether a file holds rows of a completed commit. Before version 8, the name of a log file does not tell."""
        if parse_log_file(path.rsplit("/", 1)[-1]) is None or self.hudi.config.version >= 8:
            return True
        return any(self.hudi.timeline.is_committed(b.instant_time or "") for b in scan_blocks(self.hudi.storage, path))

    def _check_statistics(self, metadata: MetadataTable, slices: Mapping[str, Sequence[FileSlice]]) -> None:
        """The index's bounds must hold the footer's: a reader that trusts narrower ones loses rows."""
        bases = [s for part in slices.values() for s in part if s.base_file is not None]
        for done, slice_ in enumerate(bases, 1):
            self.progress("column statistics", done, len(bases))
            assert slice_.base_file is not None
            try:
                file = open_base_file(self.hudi.storage, slice_.base_file.path)
            except HeadwaterError:
                continue  # reported with the files
            footer = footer_statistics(file)
            place = (slice_.group.partition, slice_.base_file.name)
            stats = metadata.column_stats(list(footer), [place])
            for (_, _, column), theirs in stats.items():
                self.count("column statistics")
                for what in _contradictions(theirs, footer[column]):
                    self.error(f"{slice_.base_file.path}, column {column}", what, _REBUILD)

    def _check_locations(self, metadata: MetadataTable, slices: Mapping[str, Sequence[FileSlice]]) -> None:
        groups = {(s.group.partition, s.group.file_id) for part in slices.values() for s in part}
        astray: Counter[tuple[str, str]] = Counter()
        for location in metadata.scan(RECORD_INDEX).values():
            if isinstance(location, RecordLocation):
                self.count("record locations")
                if (location.partition, location.file_id) not in groups:
                    astray[location.partition, location.file_id] += 1
        for (partition, file_id), count in sorted(astray.items()):
            what = f"the record index places {count} records in this file group, and there is no such group"
            self.error(_join(partition, file_id), what, _REBUILD)


def current_slices(hudi: HudiTable, partition: str, files: Iterable[ListedFile]) -> list[FileSlice]:
    """The slices that a snapshot reads, were these the files of the partition."""
    groups = build_groups(partition, files, Horizon(hudi.timeline))
    return [latest for group in groups if (latest := group.latest()) is not None]


def _names(slices: Iterable[FileSlice]) -> set[str]:
    return {path.rsplit("/", 1)[-1] for slice_ in slices for path in slice_.paths}


def _join(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name


def _contradictions(theirs: ColumnStats, footer: ColumnStatistics) -> Iterable[str]:
    """What the index says of a column that the file's footer denies."""
    if theirs.is_deleted:
        yield "the column statistics call the file deleted"
        return
    if None not in (theirs.null_count, footer.null_count) and theirs.null_count != footer.null_count:
        yield f"the column statistics count {theirs.null_count} nulls, the footer {footer.null_count}"
    if None not in (theirs.value_count, footer.value_count) and theirs.value_count != footer.value_count:
        yield f"the column statistics count {theirs.value_count} values, the footer {footer.value_count}"
    if _exceeds(theirs.min, footer.minimum):
        yield f"the column statistics' least value is {theirs.min!r}, the footer's {footer.minimum!r}"
    if _exceeds(footer.maximum, theirs.max):
        yield f"the column statistics' greatest value is {theirs.max!r}, the footer's {footer.maximum!r}"


def _exceeds(left: Any, right: Any) -> bool:
    """Whether one bound is certainly greater than another; bounds of different kinds are not compared."""
    if left is None or right is None:
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


def _said(error: HeadwaterError) -> str:
    return "is not there" if isinstance(error, MissingFile) else str(error)
