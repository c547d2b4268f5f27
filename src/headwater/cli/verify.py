"""`verify`: walk the whole table and report what does not agree."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from headwater.cli.options import Debug, NoMetadata, Output, OutputOption, TableArgument, open_named
from headwater.cli.output import bar, console, print_json, printable, size_text
from headwater.verify import Severity, VerifyReport
from headwater.verify import verify as verify_table


def verify(
    table: TableArgument,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every page of the base files, not only footers.", show_default=False)
    ] = False,
    output: OutputOption = Output.text,
    no_metadata: NoMetadata = False,
    debug: Debug = False,
) -> None:
    """Check that every file is there, opens, and agrees with the timeline and the metadata table.

    Exits with 1 where rows are lost or reads go wrong; warnings alone exit with 0.
    """
    opened = open_named(table, no_metadata)
    with bar() as progress:
        tasks = {"": progress.add_task("timeline", total=None)}

        def step(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)

        report = verify_table(opened, step, deep=deep)
    if output is Output.json:
        print_json(document(report))
    else:
        show(report)
    if not report.ok:
        raise typer.Exit(1)


def document(report: VerifyReport) -> dict[str, object]:
    """A report as `verify --output json` gives it."""
    findings = [
        {"severity": f.severity.value, "where": f.where, "what": f.what, "todo": f.todo} for f in report.findings
    ]
    return {"table": report.table, "ok": report.ok, "findings": findings, "checked": dict(report.checked)}


def show(report: VerifyReport) -> None:
    """A report for people: the verdict, what was looked at, and every finding with what to do."""
    out = console()
    errors = sum(1 for finding in report.findings if finding.severity is Severity.ERROR)
    warnings = len(report.findings) - errors
    verdict = Text("fine", style="bold green") if report.ok else Text("damaged", style="bold red")
    if report.findings:
        verdict.append(f" ({errors} errors, {warnings} warnings)", style="not bold default")
    out.print(verdict, Text(printable(report.table), style="dim"), soft_wrap=True)
    looked = [f"{size_text(n) if what == 'bytes' else f'{n} {what}'}" for what, n in report.checked.items() if n]
    out.print(Text("looked at " + ", ".join(looked), style="dim"), soft_wrap=True)
    for finding in report.findings:
        style = "red" if finding.severity is Severity.ERROR else "yellow"
        line = Text(f"{finding.severity.value} ", style=style)
        line.append(printable(finding.where), style="bold default")
        line.append(f"\n  {printable(finding.what)}\n  ", style="not bold default")
        line.append(f"→ {finding.todo}", style="dim")
        out.print(line, soft_wrap=True)
