"""Readers without a JVM, side by side: `python -m benchmarks.embedded`, run by `make bench`.

Makes the tables it needs, measures every (system, query) in processes of their own, and leaves a printed table,
`results/embedded.json` and `results/embedded.png`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import report, results
from benchmarks.measure import Measured, run
from benchmarks.queries import HUDI_RS, HUDI_RS_READ, PLAIN, Query, queries
from benchmarks.systems import Job
from benchmarks.tables import rows
from benchmarks.tables.build import MANY, Choice, Tables, build
from benchmarks.tables.generated import ManyFiles

HERE = Path(__file__).parent
TABLE_TO_BUDGET = 10
"""The budget test's table is this many times its budget."""
MIN_BUDGET_MB = 16
WIDTH = 150
"""Of the printed tables where there is no terminal to ask."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: processes per system, repetitions in each, and when to stop repeating."""

    rounds: int
    extra_rounds: int
    repetitions: int
    seconds: float
    timeout: float


def main(arguments: Sequence[str] | None = None, many: Mapping[str, ManyFiles] = MANY) -> int:
    """Run the benchmark; `many` are the tables of many files to have."""
    given = _arguments(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    started, load = time.perf_counter(), os.getloadavg()

    def progress(message: str) -> None:
        console.print(f"[dim]{time.perf_counter() - started:6.0f} s[/dim]  {message}", highlight=False)

    tables = build(given.data, given.environment, given.rows, given.source, progress, many)
    table_mb = _arrow_mb(given.rows)
    budget = max(MIN_BUDGET_MB, int(table_mb / TABLE_TO_BUDGET))
    effort = Effort(given.rounds, given.extra_rounds, given.repetitions, given.seconds, given.timeout)
    chosen = [q for q in queries(given.rows, budget) if not given.only or any(part in q.name for part in given.only)]
    found: list[results.Result] = []
    for number, query in enumerate(chosen, 1):
        big_enough = query.memory_mb is None or table_mb >= TABLE_TO_BUDGET * query.memory_mb
        result = measure(query, tables, effort, applicable=big_enough)
        found.append(_with_full_read(result, found))
        progress(f"[{number}/{len(chosen)}] {_line(found[-1])}".replace("[", "\\["))

    caption = f"{given.rows:,} rows; tables {tables.note}; best of {effort.rounds} × {effort.repetitions}"
    report.print_table(console, found, caption)
    facts = {
        "load_average_at_start": [round(load, 2) for load in load],
        "rows": given.rows,
        "tables": tables.source,
        "tables_note": tables.note,
        "table_arrow_mb": round(table_mb),
        "budget_mb": budget,
        "threads": 2,
        "took_seconds": round(time.perf_counter() - started),
    }
    results.write_json(given.results / "embedded.json", found, facts)
    report.plot(given.results / "embedded.png", found, caption)
    progress(f"written: {given.results / 'embedded.json'}, {given.results / 'embedded.png'}")
    return 0


def measure(query: Query, tables: Tables, effort: Effort, *, applicable: bool = True) -> results.Result:
    """Every system on one query, taking turns, so that a slow minute of the machine is everybody's.

    Where the times that the target rests on vary, all systems are measured again, equally often.
    """
    measured: dict[str, list[Measured]] = {system: [] for system in query.systems}

    def take_turns(systems: Iterable[str]) -> None:
        for system in systems:
            if not any(m.error for m in measured[system]):
                job = _job(system, query, tables)
                again = run(job, repetitions=effort.repetitions, seconds=effort.seconds, timeout=effort.timeout)
                measured[system].append(again)

    def result() -> results.Result:
        truth = next((m for m in measured[query.baseline] if m.error is None), None)
        figures = {system: results.figures(system, measured[system], truth) for system in query.systems}
        return results.Result(query, figures, applicable)

    for _ in range(effort.rounds):
        take_turns(query.systems)
    for _ in range(effort.extra_rounds):
        if not result().noisy:
            break
        take_turns(query.systems)
    return result()


def _with_full_read(result: results.Result, earlier: Sequence[results.Result]) -> results.Result:
    """Add hudi-rs's figures from the full read of the same table, where a target asks for them."""
    full = next((r for r in earlier if r.query.name == result.query.full_read), None)
    if full is None:
        return result
    borrowed = dataclasses.replace(full.figures[HUDI_RS], system=HUDI_RS_READ)
    return dataclasses.replace(result, figures={**result.figures, HUDI_RS_READ: borrowed})


def _job(system: str, query: Query, tables: Tables) -> Job:
    path = tables.plain / query.plain if system == PLAIN and query.plain else tables.path(query.table)
    return Job(system, query.kind, str(path), query.columns, query.where, query.checksum, query.memory_mb)


def _line(result: results.Result) -> str:
    def one(system: str) -> str:
        ratio = result.ratio(system)
        return f"{system} {ratio:.2f}×" if ratio is not None else f"{system} –"

    return f"{result.query.title}: {', '.join(one(system) for system in result.query.systems)}"


def _arrow_mb(total: int) -> float:
    """The size in memory of a table with `total` rows, from a sample: rows are of equal width."""
    sample = rows.base_rows(rows.chunks(total, 10_000)[0], total)
    return float(sample.nbytes / sample.num_rows * total / 2**20)


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--source", choices=Choice.__args__, default="auto", help="who writes the Hudi tables")  # type: ignore[attr-defined]
    parser.add_argument("--only", nargs="*", help="only the queries whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=2, help="processes per system and query")
    parser.add_argument("--extra-rounds", type=int, default=1, help="more of them where the times vary")
    parser.add_argument("--repetitions", type=int, default=3, help="in each process")
    parser.add_argument("--seconds", type=float, default=6.0, help="after which a process starts no repetition")
    parser.add_argument("--timeout", type=float, default=180.0)
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--environment", type=Path, default=HERE.parent / ".venv-peers")
    return parser.parse_args(given)


if __name__ == "__main__":
    raise SystemExit(main())
