"""What the writes of a run come to: ratios with their bars, as a table, as Markdown and as a plot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.write.small_job import SYSTEM as SMALL

BULK_BAR = 1.4
HUDI_BAR = 4.0
MEMORY_BAR = 0.5
SMALL_BAR = 0.5
BEGIN, END = "<!-- write: made by benchmarks/write/report.py -->", "<!-- write: end -->"
CHANGES = {
    "tenth": "upsert of 10 % of the rows",
    "tenth+new": "upsert of 10 %, and 1 % new ones",
    "thousand": "upsert of 1,000 rows",
}
_COLOURS = {"headwater": "#0b7285", "hudi": "#e8890c", "iceberg": "#5b6b7b"}


@dataclass
class Figure:
    """The best turn of a system at a write, and its peak memory."""

    seconds: float
    peak_mb: int
    index: str
    holds: tuple[int, int] | None = None


@dataclass
class Line:
    """One of our writes beside what others take for it."""

    title: str
    ours: Figure
    others: dict[str, Figure] = field(default_factory=dict)
    verdicts: list[str] = field(default_factory=list)


def lines_of(found: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Each of our writes, compared with the best index that another system has for the same change."""
    best = _best(found)
    plain = best.get(("headwater", "plain parquet", "", "", ""))
    made = []
    for (system, write, change, kind, index), ours in best.items():
        if system != "headwater" or write == "plain parquet":
            continue
        name = CHANGES.get(change, "bulk insert")
        line = Line(f"{kind.upper()}, {index.replace('_', ' ')}: {name}", ours)
        if write == "bulk_insert" and plain is not None:
            line.others["plain Parquet"] = plain
            if index == "bloom":
                line.verdicts.append(_verdict(ours.seconds / plain.seconds, BULK_BAR, "≤ {bar:g}× plain Parquet"))
        for other in ("hudi", "iceberg"):
            same = [f for (s, w, c, k, _), f in best.items() if (s, w, c, k) == (other, write, change, kind)]
            if same:
                line.others[other] = fastest = min(same, key=lambda one: one.seconds)
                if write == "upsert":
                    line.verdicts += _against(other, ours, fastest)
        made.append(line)
    return made


def _against(other: str, ours: Figure, theirs: Figure) -> list[str]:
    faster = theirs.seconds / ours.seconds
    bar = HUDI_BAR if other == "hudi" else 1.0
    verdicts = [f"≥ {bar:g}× as fast as {other.capitalize()}: {'met' if faster >= bar else 'missed'} ({faster:.1f})"]
    if other == "hudi":
        verdicts.append(_verdict(ours.peak_mb / theirs.peak_mb, MEMORY_BAR, "memory ≤ {bar:g}× Hudi"))
    if ours.holds is not None and theirs.holds is not None and ours.holds != theirs.holds:
        verdicts.append(f"OTHER ROWS THAN {other.upper()}: {ours.holds}, {theirs.holds}")
    return verdicts


def small_lines(found: Sequence[Mapping[str, Any]]) -> list[tuple[int, str, float, int, str]]:
    """Of a thousand rows without Spark: rows of the table, index, best seconds, peak MB, verdict."""
    best: dict[tuple[int, str], tuple[float, int]] = {}
    for one in found:
        if one["system"] == SMALL and not one["error"]:
            key = (one["of"], one["index"])
            known = best.get(key, (float("inf"), 0))
            best[key] = (min(known[0], one["seconds"]), max(known[1], one["peak_mb"]))
    return [
        (rows, index, seconds, peak, _verdict(seconds, SMALL_BAR, "< {bar:g} s") if rows == 10_000_000 else "")
        for (rows, index), (seconds, peak) in sorted(best.items(), key=lambda item: (item[0][1], item[0][0]))
    ]


def _verdict(figure: float, bar: float, text: str) -> str:
    return f"{text.format(bar=bar)}: {'met' if figure <= bar else 'missed'} ({figure:.2f})"


