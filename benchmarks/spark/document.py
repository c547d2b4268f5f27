"""The Spark part of `docs/benchmarks.md`, made from a run's JSON: `python -m benchmarks.spark --document`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.spark.queries import HEADWATER, HUDI, PARQUET
from benchmarks.spark.report import join_lines, out_of_reach, problems, summary, systems_of, times
from benchmarks.spark.results import Result, run_of

BEGIN, END = "<!-- spark: made by benchmarks/spark/document.py -->", "<!-- spark: end -->"
INTRODUCTION = """\
Seconds as a multiple of Spark's own Parquet source, which reads plain Parquet with the same final rows in the same
session. A query's time is all that a user waits for, opening the table included; each figure is the best of the turns
that the systems take one after another. An answer that differs from the baseline's has no figure.

Headwater's executors keep what merging a slice found out for the next query that reads it, so its best
turn is one that found it there; the column "no cache" merges anew in every turn, as the first query does. Its
driver keeps tables open with their listing, and looks for changes before each query;
Apache Hudi keeps its listing too.

Apache Iceberg keeps the same rows in a table of its own: version 3, a tenth changed by a MERGE that left deletion
vectors.

Every table has a session of its own, so that no system brings along code that the JVM compiled for another table. The
fallback and Iceberg (on Spark 3.5) have further ones, for their kinds of columns slow down the code that others share;
their figures are multiples of the Parquet source in those, and the bar beside Iceberg compares multiples."""


def render(sessions: Mapping[str, Sequence[Result]], facts: Mapping[str, Any]) -> str:
    """The section as Markdown, between its two marks."""
    lines = [
        BEGIN,
        "## Spark",
        "",
        INTRODUCTION,
        "",
        _circumstances(facts, _command(sessions)),
    ]
    for spark, results in sessions.items():
        run = run_of(spark, facts)
        bars = "; ".join((summary(results).capitalize(), *out_of_reach(results)))
        lines += ["", f"### Spark {spark}", "", _measured(run), "", *_table(results), "", bars + "."]
        joins = join_lines(results)
        if joins:
            lines += ["", "Joins that the plans chose:", "", *(f"- {line}" for line in joins)]
        found = problems(results)
        if found:
            lines += ["", "No figure:", "", *(f"- {line}" for line in found)]
    return "\n".join([*lines, END, ""])


def _measured(run: Mapping[str, Any]) -> str:
    told = [f"Measured on {run['made_at'][:10]}, commit {run['commit']}"]
    told += [
        f"on {later['made_at'][:10]}, commit {later['commit']}: {', '.join(later['queries'])}"
        for later in run.get("later", ())
    ]
    return "; ".join(told) + "."


def _command(sessions: Mapping[str, Sequence[Result]]) -> str:
    """What to type to get all of the page again."""
    peers = any(HUDI in result.figures for measured in sessions.values() for result in measured)
    return "PEERS=1 make bench-spark" if peers else "make bench-spark"


def _circumstances(facts: Mapping[str, Any], command: str) -> str:
    machine = facts["machine"]
    again = facts.get("asked_again")
    told = f" Asked once more, because noise had spoiled the first turns: {', '.join(again)}." if again else ""
    return (
        f"{facts['rows']:,} rows; tables {facts['tables_note']}; {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB; best of {facts['rounds']} turns or more. `{command}` repeats it.{told}"
    )


def write(path: Path, section: str, begins: str = BEGIN, ends: str = END) -> None:
    """Put a section into the page: in place of the one that is there between the marks, else at the page's end."""
    text = path.read_text() if path.exists() else "# Benchmarks\n"
    before, begin, rest = text.partition(begins)
    after = rest.partition(ends)[2].lstrip("\n") if begin else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before.rstrip("\n") + "\n\n" + section + ("\n" + after if after else ""))


def _table(results: Sequence[Result]) -> list[str]:
    shown = [system for system in systems_of(results) if system != PARQUET]
    head = ["query", "parquet, s", *shown, "bars", "verdict"]
    lines = [_row(head), _row(["---", *["---:"] * (len(shown) + 1), "---", "---"])]
    for result in results:
        baseline = result.figures[PARQUET].best
        checks = result.checks
        cells = [
            result.query.title,
            f"{baseline:.2f}" if baseline is not None else "–",
            *(_ratio(result, system) for system in shown),
            "; ".join(str(check.bar) for check in checks) or "–",
            "; ".join(dict.fromkeys(check.verdict for check in checks)) or "–",
        ]
        lines.append(_row(cells))
    return lines


def _ratio(result: Result, system: str) -> str:
    ratio = result.ratio(system)
    text = times(ratio) if ratio is not None else "–"
    return f"**{text}**" if system == HEADWATER and ratio is not None else text


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
