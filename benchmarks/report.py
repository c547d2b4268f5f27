"""The printed table and the plot of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.queries import CHECKED, HEADWATER, HUDI_RS, PLAIN, SAME_FILES, Target
from benchmarks.results import Figures, Result, growth

SYSTEMS = (PLAIN, SAME_FILES, CHECKED, HEADWATER, HUDI_RS)
_COLOURS = {PLAIN: "#9aa5b1", SAME_FILES: "#5b6b7b", CHECKED: "#3d4a57", HEADWATER: "#0b7285", HUDI_RS: "#e8890c"}
_TARGET = "#c92a2a"
_STYLES = {"met": "green", "missed": "bold red", "wrong answer": "bold red", "no figure": "yellow", "noisy": "yellow"}


def print_table(console: Console, results: Sequence[Result], caption: str) -> None:
    """The ratios with the targets beside, then seconds and peak memory, then what went wrong."""
    ratios = Table(title="Readers without a JVM: seconds as a multiple of the baseline", caption=caption)
    costs = Table(title="The same: seconds (best), peak memory (MB)")
    for table in (ratios, costs):
        table.add_column("query", no_wrap=True)
        for system in SYSTEMS:
            table.add_column(system, justify="right", no_wrap=True)
    ratios.add_column("headwater's target")
    ratios.add_column("verdict", no_wrap=True)
    for result in results:
        row = [result.figures.get(system) for system in SYSTEMS]
        targets = "\n".join(str(target) for target in result.query.targets)
        ratios.add_row(result.query.title, *(_ratio(result, found) for found in row), targets, _verdicts(result))
        costs.add_row(result.query.title, *(_cost(found) for found in row))
    console.print(ratios)
    console.print(costs)
    for system, by_meaning in growth(results).items():
        told = ", ".join(f"{factor:.1f}× for {meaning}" for meaning, factor in by_meaning.items())
        console.print(f"planning with {system}: {told}", highlight=False)
    for line in problems(results):
        console.print(Text(line, style="yellow"))


def problems(results: Sequence[Result]) -> list[str]:
    """Every failure and wrong answer, the same one on many queries told once."""
    seen: dict[str, list[str]] = {}
    for result in results:
        for found in result.figures.values():
            if found.error:
                seen.setdefault(f"{found.system}: {found.error}", []).append(result.query.name)
            elif not found.right:
                text = f"{found.system}: wrong answer, {found.rows} rows, checksum {found.checksum}"
                seen.setdefault(text, []).append(result.query.name)
    return [
        f"{text} ({', '.join(names) if len(names) < 4 else f'{len(names)} queries'})" for text, names in seen.items()
    ]


def _verdicts(result: Result) -> Text:
    lines = []
    for check in result.checks:
        text = Text(check.verdict, style=_STYLES.get(check.verdict, ""))
        if check.figure is not None:
            text.append(f" ({check.figure:.2f})" if check.figure < 10 else f" ({check.figure:.0f})", style="dim")
        lines.append(text)
    return Text("\n").join(lines)


def _ratio(result: Result, found: Figures | None) -> Text:
    if found is None:
        return Text("–", style="dim")
    if found.error:
        return Text("error", style="yellow")
    if not found.right:
        return Text("wrong answer", style="red")
    ratio = result.ratio(found.system)
    return Text(f"{ratio:.2f}×" if ratio is not None else "–")


def _cost(found: Figures | None) -> Text:
    if found is None or found.best_seconds is None:
        return Text("–", style="dim")
    return Text(f"{found.best_seconds:.3f} s  {found.peak_mb:>5.0f} MB")


def plot(path: Path, results: Sequence[Result], subtitle: str) -> None:
    """Two panels over the same rows: ratios from 1.0 outwards on a logarithmic axis, and peak memory."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = [r for r in results if any(r.ratio(system) is not None for system in SYSTEMS)]
    bars = [(r, s) for r in shown for s in SYSTEMS if r.ratio(s) is not None]
    drawn = [s for s in SYSTEMS if any(s == system for _, system in bars)]
    figure, (left, right) = plt.subplots(
        1,
        2,
        figsize=(13, 0.19 * (len(bars) + len(shown)) + 1.5),
        sharey=True,
        width_ratios=(3, 2),
        layout="constrained",
    )
    place, ticks = 0.0, []
    for result in shown:
        systems = [s for s in drawn if result.ratio(s) is not None]
        ticks.append(place + (len(systems) - 1) / 2)
        for system in systems:
            ratio, peak = result.ratio(system), result.figures[system].peak_mb
            assert ratio is not None
            assert peak is not None
            left.barh(place, ratio - 1, left=1, height=0.86, color=_COLOURS[system])
            _label(left, max(ratio, 1.0), place, f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×")
            right.barh(place, peak, height=0.86, color=_COLOURS[system])
            _label(right, peak, place, f"{peak:.0f}")
            if system == HEADWATER:
                for target in result.query.targets:
                    _mark(left, _ratio_limit(result, target), place)
                    _mark(right, _memory_limit(result, target), place)
            place += 1
        place += 1
    left.set_xscale("log")
    left.axvline(1.0, color="#343a40", linewidth=0.8)
    left.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}×"))
    left.set_yticks(ticks, [r.query.title for r in shown], size=9)
    left.invert_yaxis()
    left.margins(x=0.12, y=0.01)
    right.margins(x=0.12, y=0.01)
    left.set_title("seconds, as a multiple of the baseline", size=10, loc="left")
    right.set_title("peak memory of the process, MB", size=10, loc="left")
    for axes in (left, right):
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    handles: list[Any] = [Patch(color=_COLOURS[s]) for s in drawn]
    handles.append(Line2D([], [], color=_TARGET, linewidth=2))
    figure.legend(
        handles, [*drawn, "headwater's target"], loc="outside lower right", ncols=5, frameon=False, fontsize=9
    )
    figure.suptitle(subtitle, size=10, x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _label(axes: Any, x: float, y: float, text: str) -> None:
    axes.annotate(text, (x, y), xytext=(4, 0), textcoords="offset points", va="center", size=7)


def _mark(axes: Any, limit: float | None, place: float) -> None:
    if limit is not None:
        axes.plot([limit, limit], [place - 0.5, place + 0.5], color=_TARGET, linewidth=2)


def _ratio_limit(result: Result, target: Target) -> float | None:
    """The target as a multiple of the baseline, when it bounds seconds."""
    if target.measure == "warm_seconds":
        baseline = result.figures[result.query.baseline].best_seconds
        return target.at_most / baseline if baseline else None
    scale = result.ratio(target.against) if target.measure == "ratio" else None
    return target.at_most * scale if scale is not None else None


def _memory_limit(result: Result, target: Target) -> float | None:
    """The target in MB, when it bounds memory."""
    if target.measure == "peak_mb":
        return target.at_most
    theirs = result.figures.get(target.against)
    return target.at_most * theirs.peak_mb if target.measure == "peak" and theirs and theirs.peak_mb else None
