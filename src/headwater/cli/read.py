"""`read`, `explain` and `lookup`: rows of a table, and what reading them takes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.text import Text

from headwater.cli.options import Debug, NoMetadata, Output, OutputOption, TableArgument, open_named
from headwater.cli.output import bar, console, print_json
from headwater.cli.sinks import Format, format_of, show_rows, write_rows
from headwater.hudi.schema import META_COLUMNS
from headwater.plan import ScanPlan
from headwater.spec.model import FileSlice, ReadingMode
from headwater.table import Scan, Table

_SHOWN_ROWS = 20


class Mode(str, Enum):
    """How a snapshot is read."""

    snapshot = "snapshot"
    read_optimized = "read_optimized"


class IfCleaned(str, Enum):
    """What to do where files of a range are gone."""

    raise_ = "raise"
    best_effort = "best_effort"


FilterOption = Annotated[
    str | None, typer.Option("--filter", metavar="SQL", help="Only rows that match, as in a WHERE clause.")
]
ColumnsOption = Annotated[str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=0, help="At most so many rows.")]
AsOfOption = Annotated[
    str | None, typer.Option("--as-of", metavar="WHEN", help="The table at an instant, a timestamp or a date.")
]
ModeOption = Annotated[
    Mode | None, typer.Option("--mode", help="snapshot merges the logs, read_optimized leaves them out.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="WHEN", help="Rows that changed after this commit or time.")
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="The end of the range: up to and with this commit or time."),
]
IfCleanedOption = Annotated[
    IfCleaned | None,
    typer.Option(
        "--if-cleaned",
        help="Where files of the range were cleaned: raise an error (the default), or best_effort: give the rows that "
        "are left.",
        show_default=False,
    ),
]
ChangesOption = Annotated[
    bool,
    typer.Option("--changes", help="Each change with the row before and after it (CDC tables).", show_default=False),
]
FormatOption = Annotated[Format | None, typer.Option("--format", help="table for people, the others give every row.")]
OutOption = Annotated[
    str | None, typer.Option("--out", metavar="FILE", help="Write to a file; its name can tell the format.")
]
MetaOption = Annotated[
    bool | None,
    typer.Option(
        "--meta/--no-meta",
        help="With Hudi's own _hoodie_ columns; by default not in a table for people.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class _Asked:
    """What rows were asked for."""

    filter: str | None
    columns: str | None
    limit: int | None
    as_of: str | None
    mode: Mode | None
    since: str | None
    until: str | None
    if_cleaned: IfCleaned | None
    changes: bool

    def scan(self, table: Table, *, meta: bool, most: int | None = None) -> Scan:
        limit = self.limit if self.limit is not None else most
        names = None if self.columns is None else [name.strip() for name in self.columns.split(",") if name.strip()]
        in_range = self.since is not None or self.until is not None
        if (in_range or self.changes) and self.as_of is not None:
            raise typer.BadParameter("--as-of reads one point in time; leave it out, or leave the range out")
        if (in_range or self.changes) and self.mode is not None:
            raise typer.BadParameter("--mode is for snapshots; --since, --until and --changes read a range")
        if self.if_cleaned is not None and (self.changes or not in_range):
            raise typer.BadParameter("--if-cleaned goes with --since or --until, and not with --changes")
        if self.changes:
            if names is not None:
                raise typer.BadParameter(
                    "--columns does not go with --changes, whose columns are op, ts_ms, before, after"
                )
            return table.changes(self.since, self.until, filter=self.filter, limit=limit)
        if in_range:
            if_cleaned = (self.if_cleaned or IfCleaned.raise_).value
            scan = table.incremental(
                self.since, self.until, filter=self.filter, columns=names, limit=limit, if_cleaned=if_cleaned
            )
        else:
            mode = (self.mode or Mode.snapshot).value
            scan = table.scan(filter=self.filter, columns=names, as_of=self.as_of, limit=limit, mode=mode)
        if names is None and not meta:
            return scan.select(*(name for name in scan.schema.names if name not in META_COLUMNS))
        return scan


def read(
    table: TableArgument,
    filter: FilterOption = None,
    columns: ColumnsOption = None,
    limit: LimitOption = None,
    as_of: AsOfOption = None,
    mode: ModeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    if_cleaned: IfCleanedOption = None,
    changes: ChangesOption = False,
    format: FormatOption = None,
    out: OutOption = None,
    meta: MetaOption = None,
    output: OutputOption = Output.text,
    no_metadata: NoMetadata = False,
    debug: Debug = False,
) -> None:
    """Rows of a table: as it is, as it was, or what changed. JSON is one object a line."""
    asked = _Asked(filter, columns, limit, as_of, mode, since, until, if_cleaned, changes)
    form = format_of(format, out, for_programs=output is Output.json)
    opened = open_named(table, no_metadata)
    if form is Format.table:
        if out is not None:
            raise typer.BadParameter("--format table is for the screen; --out takes json, csv or parquet")
        most = _SHOWN_ROWS if limit is None else None
        scan = asked.scan(opened, meta=bool(meta), most=None if most is None else most + 1)
        show_rows(scan.to_batches(), scan.schema, console(), most)
        return
    scan = asked.scan(opened, meta=meta is None or meta)
    _write(_conformed(scan), scan.schema, form, out)


def _conformed(scan: Scan) -> Iterator[pa.RecordBatch]:
    schema = scan.schema
    return (batch.cast(schema) for batch in scan.to_batches())


def _write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, form: Format, out: str | None) -> None:
    # Beside rows on the same terminal a bar would only be in the way.
    with bar(hidden=out is None and sys.stdout.isatty()) as progress:
        task = progress.add_task("rows", total=None)
        rows = write_rows(batches, schema, form, out, lambda count: progress.update(task, completed=count))
    if out is not None:
        console(stderr=True).print(f"[dim]{rows} rows written to[/dim] {out}", soft_wrap=True)


def explain(
    table: TableArgument,
    filter: FilterOption = None,
    columns: ColumnsOption = None,
    limit: LimitOption = None,
    as_of: AsOfOption = None,
    mode: ModeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    if_cleaned: IfCleanedOption = None,
    changes: ChangesOption = False,
    output: OutputOption = Output.text,
    no_metadata: NoMetadata = False,
    debug: Debug = False,
) -> None:
    """What a read would do: each planning pass, what it kept and why. No row is read."""
    asked = _Asked(filter, columns, limit, as_of, mode, since, until, if_cleaned, changes)
    plan = asked.scan(open_named(table, no_metadata), meta=True).plan()
    if output is Output.json:
        print_json(plan_document(plan))
    else:
        show_plan(plan, console())


def show_plan(plan: ScanPlan, out: Console) -> None:
    """A plan for people; the passes that left something out stand out."""
    skipping = {f"  {step}" for step in plan.steps if step.skipped}
    for number, line in enumerate(str(plan).split("\n")):
        out.print(Text(line, style="bold" if number == 0 else "green" if line in skipping else ""), soft_wrap=True)


def plan_document(plan: ScanPlan) -> dict[str, Any]:
    """A plan as `explain --output json` gives it."""
    slices = [(task, task.slice) for task in plan.tasks]
    return {
        "table": plan.table,
        "mode": plan.mode.value,
        "as_of": None if plan.instant is None else plan.instant.requested_at,
        "commits": [instant.requested_at for instant in plan.instants]
        if plan.mode in (ReadingMode.INCREMENTAL, ReadingMode.CDC)
        else None,
        "columns": plan.schema.names,
        "filter": None if plan.filter is None else str(plan.filter),
        "limit": plan.limit,
        "steps": [
            {"name": s.name, "total": s.total, "kept": s.kept, "unit": s.unit, "note": s.note} for s in plan.steps
        ],
        "bytes": plan.bytes,
        "slices": [
            {
                "partition": task.partition.path,
                "file_id": slice_.group.file_id,
                "files": list(slice_.paths if isinstance(slice_, FileSlice) else (f.path for f in slice_.change_files)),
            }
            for task, slice_ in slices
        ],
    }


def lookup(
    table: TableArgument,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Record keys.", show_default=False)],
    format: FormatOption = None,
    out: OutOption = None,
    meta: MetaOption = None,
    output: OutputOption = Output.text,
    no_metadata: NoMetadata = False,
    debug: Debug = False,
) -> None:
    """The rows of some record keys; by the record index where the table has one."""
    form = format_of(format, out, for_programs=output is Output.json)
    found = open_named(table, no_metadata).lookup(keys)
    if not (meta if meta is not None else form is not Format.table):
        found = found.select([name for name in found.column_names if name not in META_COLUMNS])
    if form is Format.table:
        show_rows(found.to_batches(), found.schema, console(), None)
    else:
        _write(iter(found.to_batches()), found.schema, form, out)
