"""Readers in Spark, side by side: `python -m benchmarks.spark`, run by `make bench-spark`.

Makes the tables it needs, lets the systems take turns in a session for each table (with `--peers` in more of them, on
Spark 3.5 with Apache Hudi and with Apache Iceberg), and leaves printed tables, `results/spark.json` and a picture.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.spark import document, iceberg, report, results, session, tables
from benchmarks.spark.queries import (
    FALLBACK,
    HEADWATER,
    HUDI,
    ICEBERG,
    PARQUET,
    STABLE,
    SYSTEMS,
    Query,
    beside,
    by_table,
    chosen,
    less,
    needed_tables,
    queries,
)
from benchmarks.tables.build import Choice

HERE = Path(__file__).parents[1]
WIDTH = 190
"""Of the printed tables where there is no terminal to ask."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = _arguments(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    if given.document:
        sessions, facts = results.read_json(given.results / "spark.json", queries(given.rows))
        document.write(given.document, document.render(sessions, facts))
        console.print(f"written: {given.document}", highlight=False)
        return 0
    started, load = time.perf_counter(), os.getloadavg()

    def progress(message: str) -> None:
        console.print(f"[dim]{time.perf_counter() - started:6.0f} s[/dim]  {message}", highlight=False)

    needed = needed_tables(chosen(queries(given.rows), given.only, given.systems, peers=False))
    found = tables.have(given.data, given.environment, given.rows, given.source, needed, progress)
    if given.tables_only:
        return 0
    effort = session.Effort(given.rounds, given.patience, given.timeout, session.memory_for(given.rows))
    caption = f"{given.rows:,} rows; tables {found.note}; best of {given.rounds} turns"
    sessions: dict[str, list[results.Result]] = {}
    facts: dict[str, Any] = {
        "load_average_at_start": [round(value, 2) for value in load],
        "rows": given.rows,
        "tables": found.source,
        "tables_note": found.note,
        "rounds": given.rounds,
        "cores_of_spark": session.CORES,
        "memory_of_spark": effort.memory,
    }
    kept = given.results / "spark.json"
    if given.noisy:
        sessions, facts = results.read_json(kept, queries(given.rows))
    elif given.add and kept.exists():
        sessions, earlier = results.read_json(kept, queries(given.rows))
        facts["runs"] = {spark: results.run_of(spark, earlier) for spark in sessions}
        facts["asked_again"] = earlier.get("asked_again", [])
    took = facts.get("took_seconds", 0)
    in_order = [query.name for query in queries(given.rows)]
    begun: set[str] = set()

    def keep() -> None:
        """After every query, so that a run that is cut off leaves what it found."""
        facts["took_seconds"] = round(took + time.perf_counter() - started)
        for measured in sessions.values():
            measured.sort(key=lambda one: in_order.index(one.query.name))
        results.write_json(kept, sessions, facts)

    def begin(spark: str) -> None:
        """The first result of a Spark in this run: what an earlier one found for its queries goes."""
        if spark not in begun and not given.noisy:
            asked = {query.name for _, _, queried in planned for query in queried}
            left = [one for one in sessions.get(spark, ()) if one.query.name not in asked]
            sessions[spark], run = left, results.this_run()
            runs = facts.setdefault("runs", {})
            runs[spark] = results.with_later(runs[spark], run, sorted(asked)) if left else run
        begun.add(spark)

    log = given.data / "spark-session.log"
    log.unlink(missing_ok=True)
    planned = _sessions(given, found, progress)

    def ask(wanted: Callable[[Query], bool], take: Callable[[list[results.Result], results.Result], None]) -> None:
        for environment, told, queried in planned:
            asked = [query for query in queried if wanted(query)]
            for spark, number, result in _run(asked, told, environment, effort, log, progress):
                begin(spark)
                take(sessions[spark], result)
                progress(f"[{number}/{len(asked)}] {_line(result)}".replace("[", "\\["))
                keep()

    if not given.noisy:
        ask(lambda query: True, _add)
    asked = sessions if given.noisy else begun
    spoiled = {result.query.name for spark in asked for result in sessions[spark] if result.spoiled}
    if spoiled:
        progress(f"once more, because of noise: {', '.join(sorted(spoiled))}")
        facts["asked_again"] = sorted(spoiled.union(facts.get("asked_again", ())))
        ask(lambda query: query.name in spoiled and HEADWATER in query.systems, _put_in_place)
    for spark, measured in sessions.items():
        report.print_session(console, spark, measured, caption)
    report.plot(given.results / "spark.png", sessions, caption)
    progress(f"written: {kept}, {given.results / 'spark.png'}")
    return 0


def _put_in_place(measured: list[results.Result], result: results.Result) -> None:
    """A query's second answer, where noise spoiled the first in this Spark."""
    for index, earlier in enumerate(measured):
        if earlier.query.name == result.query.name and earlier.spoiled:
            measured[index] = earlier.asked_again(result)


