"""What the commands share: the table to open, and options that mean the same everywhere."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

import headwater
from headwater.table import Table


class Output(str, Enum):
    """For whom a command writes."""

    text = "text"
    json = "json"


def _remember_debug(context: typer.Context, value: bool) -> bool:
    if value:
        context.meta["headwater.debug"] = True
    return value


TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="The table's base folder, or a URI such as s3://bucket/table. demo:trips, demo:orders, demo:stats and "
        "demo:legacy are tables that ship with headwater.",
        show_default=False,
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", help="text for people, json for programs.")]
NoMetadata = Annotated[
    bool, typer.Option("--no-metadata", help="List folders instead of asking the metadata table.", show_default=False)
]
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Show the traceback of an error.", callback=_remember_debug, show_default=False),
]


def open_named(table: str, no_metadata: bool) -> Table:
    """The table at a path or URI; `demo:NAME` is one that ships."""
    if table.startswith("demo:"):
        from headwater.demo import demo_table

        table = demo_table(table.removeprefix("demo:"))
    return headwater.open(table, metadata=not no_metadata)
