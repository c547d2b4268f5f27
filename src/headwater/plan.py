"""A scan plan: a value that says which slices will be read, and what each planning pass left out and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.spec.expressions import Expression
from headwater.spec.model import ChangeSlice, FileSlice, Instant, PartitionDescriptor, ReadingMode


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One pass of planning: how much came in, how much was kept, and by what."""

    name: str
    total: int
    kept: int
    unit: str
    note: str = ""

    @property
    def skipped(self) -> int:
        return self.total - self.kept

    @property
    def amount(self) -> str:
        """How much was kept of how much."""
        return f"{self.kept} of {counted(self.total, self.unit)}"

    def __str__(self) -> str:
        text = f"{self.name}: {self.amount}"
        return f"{text} ({self.note})" if self.note else text


@dataclass(frozen=True, slots=True)
class ScanTask:
    """One slice to read."""

    partition: PartitionDescriptor
    slice: FileSlice | ChangeSlice


@dataclass(frozen=True)
class ScanPlan:
    """What a scan will do. Print it with `str(plan)`."""

    table: str
    mode: ReadingMode
    schema: pa.Schema = field(repr=False)
    instant: Instant | None
    instants: tuple[Instant, ...]
    """The commits of a range; empty for a snapshot."""
    filter: Expression | None
    limit: int | None
    steps: tuple[PlanStep, ...]
    tasks: tuple[ScanTask, ...] = field(repr=False)

    @property
    def bytes(self) -> int:
        """What lies on storage for the slices of the plan."""
        return sum(task.slice.size for task in self.tasks)

    def __str__(self) -> str:
        lines = [f"{self.mode.value} scan of {self.table}"]
        if self.instant is not None:
            lines.append(f"  as of      {self.instant.requested_at} ({self.instant.action})")
        if self.mode in (ReadingMode.INCREMENTAL, ReadingMode.CDC):
            lines.append(f"  commits    {_some([i.requested_at for i in self.instants])}")
        lines.append(f"  columns    {_some(self.schema.names)}")
        if self.filter is not None:
            lines.append(f"  filter     {self.filter}")
        if self.limit is not None:
            lines.append(f"  limit      {self.limit}")
        lines += [f"  {step}" for step in self.steps]
        lines.append(f"  read       {self.reads}, {_size(self.bytes)}")
        return "\n".join(lines)

    @property
    def reads(self) -> str:
        """How many slices are read, and how many of them merged."""
        text = counted(len(self.tasks), "slices")
        with_logs = sum(1 for t in self.tasks if isinstance(t.slice, FileSlice) and t.slice.delta_files)
        if not with_logs:
            return text
        return f"{text}, merged with its logs" if len(self.tasks) == 1 else f"{text}, {with_logs} of them with logs"


def counted(count: int, plural: str) -> str:
    """A number with its noun.

    >>> counted(1, "slices"), counted(2, "keys")
    ('1 slice', '2 keys')
    """
    return f"{count} {plural.removesuffix('s') if count == 1 else plural}"


def _some(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
