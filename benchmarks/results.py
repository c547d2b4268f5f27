"""What a run found: figures by query and system, verdicts on the targets, and the JSON that keeps them."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.measure import Measured
from benchmarks.queries import HEADWATER, Query, Target

GROWTH = {
    "ten times the files": ("plan_1k", "plan_10k"),
    "fifty times the partitions asked": ("plan_10k", "plan_10k_50"),
}

NOISY = 1.25
"""How far apart two processes of a system may be."""
BUSY = 0.3
"""How many cores others may use meanwhile, on average."""

Verdict = Literal["met", "missed", "no figure", "wrong answer", "not applicable", "noisy"]


@dataclass(frozen=True, slots=True)
class Figures:
    """One system on one query, over all its processes."""

    system: str
    best_seconds: float | None = None
    cold_seconds: float | None = None
    """The fastest first repetition: a new process, the operating system's cache warm."""
    warm_seconds: float | None = None
    peak_mb: float | None = None
    imported_mb: float | None = None
    rows: int | None = None
    checksum: float | None = None
    spread: float | None = None
    """The best of the second-best process over that of the best: what the machine's noise did, as far as it shows."""
    busy_elsewhere: float | None = None
    """Cores that other processes used meanwhile, in the quietest of the system's processes."""
    right: bool = False
    """Whether rows and checksum are those of the baseline."""
    error: str | None = None

    @property
    def usable(self) -> bool:
        return self.error is None and self.right and self.best_seconds is not None


@dataclass(frozen=True, slots=True)
class Check:
    """A target, the figure it bounds, and whether it holds."""

    target: Target
    figure: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Result:
    """One query: the figures of every system and the verdicts on Headwater's."""

    query: Query
    figures: Mapping[str, Figures]
    applicable: bool = True

    def ratio(self, system: str, against: str | None = None) -> float | None:
        """Best seconds of a system over those of another, of the baseline when none is named."""
        ours, theirs = self.figures.get(system), self.figures.get(against or self.query.baseline)
        if ours is None or theirs is None or not ours.usable or not theirs.usable:
            return None
        assert ours.best_seconds is not None
        assert theirs.best_seconds is not None
        return ours.best_seconds / theirs.best_seconds

    @property
    def checks(self) -> list[Check]:
        """The verdict on each target."""
        return [self._check(target) for target in self.query.targets]

    @property
    def noisy(self) -> bool:
        """Whether the times that the targets rest on cannot be leaned on: they vary, or others used the machine."""
        names = {HEADWATER, self.query.baseline, *(target.against for target in self.query.targets)}
        rested_on = [found for name, found in self.figures.items() if name in names]
        return any((f.spread or 1) > NOISY or (f.busy_elsewhere or 0) > BUSY for f in rested_on)

    def _check(self, target: Target) -> Check:
        ours = self.figures.get(HEADWATER)
        if not self.applicable:
            return Check(target, None, "not applicable")
        if ours is not None and ours.error is None and not ours.right:
            return Check(target, None, "wrong answer")
        found = self._figure(target)
        if found is None:
            return Check(target, None, "no figure")
        if self.noisy and target.measure in ("ratio", "warm_seconds"):
            return Check(target, found, "noisy")
        return Check(target, found, "met" if found <= target.at_most else "missed")

    def _figure(self, target: Target) -> float | None:
        """The figure that the target bounds."""
        ours, theirs = self.figures.get(HEADWATER), self.figures.get(target.against)
        if ours is None or not ours.usable:
            return None
        match target.measure:
            case "ratio":
                return self.ratio(HEADWATER, target.against)
            case "peak_mb":
                return ours.peak_mb
            case "warm_seconds":
                return ours.warm_seconds
            case "peak":
                known = theirs is not None and theirs.usable and theirs.peak_mb and ours.peak_mb
                return ours.peak_mb / theirs.peak_mb if known else None  # type: ignore[operator, union-attr]


def figures(system: str, measured: Sequence[Measured], truth: Measured | None) -> Figures:
    """Fold the processes of one system into its figures; `truth` is the baseline's answer."""
    good = [m for m in measured if m.error is None]
    error = next((m.error for m in measured if m.error), None if good else "not run")
    if not good:
        return Figures(system, error=error)
    warm = [s for m in good for s in m.seconds[1:]]
    return Figures(
        system,
        best_seconds=min(s for m in good for s in m.seconds),
        cold_seconds=min(m.seconds[0] for m in good),
        warm_seconds=min(warm) if warm else None,
        peak_mb=max(m.peak_mb for m in good if m.peak_mb is not None),
        imported_mb=good[0].imported_mb,
        rows=good[0].rows,
        checksum=good[0].checksum,
        spread=spread(good),
        busy_elsewhere=min((m.busy_elsewhere for m in good if m.busy_elsewhere is not None), default=None),
        right=truth is None or all(_agree(m, truth) for m in good),
        error=error,
    )


def spread(measured: Sequence[Measured]) -> float | None:
    """The second-best process over the best: a best that another process confirms is not an accident."""
    bests = sorted(min(m.seconds) for m in measured if m.error is None and m.seconds)
    return bests[1] / bests[0] if len(bests) > 1 else None


def _agree(one: Measured, other: Measured) -> bool:
    if one.rows != other.rows or one.checksum is None or other.checksum is None:
        return False
    # Sums of doubles depend on the order of the rows in their last digits.
    return math.isclose(one.checksum, other.checksum, rel_tol=1e-9)


def growth(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """How planning grows, by system: with ten times the table, and with fifty times the partitions asked for."""
    by_name = {result.query.name: result.figures for result in results}
    found: dict[str, dict[str, float]] = {}
    for meaning, (small, large) in GROWTH.items():
        for system, less in by_name.get(small, {}).items():
            more = by_name.get(large, {}).get(system)
            if more is not None and less.usable and more.usable and less.warm_seconds and more.warm_seconds:
                found.setdefault(system, {})[meaning] = more.warm_seconds / less.warm_seconds
    return found


def machine() -> dict[str, Any]:
    """The facts without which a figure means nothing."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    packages = ("pyarrow", "polars", "hudi", "headwater")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30, 1),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in packages},
        "commit": commit.stdout.strip() or None,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def write_json(path: Path, results: Sequence[Result], facts: Mapping[str, Any]) -> None:
    """Everything the run found, for other programs."""
    document = {
        "made_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine(),
        **facts,
        "planning_growth": growth(results),
        "queries": [_as_json(result) for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _as_json(result: Result) -> dict[str, Any]:
    query = result.query
    return {
        "name": query.name,
        "title": query.title,
        "kind": query.kind,
        "table": query.table,
        "columns": list(query.columns),
        "where": [
            [column, op, value if isinstance(value, (str, int)) else len(value)] for column, op, value in query.where
        ],
        "baseline": query.baseline,
        "targets": [
            {"target": str(check.target), "figure": check.figure, "verdict": check.verdict} for check in result.checks
        ],
        "noisy": result.noisy,
        "systems": {name: asdict(found) | {"ratio": result.ratio(name)} for name, found in result.figures.items()},
    }
