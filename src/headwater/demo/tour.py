"""The tour: each shipped table's history as a picture, then reads of every kind, and what each scan skipped and why."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import Box
from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table as Grid
from rich.text import Text

from headwater.demo.shipped import DEMO_TABLES, demo_table
from headwater.picture import picture
from headwater.plan import ScanPlan
from headwater.table import Scan, Table, open_table

_COLUMNS = ("id", "name", "price", "ts", "city")
_CHANGES = {"i": ("+", "green"), "u": ("~", "yellow"), "d": ("-", "red")}
_WIDEST = 100
_HEADS = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")


def main(console: Console | None = None) -> None:
    """Print the tour."""
    out = console or Console(highlight=False, width=None if sys.stdout.isatty() else _WIDEST)
    if not out.encoding.lower().startswith("utf"):
        sys.stderr.write("the demo draws with Unicode; set PYTHONIOENCODING=utf-8\n")
        return
    out.width = min(out.width, _WIDEST)
    out.print(Text("Headwater reads Apache Hudi tables without a JVM. Four that ship with it:", style="bold"))
    for show in (_trips, _orders, _stats, _legacy):
        out.print()
        show(out)
    out.print()
    out.print(Text("Try it yourself:", style="bold"))
    for command in ("history demo:trips", "read demo:orders --changes", "verify demo:stats"):
        out.print(Text(f"  headwater {command}", style="dim"))


def _open(out: Console, name: str) -> Table:
    """Open a shipped table, and print what it is and its history."""
    shipped, table = DEMO_TABLES[name], open_table(demo_table(name))
    out.print(Rule(Text.assemble((name, "bold cyan"), "  ", shipped.title), align="left", style="cyan"))
    out.print(Text(shipped.about, style="dim"))
    out.print()
    out.print(picture(table.inspect.history(), width=out.width), no_wrap=True)
    out.print()
    return table


def _trips(out: Console) -> None:
    table = _open(out, "trips")
    first, _, third, *_ = DEMO_TABLES["trips"].instants
    _side_by_side(out, *_reads(table, _COLUMNS, as_of=first, since=third))
    out.print()
    _why(out, table, ["city = 'sf' AND price > 5", "price > 5"])


def _orders(out: Console) -> None:
    table = _open(out, "orders")
    first = DEMO_TABLES["orders"].instants[0]
    _side_by_side(
        out,
        *_reads(table, ("id", "name", "price"), as_of=first, since=first),
        _titled(f"each change since {_clock(first)}", "changes(…)", _changes(_read(table.changes(first)))),
        gap=2,
    )


def _stats(out: Console) -> None:
    table = _open(out, "stats")
    bounds = _grid("partition", "rows", "id", "price", "day", right=("rows",))
    by_file: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in table.inspect.statistics().to_pylist():
        by_file.setdefault(row["path"], {})[row["column"]] = row
    for known in by_file.values():
        ranges = [f"{known[name]['min']} … {known[name]['max']}" for name in ("id", "price", "day")]
        bounds.add_row(known["id"]["partition"], str(known["id"]["rows"]), *ranges)
    out.print(_titled("what the base files hold", "inspect.statistics()", bounds))
    out.print()
    filters = ["id > 20", "day > DATE '2024-01-15'"]
    _why(out, table, filters)
    out.print(Text("the same without the metadata table", style="bold"))
    _why(out, open_table(table.uri, metadata=False), filters[:1], title=None)


def _legacy(out: Console) -> None:
    table = _open(out, "legacy")
    then = DEMO_TABLES["legacy"].instants[-3]
    _side_by_side(out, *_reads(table, _COLUMNS, as_of=then, since=then))


def _reads(table: Table, columns: Sequence[str], *, as_of: str, since: str) -> Iterable[RenderableType]:
    """The rows now, at a time before, and those changed since."""
    now, then = _read(table.scan(columns=columns)), _read(table.scan(columns=columns, as_of=as_of))
    yield _titled("snapshot", "scan()", _rows(now))
    yield _titled(f"as of {_clock(as_of)}", "scan(as_of=…)", _rows(then, now))
    yield _titled(f"since {_clock(since)}", "incremental(…)", _rows(_read(table.incremental(since, columns=columns))))


def _read(scan: Scan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    return rows


def _clock(instant: str) -> str:
    return f"{instant[8:10]}:{instant[10:12]}:{instant[12:14]}"


def _side_by_side(out: Console, *parts: RenderableType, gap: int = 4) -> None:
    row = Grid.grid(padding=(0, gap, 0, 0), pad_edge=False)
    for _ in parts:
        row.add_column(no_wrap=True)
    row.add_row(*parts)
    out.print(row)


def _titled(title: str, call: str, content: RenderableType) -> Group:
    return Group(Text(title, style="bold"), Text(call, style="dim"), content)


def _grid(*heads: str, right: Sequence[str] = ()) -> Grid:
    found = Grid(box=_HEADS, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    for head in heads:
        found.add_column(head, justify="right" if head in right else "left", no_wrap=True)
    return found


def _rows(rows: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]] | None = None) -> Grid:
    """Rows by key; those that are not the same now stand out."""
    names = tuple(rows[0])
    found = _grid(*names, right=("id", "price", "ts"))
    for row in sorted(rows, key=lambda row: int(row["id"])):
        style = "yellow" if now is not None and row not in now else ""
        found.add_row(*(str(row[name]) for name in names), style=style)
    return found


def _changes(changes: Sequence[Mapping[str, Any]]) -> Grid:
    found = _grid("", "at", "id", "before", "after", right=("id",))
    for change in sorted(changes, key=lambda change: str(change["ts_ms"])):
        sign, style = _CHANGES[change["op"]]
        before, after = change["before"], change["after"]
        clock = _clock(change["ts_ms"])[3:]
        found.add_row(sign, clock, str((after or before)["id"]), _state(before), _state(after), style=style)
    return found


def _state(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else f"{row['name']}  {row['price']:g}  {row['city']}"


def _why(out: Console, table: Table, filters: Sequence[str], title: str | None = "what a filter spares") -> None:
    """What the plan of each filter left out, and by what."""
    if title is not None:
        out.print(Text(title, style="bold"))
    for text in filters:
        out.print(Text.assemble("  WHERE ", (text, "cyan")))
        for line in _steps(table.scan(filter=text).plan()):
            out.print(line)


def _steps(plan: ScanPlan) -> Iterable[Text]:
    for step in plan.steps:
        if step.total:
            line = Text(f"    {step.name:<30} {step.amount}", "green" if step.skipped else "dim")
            yield line.append(f"  {step.note}" if step.note else "", style="dim")
    yield Text(f"    {'read':<30} {plan.reads}")
