"""How much of the machine others use: all cores' work less that of our own processes. Standard library only."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clocks:
    """Now, the seconds that all cores have worked, and those that this process and its descendants have."""

    wall: float
    everybody: float
    ours: float
    processes: frozenset[int] = frozenset()
    """This process and its descendants: the work of one that ends may go with it."""

    @staticmethod
    def now() -> Clocks | None:
        """The clocks; unknown where there is no /proc."""
        try:
            with open("/proc/stat") as file:
                user, nice, system, _idle, _wait, irq, softirq = (int(part) for part in file.readline().split()[1:8])
            ticks = _ticks_below(os.getpid())
        except (OSError, ValueError):
            return None
        tick = os.sysconf("SC_CLK_TCK")
        everybody = (user + nice + system + irq + softirq) / tick
        return Clocks(time.perf_counter(), everybody, sum(ticks.values()) / tick, frozenset(ticks))


def our_work(before: Clocks | None, after: Clocks | None) -> float | None:
    """Seconds that our processes worked between two moments; unknown where one of them ended meanwhile."""
    if before is None or after is None or before.processes - after.processes:
        return None
    return after.ours - before.ours


def busy_elsewhere(before: Clocks | None, after: Clocks | None) -> float | None:
    """Cores that other processes used on average between two moments."""
    ours = our_work(before, after)
    if before is None or after is None or ours is None or after.wall <= before.wall:
        return None
    others = (after.everybody - before.everybody) - ours
    return max(0.0, others / (after.wall - before.wall))


def _ticks_below(root: int) -> dict[int, int]:
    """Work of a process and of all below it, including children that have ended and were waited for."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    # The name may hold blanks and brackets; what follows its last bracket is regular.
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry)] = int(fields[1])
            ticks[int(entry)] = sum(int(part) for part in fields[11:15])
    return {pid: work for pid, work in ticks.items() if _is_below(pid, root, parents)}


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid not in (0, root):
        pid = parents.get(pid, 0)
    return pid == root
