"""The memory that a process tree takes while something runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path


class PeakMemory:
    """The peak of the memory of some processes and all that they started, at five looks a second, in MB."""

    def __init__(self, roots: Iterable[int] = ()) -> None:
        self._roots = {os.getpid(), *roots}
        self._stop = threading.Event()
        self.peak = 0

    def __enter__(self) -> PeakMemory:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, self._now())

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            self.peak = max(self.peak, self._now())

    def _now(self) -> int:
        parents: dict[int, int] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1])
                except (OSError, ValueError, IndexError):
                    continue
        ours, grown = set(self._roots), True
        while grown:
            more = {pid for pid, parent in parents.items() if parent in ours} - ours
            grown = bool(more)
            ours |= more
        return sum(_proportional_kb(pid) for pid in ours) // 1024


def _proportional_kb(pid: int) -> int:
    """A process's memory, of pages that it shares with others its part: workers are forks of one process."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return 0
