"""The printed tables and the plot of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.spark.queries import (
    FALLBACK,
    HEADWATER,
    HUDI,
    ICEBERG,
    MERGE,
    PARQUET,
    SAME_FILES,
    STABLE,
    SYSTEMS,
    UNCACHED,
)
from benchmarks.spark.results import Figures, Result

_COLOURS = {
    PARQUET: "#9aa5b1",
    SAME_FILES: "#5b6b7b",
    HEADWATER: "#0b7285",
    STABLE: "#66c2d1",
    UNCACHED: "#5b8db8",
    MERGE: "#7a5195",
    FALLBACK: "#b8a1d1",
    HUDI: "#e8890c",
    ICEBERG: "#4263eb",
}
_BAR = "#c92a2a"
_MINOR_TICKS = (0.2, 0.5, 2, 5, 20, 50)
_STYLES = {"met": "green", "missed": "bold red", "wrong answer": "bold red", "no figure": "yellow", "noisy": "yellow"}


def print_session(console: Console, spark: str, results: Sequence[Result], caption: str) -> None:
    """The ratios with the bars beside, then the joins that plans chose, then what went wrong."""
    shown = systems_of(results)
    table = Table(title=f"Spark {spark}: seconds as a multiple of Spark's Parquet source", caption=caption)
    table.add_column("query", no_wrap=True)
    for system in shown:
        table.add_column("parquet, s" if system == PARQUET else system, justify="right")
    table.add_column("headwater, CPU", justify="right")
    table.add_column("bars")
    table.add_column("verdict", no_wrap=True)
    for result in results:
        work = result.work(HEADWATER)
        row = [_cell(result, result.figures.get(system)) for system in shown]
        row.append(Text("–" if work is None else times(work), style="dim"))
        bars = "\n".join(str(check.bar) for check in result.checks)
        table.add_row(result.query.title, *row, bars, _verdicts(result))
    console.print(table)
    for line in (*phases(results), *join_lines(results)):
        console.print(line, highlight=False)
    for line in problems(results):
        console.print(Text(line, style="yellow"))
    for line in (summary(results), *out_of_reach(results)):
        console.print(line, highlight=False)


def systems_of(results: Sequence[Result]) -> list[str]:
    """The systems that took part, in their usual order."""
    return [system for system in SYSTEMS if any(system in result.figures for result in results)]


def summary(results: Sequence[Result]) -> str:
    """How many bars were met, missed and neither."""
    verdicts = [check.verdict for result in results for check in result.checks]
    counted = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(sorted(verdicts))}
    return f"bars: {', '.join(f'{count} {verdict}' for verdict, count in counted.items()) or 'none'}"


def out_of_reach(results: Sequence[Result]) -> list[str]:
    """The missed bars that plain Parquet misses too, if there are any, as one line."""
    told = [
        f"{result.query.name} ({result.ratio(PARQUET, check.bar.against) or 0:.2f}× {check.bar.against})"
        for result in results
        for check in result.out_of_reach
    ]
    return [f"missed by plain Parquet too: {', '.join(told)}"] if told else []


def phases(results: Sequence[Result]) -> list[str]:
    """Where Headwater's time goes on the queries that missed a bar."""
    lines = []
    for result in results:
        found = result.figures.get(HEADWATER)
        if found is None or found.best is None or not any(check.verdict == "missed" for check in result.checks):
            continue
        load, plan = found.load_seconds or 0.0, found.plan_seconds
        told = f"open {load:.2f} s, " + (f"plan {plan:.2f} s, " if plan is not None else "")
        lines.append(f"{result.query.name}: {told}rest {found.best - load - (plan or 0):.2f} s")
    return lines


def join_lines(results: Sequence[Result]) -> list[str]:
    """Which join each system's plan chose; where it changed while running, from which to which."""
    lines = []
    for result in results:
        told = {name: " → ".join(found.joins) for name, found in result.figures.items() if found.joins}
        if told:
            by_choice: dict[str, list[str]] = {}
            for name, choice in told.items():
                by_choice.setdefault(choice, []).append(name)
            text = "; ".join(f"{choice}: {', '.join(names)}" for choice, names in by_choice.items())
            lines.append(f"{result.query.name}: {text}")
    return lines