def _best(found: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str, str, str], Figure]:
    turns: dict[tuple[str, str, str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for one in found:
        if not one["error"] and one["system"] != SMALL:
            key = (one["system"], one["write"], one.get("rows") or "", one.get("kind") or "", one.get("index") or "")
            turns[key].append(one)
    best = {}
    for key, each in turns.items():
        holds = each[-1].get("holds")
        best[key] = Figure(
            min(one["seconds"] for one in each),
            max(one["peak_mb"] for one in each),
            key[4],
            None if holds is None else (int(holds[0]), int(holds[1])),
        )
    return best


def print_report(console: Console, found: Sequence[Mapping[str, Any]], rows: int) -> None:
    table = Table(title=f"Writes: seconds (peak MB), {rows:,} rows")
    for name in ("write", "headwater", "others", "bars"):
        table.add_column(name, no_wrap=name == "write")
    for line in lines_of(found):
        table.add_row(line.title, _shown(line.ours), _others(line, "\n"), "\n".join(line.verdicts))
    console.print(table)
    small = Table(title="1,000 rows into a merge-on-read table, without Spark")
    for name in ("rows of the table", "index", "seconds", "peak MB", "bar"):
        small.add_column(name, justify="right")
    for size, index, seconds, peak, verdict in small_lines(found):
        small.add_row(f"{size:,}", index, f"{seconds:.3f}", str(peak), verdict)
    console.print(small)
    for one in found:
        if one["error"]:
            named = " ".join(str(one[key]) for key in ("system", "write", "rows", "kind", "index") if one.get(key))
            console.print(f"no figure: {named}: {one['error']}", style="yellow", markup=False)


def _shown(figure: Figure) -> str:
    return f"{figure.seconds:.2f} ({figure.peak_mb})"


def _others(line: Line, between: str) -> str:
    return between.join(
        f"{name} {_shown(figure)}{f', {figure.index}' if name == 'hudi' else ''}"
        for name, figure in line.others.items()
    )


def markdown(found: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> str:
    """The section of `docs/benchmarks.md`, between its two marks."""
    lines = [
        BEGIN,
        "## Writing",
        "",
        "Seconds (peak megabytes of all processes). Bulk inserts stand beside Spark's plain Parquet write of the same",
        "frame, changes beside the same change by Apache Hudi 1.2.0 with the best of its indexes that was measured and",
        "by Apache Iceberg's MERGE, both on Spark 3.5; every system has a session of its own, one after the other.",
        "Figures are the best of the turns: two of ours, one of each peer. Rows of the changed tables are compared.",
        "",
        _circumstances(facts),
        "",
        "| write | headwater | others | bars |",
        "|---|---:|---|---|",
    ]
    for line in lines_of(found):
        bars = "; ".join(line.verdicts) or "–"
        lines.append(f"| {line.title} | {_shown(line.ours)} | {_others(line, '; ') or '–'} | {bars} |")
    small = small_lines(found)
    if small:
        lines += [
            "",
            "A thousand rows into a merge-on-read table without Spark, from opening the table to the commit:",
            "",
            "| rows of the table | index | seconds | peak MB | bar |",
            "|---:|---|---:|---:|---|",
            *(
                f"| {rows:,} | {index} | {s:.3f} | {peak} | {verdict or '–'} |"
                for rows, index, s, peak, verdict in small
            ),
        ]
    return "\n".join([*lines, END, ""])


def _circumstances(facts: Mapping[str, Any]) -> str:
    machine = facts["machine"]
    return (
        f"{facts['rows']:,} rows × 10 columns, four partitions; {machine['cores']} cores, {machine['memory_gib']} GiB; "
        f"Spark's heap {facts['heaps']['headwater']} for Headwater and {facts['heaps']['peers']} for the peers; "
        f"{facts['made_at'][:10]}, commit {machine['commit']}. `PEERS=1 make bench-write` repeats it."
    )


def plot(path: Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Seconds of changes by system, and the curve of a thousand rows into tables of several sizes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    lines = [line for line in lines_of(found) if "upsert" in line.title]
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 0.5 * max(len(lines), 6) + 1), layout="constrained")
    for place, line in enumerate(reversed(lines)):
        figures = {"headwater": line.ours, **{name: line.others[name] for name in _COLOURS if name in line.others}}
        for number, (name, one) in enumerate(figures.items()):
            left.barh(
                place - 0.27 * number, one.seconds, height=0.25, color=_COLOURS[name], label=name if not place else None
            )
    left.set_yticks(range(len(lines)), [line.title for line in reversed(lines)])
    left.set_xscale("log")
    left.set_xlabel("seconds")
    if lines:
        left.legend()
    by_index: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for size, index, seconds, _, _ in small_lines(found):
        by_index[index].append((size, seconds))
    for index, points in by_index.items():
        right.plot(*zip(*points, strict=True), marker="o", label=index)
    right.set_xscale("log")
    right.set_ylim(bottom=0)
    right.set_xlabel("rows of the table")
    right.set_ylabel("seconds for 1,000 rows, without Spark")
    if by_index:
        right.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)
