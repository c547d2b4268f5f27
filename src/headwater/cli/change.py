"""`rollback`: the one command that changes a table."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.options import Debug, NoMetadata, Output, OutputOption, TableArgument, open_named
from headwater.cli.output import console, print_json, printable


def rollback(
    table: TableArgument,
    instant: Annotated[
        str, typer.Argument(metavar="INSTANT", help="Of the write, as history tells it.", show_default=False)
    ],
    output: OutputOption = Output.text,
    no_metadata: NoMetadata = False,
    debug: Debug = False,
) -> None:
    """Undo the newest write, or one that never completed: it leaves the timeline, and its files go.

    What a writer that died left needs no command: the next writer undoes it.
    """
    result = open_named(table, no_metadata).rollback(instant)
    if output is Output.json:
        print_json(
            {
                "instant": result.instant.requested_at,
                "undone": result.undone.requested_at,
                "action": result.undone.action,
                "deleted_files": list(result.files),
                "taken_back": list(result.taken_back),
            }
        )
        return
    console().print(printable(str(result)), soft_wrap=True, highlight=False, markup=False)
