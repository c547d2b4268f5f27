"""The matrix as a table of the terminal: a row for each table, a column for each reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text
from tests.interop.write_matrix.cells import Cell


def print_matrix(cells: Sequence[Cell], pairs: tuple[int, int], verbose: bool) -> None:
    """Print all cells as counts, and those that failed in full."""
    readers = list(dict.fromkeys(cell.reader for cell in cells))
    matrix = Table(title="Tables that Headwater and Apache Hudi wrote in turn: cells with the same rows, by reader")
    matrix.add_column("table", no_wrap=True)
    for reader in readers:
        matrix.add_column(reader, justify="right")
    for table in dict.fromkeys(cell.table for cell in cells):
        matrix.add_row(
            table, *(_counts([c for c in cells if (c.table, c.reader) == (table, reader)]) for reader in readers)
        )
    matrix.add_section()
    matrix.add_row("all", *(_counts([cell for cell in cells if cell.reader == reader]) for reader in readers))
    console = Console(width=None if Console().is_terminal else 180)
    console.print(matrix)
    for reason, count in Counter(c.message.split(":")[0] for c in cells if c.state in ("known", "unable")).items():
        console.print(f"{count:4} × {reason}", markup=False, highlight=False, soft_wrap=True)
    for cell in cells:
        if cell.state == "failed" or (verbose and cell.state != "passed"):
            line = f"{cell.state.upper()} {cell.table} [{cell.reader}, {cell.stage}] {cell.read}: {cell.message}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    counts = Counter(cell.state for cell in cells)
    shown, possible = pairs
    tables = len({cell.table for cell in cells})
    print(f"{tables} tables show {shown} of {possible} pairs of features")
    print(
        f"{len(cells)} cells: {counts['passed']} passed, {counts['failed']} failed; {counts['known']} differ for a "
        f"known reason, {counts['unable']} hudi-rs does not read"
    )


def _counts(cells: Sequence[Cell]) -> Text:
    if not cells:
        return Text("·", style="dim")
    counts = Counter(cell.state for cell in cells)
    text = Text(str(counts["passed"]), style="green")
    if counts["known"] + counts["unable"]:
        text.append(f" +{counts['known'] + counts['unable']}", style="yellow")
    if counts["failed"]:
        text.append(f" −{counts['failed']}", style="bold red")
    return text
