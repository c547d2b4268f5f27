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
from benchmarks.queries import HEADWATER, Query

GROWTH = {
    "ten times the files": ("plan_1k", "plan_10k"),
    "fifty times the partitions asked": ("plan_10k", "plan_10k_50"),
}

NOISY = 1.25

Verdict = Literal["met", "missed", "no figure", "wrong answer", "not applicable", ""]


@dataclass(frozen=True, slots=True)
class Figures:
    """One system on one query, over all its processes."""

    system: str
    best_seconds: float | None
    cold_seconds: float | None
    """The fastest first repetition: a new process, the operating system's cache warm."""
    warm_seconds: float | None
    peak_mb: float | None
    imported_mb: float | None
    rows: int | None
    checksum: float | None
    spread: float | None
    """The slowest process's best over the fastest one's: what the machine's noise did, as far as it shows."""
    right: bool
    """Whether rows and checksum are those of the baseline."""
    error: str | None

    @property
    def usable(self) -> bool:
        return self.error is None and self.right and self.best_seconds is not None


@dataclass(frozen=True, slots=True)
class Result:
    """One query: the figures of every system and the verdict on Headwater's."""

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
    def measured_against_target(self) -> float | None:
        """The figure that the target bounds."""
        target, ours = self.query.target, self.figures.get(HEADWATER)
        if target is None or ours is None or not ours.usable:
            return None
        theirs = self.figures.get(target.against)
        match target.measure:
            case "ratio":
                return self.ratio(HEADWATER, target.against)
            case "peak_mb":
                return ours.peak_mb
            case "warm_seconds":
                return ours.warm_seconds
            case "peak":
                usable = theirs is not None and theirs.usable and theirs.peak_mb and ours.peak_mb
                return ours.peak_mb / theirs.peak_mb if usable else None  # type: ignore[operator, union-attr]

    @property
    def noisy(self) -> bool:
        """Whether the times that the target rests on varied too much to lean on."""
        target = self.query.target
        names = {HEADWATER, self.query.baseline} | ({target.against} if target else set())
        return any(found.spread is not None and found.spread > NOISY for n, found in self.figures.items() if n in names)

    @property
    def verdict(self) -> Verdict:
        ours = self.figures.get(HEADWATER)
        if self.query.target is None or ours is None:
            return ""
        if not self.applicable:
            return "not applicable"
        if ours.error is None and not ours.right:
            return "wrong answer"
        found = self.measured_against_target
        if found is None:
            return "no figure"
        return "met" if found <= self.query.target.at_most else "missed"


def figures(system: str, measured: Sequence[Measured], truth: Measured | None) -> Figures:
    """Fold the processes of one system into its figures; `truth` is the baseline's answer."""
    good = [m for m in measured if m.error is None]
    if not good:
        error = next((m.error for m in measured if m.error), "not run")
        return Figures(system, None, None, None, None, None, None, None, None, right=False, error=error)
    warm = [s for m in good for s in m.seconds[1:]]
    error = next((m.error for m in measured if m.error), None)
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
        right=truth is None or all(_agree(m, truth) for m in good),
        error=error,
    )


def spread(measured: Sequence[Measured]) -> float | None:
    """How far the bests of a system's processes are apart."""
    bests = [min(m.seconds) for m in measured if m.error is None and m.seconds]
    return max(bests) / min(bests) if bests else None


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
        "target": str(query.target) if query.target else None,
        "measured": result.measured_against_target,
        "verdict": result.verdict,
        "noisy": result.noisy,
        "systems": {name: asdict(found) | {"ratio": result.ratio(name)} for name, found in result.figures.items()},
    }
