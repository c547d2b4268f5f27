"""One Spark session in which the systems take turns on each query. Needs pyspark only.

Usage: python -m benchmarks.spark.session_job <file with the order as JSON>. One line of JSON on standard output for
each query, as soon as it is measured, so that a session that dies loses no more than the query it was in.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.spark.noise import Clocks, busy_elsewhere, our_work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARK = "MEASURED "
ROUNDS_TO_COMPILE = 4
"""Turns more for the first query of a session: the JVM goes on compiling for about so many scans."""
BRIEF = 2.5
"""Seconds of a round of all systems below which a query gets twice the turns: noise soon hides a tenth of a second."""
_JOIN = re.compile(r"\b(BroadcastHashJoin|SortMergeJoin|ShuffledHashJoin|BroadcastNestedLoopJoin)\b")

Order = dict[str, Any]


@dataclass(slots=True)
class Turns:
    """What one system did on one query."""

    seconds: list[float] = field(default_factory=list)
    load_seconds: list[float] = field(default_factory=list)
    """The share of opening the table, before Spark has seen the query."""
    plan_seconds: list[float] = field(default_factory=list)
    """The share of planning; unknown for the noop sink, which plans inside."""
    cpu_seconds: list[float] = field(default_factory=list)
    """Work of the session's processes, sidecars included: it shows through the noise of a busy machine."""
    warm_up_seconds: float | None = None
    answer: list[Any] | None = None
    joins: list[str] = field(default_factory=list)
    error: str | None = None


class Runner:
    """Runs queries on a session for one system after another."""

    def __init__(self, spark: SparkSession, order: Order) -> None:
        self.spark, self.order = spark, order
        self.systems: dict[str, Order] = {system["name"]: system for system in order["systems"]}

    def measure(self, query: Order, rounds: int) -> Order:
        """Every system on one query: a warm-up that also gives the answer to compare, then the timed turns."""
        turns = {given["system"]: Turns() for given in query["given"]}
        # What the queries before have left, broadcast tables above all, is not this one's to clean up.
        self.spark._jvm.System.gc()
        busy: list[float] = []
        for given in query["given"]:
            self._guarded(turns[given["system"]], lambda found, given=given: self._warm_up(query, given, found))
        done, started = 0, time.perf_counter()
        while done < rounds or (done < 2 * rounds and time.perf_counter() - started < done * BRIEF):
            done += 1
            before = Clocks.now()
            for given in query["given"]:
                found = turns[given["system"]]
                if given["system"] in self.order["tireless"] or self._has_patience(found):
                    self._guarded(found, lambda found, given=given: self._turn(query, given, found))
            used = busy_elsewhere(before, Clocks.now())
            if used is not None:
                busy.append(round(used, 2))
        return {"query": query["name"], "busy": busy, "systems": {name: asdict(found) for name, found in turns.items()}}

    def _has_patience(self, found: Turns) -> bool:
        """Whether a slow system gets another turn: one it always gets, more only while it has used little time."""
        return not found.seconds or sum(found.seconds) + (found.warm_up_seconds or 0) < self.order["patience"]

    def _guarded(self, found: Turns, action: Any) -> None:
        """Do something unless the system failed before; a failure or a run that takes too long is its result."""
        if found.error:
            return
        timer = threading.Timer(self.order["timeout"], self.spark.sparkContext.cancelAllJobs)
        timer.start()
        try:
            action(found)
        except Exception as error:
            told = str(error).strip().splitlines() or [""]
            found.error = f"{type(error).__name__}: {told[0][:400]}"
            print(f"{found.error}\n{error}", file=sys.stderr, flush=True)
        finally:
            timer.cancel()

    def _warm_up(self, query: Order, given: Order, found: Turns) -> None:
        started = time.perf_counter()
        with self._configured(given["system"]):
            frame = self._frame(query["check_sql"] or query["sql"], given)
            found.answer = [[_plain(value) for value in row] for row in frame.collect()]
            found.joins = joins(_plan(frame))
        if query["check"] == "rows":
            found.answer = [[len(found.answer)]]
        found.warm_up_seconds = time.perf_counter() - started

    def _turn(self, query: Order, given: Order, found: Turns) -> None:
        with self._configured(given["system"]):
            before = Clocks.now()
            started = time.perf_counter()
            views = self._load(given)
            loaded = time.perf_counter()
            frame = self.spark.sql(query["sql"].format(**views))
            planned = None
            if query["sink"] == "noop":
                frame.write.format("noop").mode("overwrite").save()
            else:
                execution = frame._jdf.queryExecution()
                execution.executedPlan()
                planned = time.perf_counter()
                if query["sink"] == "plan":
                    execution.toRdd().getNumPartitions()
                else:
                    frame.collect()
            ended = time.perf_counter()
            after = Clocks.now()
        found.seconds.append(ended - started)
        work = our_work(before, after)
        if work is not None:
            found.cpu_seconds.append(work)
        found.load_seconds.append(loaded - started)
        if planned is not None:
            found.plan_seconds.append(planned - loaded)

    def _frame(self, sql: str, given: Order) -> DataFrame:
        return self.spark.sql(sql.format(**self._load(given)))

    def _load(self, given: Order) -> dict[str, str]:
        """Open every table that the query names; the names of their views."""
        system, views = self.systems[given["system"]], {}
        for name, path in given["paths"].items():
            views[name] = f"bench_{name}"
            frame = self.spark.read.format(system["format"]).options(**system["options"]).load(path)
            frame.createOrReplaceTempView(views[name])
        return views

    @contextmanager
    def _configured(self, system: str) -> Iterator[None]:
        settings = self.systems[system]["settings"]
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self.spark.conf.unset(key)


def joins(plan: str) -> list[str]:
    """The joins that a plan chose, those of the plan before adaptive changes first; equal ones once."""
    final, _, initial = plan.partition("== Initial Plan ==")
    return list(dict.fromkeys([*_JOIN.findall(initial), *_JOIN.findall(final)]))


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, type(None))) else str(value)


def session(order: Order) -> SparkSession:
    """A session with the settings of the order, and Headwater's own where `configure` says so."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if order["configure"]:
        import headwater

        builder = headwater.configure(builder)
    for key, value in order["settings"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    spark = session(order)
    runner = Runner(spark, order)
    print(MARK + json.dumps({"spark": spark.version}), flush=True)
    for number, query in enumerate(order["queries"]):
        rounds = order["rounds"] + (0 if number else ROUNDS_TO_COMPILE)
        print(MARK + json.dumps(runner.measure(query, rounds)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
