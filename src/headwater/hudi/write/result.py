"""What a write did: rows, files, bytes, and where the time went."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from headwater.hudi.write.model import WrittenFile
from headwater.spec.model import Instant

_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class WriteResult:
    """The outcome of one write. Printed, it is a few lines.

    `instant` is None where there was nothing to write and so nothing was committed.

    >>> print(WriteResult("upsert", Instant("20260101000000000", "commit"), inserted=1, updated=2,
    ...                   seconds={"tag": 0.25, "write": 1.5}))
    upsert 20260101000000000.commit: 1 row inserted, 2 updated, 0 deleted
      no files
      1.75 s: tag 0.25, write 1.50
    """

    operation: str
    instant: Instant | None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files: tuple[WrittenFile, ...] = ()
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Partition → file groups whose rows are gone."""
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Bytes of data files written."""
        return sum(file.size for file in self.files)

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    def __str__(self) -> str:
        inserted = f"{self.inserted:,} {'row' if self.inserted == 1 else 'rows'} inserted"
        counts = f"{inserted}, {self.updated:,} updated, {self.deleted:,} deleted"
        lines = [f"{self.operation} {self.instant if self.instant is not None else '(nothing to commit)'}: {counts}"]
        base = sum(not file.is_log for file in self.files)
        logs = len(self.files) - base
        kinds = [f"{n} {name}{'' if n == 1 else 's'}" for n, name in ((base, "base file"), (logs, "log file")) if n]
        gone = sum(map(len, self.replaced.values()))
        files = f"{', '.join(kinds)}, {_shown(self.bytes)}" if kinds else "no files"
        lines.append(f"  {files}" + (f"; {gone} file group{'' if gone == 1 else 's'} replaced" if gone else ""))
        phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.seconds.items())
        if phases:
            lines.append(f"  {self.total_seconds:.2f} s: {phases}")
        return "\n".join(lines)


@dataclass(frozen=True)
class RollbackResult:
    """What a rollback undid. Printed, it is a few lines.

    >>> undone = Instant("20260101000000000", "commit")
    >>> print(RollbackResult(Instant("20260101000001000", "rollback"), undone, ("a.parquet",)))
    rollback 20260101000001000.rollback: 20260101000000000.commit no longer counts
      1 data file deleted
    """

    instant: Instant
    """The rollback's own."""
    undone: Instant
    """The write that no longer counts."""
    files: tuple[str, ...] = ()
    """Data files that were deleted, relative to the table."""
    taken_back: tuple[str, ...] = ()
    """Log files of version 6 that stay, with a block behind them that takes the write's rows back."""

    def __str__(self) -> str:
        count = len(self.files)
        lines = [f"rollback {self.instant}: {self.undone} no longer counts"]
        lines.append(f"  {count:,} data file{'' if count == 1 else 's'} deleted")
        if self.taken_back:
            lines[-1] += f", {len(self.taken_back):,} taken back by a block in the log"
        return "\n".join(lines)


class Stopwatch:
    """Seconds by phase; a phase that comes twice adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def _shown(size: float) -> str:
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
