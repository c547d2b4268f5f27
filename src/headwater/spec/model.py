"""The vocabulary of the Table Spec API: frozen values, neutral to table format and query engine.

>>> slice_ = FileSlice(FileGroupId("city=sf", "f1"), "20260101000000000", base_file=FileRef("city=sf/f1.parquet", 100))
>>> slice_.paths
('city=sf/f1.parquet',)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.spec.statistics import ColumnStatistics


class ReadingMode(Enum):
    """What a read represents."""

    SNAPSHOT = "snapshot"
    """The table at an instant."""
    SNAPSHOT_READ_OPTIMIZED = "read_optimized"
    """The table at an instant, by its base files alone."""
    INCREMENTAL = "incremental"
    """The rows that changed in a range of instants, as they were at its end."""
    CDC = "cdc"
    """Each change of a range of instants, with the row before and after it."""


class InstantState(Enum):
    """How far an action has come."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """One action on the table: asked for at one time, completed (perhaps) at a later one.

    Times are texts that sort as the times do.

    >>> Instant("20260101000000000", "commit", completed_at="20260101000002000").is_completed
    True
    """

    requested_at: str
    action: str = ""
    state: InstantState = field(default=InstantState.COMPLETED, compare=False)
    completed_at: str | None = field(default=None, compare=False)

    @property
    def is_completed(self) -> bool:
        return self.state is InstantState.COMPLETED

    def __str__(self) -> str:
        return f"{self.requested_at}.{self.action}" + ("" if self.is_completed else f".{self.state.value}")


@dataclass(frozen=True, slots=True, order=True)
class FileGroupId:
    """A batch of records that stay together: a partition and an id within it."""

    partition: str
    file_id: str

    def __str__(self) -> str:
        return f"{self.partition}/{self.file_id}" if self.partition else self.file_id


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of the table: its path below the table's root, and its size where known."""

    path: str
    size: int | None = None

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One version of a file group: a base file and the delta files to be merged over it.

    `instants` narrows the slice to rows written by these actions (an incremental read); None means all of them.
    `as_of` ends it: a file may go on after the instant that was asked for; what was written later is no part of it.
    """

    group: FileGroupId
    base_instant: str
    base_file: FileRef | None = None
    delta_files: tuple[FileRef, ...] = ()
    instants: frozenset[str] | None = None
    as_of: str | None = None
    statistics: Mapping[str, ColumnStatistics] | None = field(default=None, compare=False, repr=False)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file of the slice, base file first."""
        base = () if self.base_file is None else (self.base_file.path,)
        return base + tuple(file.path for file in self.delta_files)

    @property
    def size(self) -> int:
        """Bytes on storage, as far as known."""
        files = self.delta_files if self.base_file is None else (self.base_file, *self.delta_files)
        return sum(file.size or 0 for file in files)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """All versions of a batch of records, ordered by the instant they were committed at."""

    id: FileGroupId
    slices: tuple[FileSlice, ...]
    timeline: tuple[Instant, ...] = ()
    """The completed actions that touched this group."""

    def latest(self) -> FileSlice | None:
        return self.slices[-1] if self.slices else None


@dataclass(frozen=True, slots=True)
class PartitionDescriptor:
    """A partition: its relative path, and the typed values of its columns."""

    path: str
    columns: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()

    def as_mapping(self) -> dict[str, Any]:
        return dict(zip(self.columns, self.values, strict=True))


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """A partition at an instant: the slices that are current there."""

    partition: PartitionDescriptor
    latest_instant: Instant | None
    slices: tuple[FileSlice, ...]


@dataclass(frozen=True, slots=True)
class PartitionIncrementalSnapshot:
    """A partition at the end of a range of actions, with only what those actions wrote."""

    partition: PartitionDescriptor
    timeline: tuple[Instant, ...]
    slices: tuple[FileSlice, ...]


class ChangeKind(Enum):
    """How the changes of one file group in one action are to be had."""

    LOGGED = "logged"
    """Change records were written: read them."""
    INSERTED = "inserted"
    """The base file holds new rows only."""
    DELETED = "deleted"
    """Every row of the former slice is gone."""
    MERGED = "merged"
    """Compare the former slice with the records that the action wrote."""


@dataclass(frozen=True, slots=True)
class ChangeSlice:
    """What one action changed in one file group."""

    group: FileGroupId
    instant: Instant
    kind: ChangeKind
    change_files: tuple[FileRef, ...] = ()
    before: FileSlice | None = None
    after: FileSlice | None = None

    @property
    def size(self) -> int:
        """Bytes on storage of all that may be read to tell the changes, each file once, as far as known."""
        files = {file.path: file.size or 0 for file in self.change_files}
        for slice_ in (self.before, self.after):
            if slice_ is not None:
                base = () if slice_.base_file is None else (slice_.base_file,)
                files |= {file.path: file.size or 0 for file in (*base, *slice_.delta_files)}
        return sum(files.values())


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """The changes of one partition in a range, in the order they were made."""

    partition: PartitionDescriptor
    timeline: tuple[Instant, ...]
    changes: tuple[ChangeSlice, ...]
