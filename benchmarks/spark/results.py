"""What a run found: figures by query and system, verdicts on the bars, and the JSON that keeps them."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.results import BUSY, machine
from benchmarks.spark.queries import HEADWATER, PARQUET, PEERS, Bar, Query

NOISY = 1.15
"""How far the second-best turn may be from the best: turns of one session differ less than processes do."""
SHORT = 0.02
"""Seconds below which a difference between two turns is the clock's and not the machine's."""
ROUNDING = 0.005
"""What two decimals cannot show: a ratio of 1.004 is 1.00."""

OVERRUN = 1.0
"""Cores used by others beyond which no figure counts, however clear it looks."""
CLEAR = 1.5
"""A figure this many times within or beyond its bar is so on a quiet machine too."""

Verdict = Literal["met", "missed", "no figure", "wrong answer", "noisy"]


@dataclass(frozen=True, slots=True)
class Figures:
    """One system on one query. Seconds are of the best turn; load and plan are their shares of it."""

    system: str
    seconds: tuple[float, ...] = ()
    load_seconds: float | None = None
    plan_seconds: float | None = None
    cpu_seconds: float | None = None
    """The least work that a turn took, of all processes of the session."""
    joins: tuple[str, ...] = ()
    right: bool = False
    error: str | None = None
    baseline: float | None = None
    """The best turn of plain Parquet in the session that this was measured in, where that was another one."""

    @property
    def best(self) -> float | None:
        return min(self.seconds, default=None)

    @property
    def spread(self) -> float | None:
        """The second-best turn over the best: a best that another turn confirms is not an accident."""
        ordered = sorted(self.seconds)
        if len(ordered) < 2:
            return None
        return 1.0 if ordered[1] - ordered[0] < SHORT else ordered[1] / ordered[0]

    @property
    def usable(self) -> bool:
        return self.error is None and self.right and bool(self.seconds)


@dataclass(frozen=True, slots=True)
class Checked:
    """A bar, the figure that it bounds and whether that is within it."""

    bar: Bar
    figure: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Result:
    """One query in one session."""

    query: Query
    figures: Mapping[str, Figures]
    busy: float | None = None
    """Cores that others used in the quietest round."""

    def ratio(self, system: str, against: str = PARQUET) -> float | None:
        """Best seconds of a system over those of another; of different sessions, as multiples of their baselines."""
        ours, theirs = self.figures.get(system), self.figures.get(against)
        if ours is None or theirs is None or not ours.usable or not theirs.usable:
            return None
        assert ours.best is not None
        assert theirs.best is not None
        if ours.baseline == theirs.baseline:
            return ours.best / theirs.best
        one, other = ours.baseline or self._baseline, theirs.baseline or self._baseline
        return (ours.best / one) / (theirs.best / other) if one and other else None

    @property
    def _baseline(self) -> float | None:
        found = self.figures.get(PARQUET)
        return found.best if found is not None and found.usable else None

    def with_others(self, other: Result) -> Result:
        """With the systems of another session that were asked the same."""
        theirs = {
            name: replace(found, baseline=other._baseline)
            for name, found in other.figures.items()
            if name not in self.figures
        }
        return replace(self, figures={**self.figures, **theirs})

    def work(self, system: str) -> float | None:
        """Processor time of a system over the baseline's."""
        ours, theirs = self.figures.get(system), self.figures.get(PARQUET)
        if ours is None or theirs is None or not ours.usable or not ours.cpu_seconds or not theirs.cpu_seconds:
            return None
        return ours.cpu_seconds / theirs.cpu_seconds

    @property
    def noisy(self) -> bool:
        """Whether what the bars rest on cannot be leaned on: turns differ, or others used the machine."""
        rested_on = [self.figures[name] for name in (PARQUET, HEADWATER) if name in self.figures]
        return (self.busy or 0) > BUSY or any((found.spread or 1) > NOISY for found in rested_on)

    @property
    def spoiled(self) -> bool:
        """Whether noise left a bar without a verdict."""
        return any(check.verdict == "noisy" for check in self.checks)

    def asked_again(self, second: Result) -> Result:
        """With the figures of a second session, unless noise spoiled those too."""
        found = replace(self, figures={**self.figures, **second.figures}, busy=second.busy)
        return self if found.spoiled else found

    @property
    def checks(self) -> list[Checked]:
        """The verdicts, of the bars whose systems took part."""
        measured = [bar for bar in self.query.bars if bar.against in self.figures]
        return [self._check(bar) for bar in measured] if HEADWATER in self.figures else []

    @property
    def out_of_reach(self) -> list[Checked]:
        """Missed bars to be several times as fast as a peer, which plain Parquet itself is not."""
        checks = [check for check in self.checks if check.bar.against in PEERS and check.bar.at_most < 1]
        missed = [check for check in checks if check.verdict == "missed"]
        return [check for check in missed if (self.ratio(PARQUET, check.bar.against) or 0) > check.bar.at_most]

    def _check(self, bar: Bar) -> Checked:
        ours = self.figures[HEADWATER]
        if ours.error is None and not ours.right:
            return Checked(bar, None, "wrong answer")
        found = ours.best if bar.measure == "seconds" else self.ratio(HEADWATER, bar.against)
        if found is None or not ours.usable:
            return Checked(bar, None, "no figure")
        within = found < bar.at_most + (ROUNDING if bar.measure == "ratio" else 0)
        overrun = (self.busy or 0) > OVERRUN
        if overrun or (self.noisy and bar.at_most / CLEAR < found < bar.at_most * CLEAR):
            return Checked(bar, found, "noisy")
        return Checked(bar, found, "met" if within else "missed")