def problems(results: Sequence[Result]) -> list[str]:
    """Every failure and wrong answer, the same one on many queries told once."""
    seen: dict[str, list[str]] = {}
    for result in results:
        for found in result.figures.values():
            if found.error:
                seen.setdefault(f"{found.system}: {found.error}", []).append(result.query.name)
            elif not found.right:
                seen.setdefault(f"{found.system}: wrong answer", []).append(result.query.name)
    return [
        f"{text} ({', '.join(names) if len(names) < 4 else f'{len(names)} queries'})" for text, names in seen.items()
    ]


def _cell(result: Result, found: Figures | None) -> Text:
    if found is None:
        return Text("–", style="dim")
    if found.error:
        return Text("error", style="yellow")
    if not found.right:
        return Text("wrong answer", style="red")
    if found.best is None:
        return Text("–")
    if found.system == PARQUET:
        return Text(f"{found.best:.2f}")
    ratio = result.ratio(found.system)
    return Text("–" if ratio is None else times(ratio))


def times(ratio: float) -> str:
    """A ratio with three digits that matter."""
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"


def _verdicts(result: Result) -> Text:
    lines = []
    for check in result.checks:
        text = Text(check.verdict, style=_STYLES.get(check.verdict, ""))
        if check.figure is not None:
            text.append(f" ({check.figure:.2f})", style="dim")
        lines.append(text)
    return Text("\n").join(lines)


def plot(path: Path, sessions: Mapping[str, Sequence[Result]], subtitle: str) -> None:
    """A panel for each session: ratios from 1.0 outwards on a logarithmic axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kept = {spark: [r for r in found if _drawn(r)] for spark, found in sessions.items()}
    kept = {spark: found for spark, found in kept.items() if found}
    if not kept:
        return
    tallest = max(sum(len(_drawn(r)) + 1 for r in found) for found in kept.values())
    figure, panels = plt.subplots(
        1, len(kept), figsize=(9 * len(kept), 0.16 * tallest + 1.6), squeeze=False, layout="constrained"
    )
    for axes, (spark, found) in zip(panels[0], kept.items(), strict=True):
        _panel(axes, f"Spark {spark}", found)
    drawn = [s for s in SYSTEMS if any(s in _drawn(r) for found in kept.values() for r in found)]
    handles: list[Any] = [Patch(color=_COLOURS[s]) for s in drawn]
    handles.append(Line2D([], [], color=_BAR, linewidth=2))
    figure.legend(handles, [*drawn, "the bar"], loc="outside lower right", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(f"Seconds as a multiple of Spark's own Parquet source\n{subtitle}", size=10, x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _drawn(result: Result) -> list[str]:
    return [s for s in SYSTEMS if s != PARQUET and result.ratio(s) is not None]


def _panel(axes: Any, title: str, results: Sequence[Result]) -> None:
    from matplotlib.ticker import FuncFormatter

    place, ticks = 0.0, []
    for result in results:
        systems = _drawn(result)
        ticks.append(place + (len(systems) - 1) / 2)
        for system in systems:
            ratio = result.ratio(system)
            assert ratio is not None
            axes.barh(place, ratio - 1, left=1, height=0.86, color=_COLOURS[system])
            beyond = {"xytext": (4, 0), "ha": "left"} if ratio >= 1 else {"xytext": (-4, 0), "ha": "right"}
            axes.annotate(times(ratio), (ratio, place), textcoords="offset points", va="center", size=7, **beyond)
            if system == HEADWATER:
                for limit in _limits(result):
                    axes.plot([limit, limit], [place - 0.5, place + 0.5], color=_BAR, linewidth=2)
            place += 1
        place += 1
    axes.set_xscale("log")
    axes.axvline(1.0, color="#343a40", linewidth=0.8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value in _MINOR_TICKS else ""))
    axes.tick_params(axis="x", which="both", labelsize=8)
    axes.set_yticks(ticks, [r.query.title for r in results], size=8)
    axes.invert_yaxis()
    axes.margins(x=0.12, y=0.01)
    axes.set_title(title, size=10, loc="left")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _limits(result: Result) -> list[float]:
    """The bars as multiples of the baseline."""
    return [
        check.bar.at_most for check in result.checks if check.bar.measure == "ratio" and check.bar.against == PARQUET
    ]