def _add(measured: list[results.Result], result: results.Result) -> None:
    """Keep a result, together with that of the same query in an earlier session of the same Spark."""
    for index, earlier in enumerate(measured):
        if earlier.query.name == result.query.name:
            measured[index] = earlier.with_others(result)
            return
    measured.append(result)


def _sessions(
    given: argparse.Namespace, found: tables.Tables, progress: tables.Progress
) -> list[tuple[session.Environment, tables.Tables, list[Query]]]:
    """The sessions of a run: this environment's Spark, and with peers Spark 3.5 with Apache Hudi, then with Iceberg.

    Each table has a session of its own: what the JVM has learned from queries on one decides how it compiles the code
    for the next, and compiled code that a system brings along from there would be compared with code that it does not.
    The fallback and Iceberg have further ones, for their kinds of column vectors slow down the code that others share.
    """
    asked = queries(given.rows)
    planned = []
    if given.peers != "only":
        ours = chosen(asked, given.only, given.systems, peers=False)
        here = session.Environment(Path(sys.executable))
        planned += [(here, found, group) for group in by_table(less(ours, FALLBACK))]
        planned += [(here, found, group) for group in by_table(beside(ours, FALLBACK))]
    if given.peers:
        if found.jar is None:
            raise SystemExit(f"PEERS needs Apache Hudi; the tables are {found.note}")
        wanted = [name for name in given.systems or (HEADWATER, STABLE, HUDI, ICEBERG) if name != FALLBACK]
        theirs = chosen(asked, given.only, wanted, peers=True)
        python = given.environment / "bin" / "python"
        with_hudi = session.peers_environment(python, found.jar)
        planned += [(with_hudi, found, group) for group in by_table(less(theirs, ICEBERG))]
        beside_iceberg = beside(theirs, ICEBERG)
        if beside_iceberg:
            jar, table = iceberg.have(given.data, given.environment, given.rows, progress)
            with_iceberg = session.Environment(python, (jar,), configure=False)
            planned += [(with_iceberg, replace(found, iceberg=table), group) for group in by_table(beside_iceberg)]
    return planned


def _run(
    asked: Sequence[Query],
    found: tables.Tables,
    environment: session.Environment,
    effort: session.Effort,
    log: Path,
    progress: tables.Progress,
) -> Iterator[tuple[str, int, results.Result]]:
    """The results of a session, each with the version of Spark and its number."""
    version = ""

    def started(spark: str) -> None:
        nonlocal version
        version = spark
        progress(f"Spark {spark}, {asked[0].table}: {len(asked)} queries")

    by_name = {query.name: query for query in asked}
    for number, answer in enumerate(session.measure(asked, found, environment, effort, log, started), 1):
        yield version, number, results.result(by_name[answer["query"]], answer)


def _line(result: results.Result) -> str:
    def one(system: str) -> str:
        if system == PARQUET:
            best = result.figures[PARQUET].best
            return f"{system} {best:.2f} s" if best is not None else f"{system} –"
        ratio = result.ratio(system)
        return f"{system} {report.times(ratio)}" if ratio is not None else f"{system} –"

    work = result.work(HEADWATER)
    told = [one(system) for system in result.figures] + ([f"CPU {report.times(work)}"] if work is not None else [])
    return f"{result.query.title}: {', '.join(told)}"


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--source", choices=Choice.__args__, default="auto", help="who writes the Hudi tables")  # type: ignore[attr-defined]
    parser.add_argument("--only", nargs="*", default=[], help="only the queries whose name contains one of these")
    parser.add_argument("--systems", nargs="*", default=[], help=f"only these, of: {', '.join(SYSTEMS)}")
    parser.add_argument("--rounds", type=int, default=6, help="timed turns of each system, after a warm-up")
    parser.add_argument("--patience", type=float, default=6.0, help="seconds after which a slow system takes no turn")
    parser.add_argument("--timeout", type=float, default=120.0, help="of one run of one query")
    parser.add_argument(
        "--peers",
        nargs="?",
        const="too",
        choices=("too", "only"),
        help="further sessions, on Spark 3.5 beside Apache Hudi and Apache Iceberg; `only` leaves the first ones out",
    )
    parser.add_argument("--tables-only", action="store_true", help="make the tables and stop")
    parser.add_argument(
        "--add", action="store_true", help="keep what the JSON has of Sparks and queries that this run does not ask"
    )
    parser.add_argument("--noisy", action="store_true", help="ask only what noise spoiled in the kept JSON once more")
    parser.add_argument("--document", type=Path, help="write the page from the kept JSON and stop")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--environment", type=Path, default=HERE.parent / ".venv-peers")
    found = parser.parse_args(given)
    unknown = [name for name in found.systems if name not in SYSTEMS]
    if unknown:
        parser.error(f"no system {unknown[0]!r}; known: {', '.join(SYSTEMS)}")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