def result(query: Query, answer: Mapping[str, Any]) -> Result:
    """Fold what a session said of a query into its figures."""
    told = answer["systems"]
    truth = told.get(PARQUET, {}).get("answer")
    figures = {name: _figures(name, told[name], truth) for name in query.systems if name in told}
    return Result(query, figures, min(answer["busy"], default=None))


def _figures(name: str, told: Mapping[str, Any], truth: Any) -> Figures:
    seconds = [round(value, 4) for value in told["seconds"]]
    best = seconds.index(min(seconds)) if seconds else 0

    def share(key: str) -> float | None:
        values = told.get(key) or []
        return round(values[best], 4) if best < len(values) else None

    return Figures(
        name,
        tuple(seconds),
        share("load_seconds"),
        share("plan_seconds"),
        round(min(told["cpu_seconds"]), 2) if told.get("cpu_seconds") else None,
        tuple(told.get("joins") or ()),
        truth is not None and agree(told.get("answer"), truth),
        told.get("error"),
    )


def agree(one: Any, other: Any) -> bool:
    """Whether two answers are the same; sums of doubles depend on the order of the rows in their last digits."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(agree(left, right) for left, right in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return type(one) is type(other) and bool(one == other)


def this_run() -> dict[str, Any]:
    """When and of which commit the figures of a session are."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"made_at": now.isoformat(timespec="seconds"), "commit": machine()["commit"]}


def with_later(earlier: Mapping[str, Any], later: Mapping[str, Any], queries: Sequence[str]) -> dict[str, Any]:
    """An earlier run of which a later one has asked some queries again."""
    parts = [
        part | {"queries": [name for name in part["queries"] if name not in queries]}
        for part in earlier.get("later", ())
    ]
    return {**earlier, "later": [*(part for part in parts if part["queries"]), {**later, "queries": list(queries)}]}


def run_of(spark: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a kept JSON, for one of its Sparks."""
    whole = {"made_at": document["made_at"], "commit": document["machine"]["commit"]}
    found: dict[str, Any] = document.get("runs", {}).get(spark, whole)
    return found


def write_json(path: Path, sessions: Mapping[str, Sequence[Result]], facts: Mapping[str, Any]) -> None:
    """Everything the run found, for other programs. Sessions are named by their version of Spark."""
    document = {
        "made_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine(),
        **facts,
        "sessions": [
            {"spark": spark, "queries": [as_json(found) for found in results]} for spark, results in sessions.items()
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def as_json(found: Result) -> dict[str, Any]:
    query = found.query
    return {
        "name": query.name,
        "title": query.title,
        "table": query.table,
        "sql": query.sql,
        "busy": found.busy,
        "noisy": found.noisy,
        "bars": [{"bar": str(check.bar), "figure": check.figure, "verdict": check.verdict} for check in found.checks],
        "systems": {name: asdict(one) | {"ratio": found.ratio(name)} for name, one in found.figures.items()},
    }


def read_json(path: Path, asked: Sequence[Query]) -> tuple[dict[str, list[Result]], dict[str, Any]]:
    """The sessions of an earlier run, with today's bars; queries that are no longer asked are left out."""
    document = json.loads(path.read_text())
    by_name = {query.name: query for query in asked}
    sessions: dict[str, list[Result]] = {}
    for session in document["sessions"]:
        found = sessions.setdefault(session["spark"], [])
        for told in session["queries"]:
            if told["name"] in by_name:
                figures = {name: _of_json(one) for name, one in told["systems"].items()}
                found.append(Result(by_name[told["name"]], figures, told["busy"]))
    return sessions, document


def _of_json(told: Mapping[str, Any]) -> Figures:
    given = {key: value for key, value in told.items() if key != "ratio"}
    return Figures(**{**given, "seconds": tuple(given["seconds"]), "joins": tuple(given["joins"])})
