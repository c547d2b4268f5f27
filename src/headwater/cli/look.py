"""`describe`, `history`, `schema` and `files`: what a table is, without reading its rows."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.text import Text

from headwater.cli.options import Debug, NoMetadata, Output, OutputOption, TableArgument, open_named
from headwater.cli.output import cell, console, duration_text, grid, is_plain, picture_width, print_json, size_text
from headwater.hudi.schema import META_COLUMNS
from headwater.picture import lane_of, picture
from headwater.table import Table


def describe(
    table: TableArgument,
    output: OutputOption = Output.text,
    no_metadata: NoMetadata = False,
    debug: Debug = False,
) -> None:
    """What a table is: kind, version, keys, partitions, size, newest commit and pending work."""
    opened = open_named(table, no_metadata)
    found = description(opened)
    if output is Output.json:
        print_json(found)
        return
    out = console()
    out.print(Text(opened.name, style="bold"))
    rows = grid(out)
    rows.show_header = False
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column()
    for name, value in found.items():
        if name != "name":
            rows.add_row(name.replace("_", " "), _described(name, value))
    out.print(rows)


def description(table: Table) -> dict[str, Any]:
    """What `describe` tells."""
    config, timeline = table.hudi.config, table.hudi.timeline
    partitions = table.inspect.partitions()
    commits = timeline.commits
    return {
        "name": table.name,
        "uri": table.uri,
        "type": config.table_type.value,
        "version": config.version,
        "timeline_layout": config.layout,
        "base_format": config.base_format,
        "record_key": list(config.record_key_fields),
        "partitioned_by": list(config.partition_fields),
        "ordered_by": list(config.ordering_fields),
        "merge_mode": config.merge_mode_declared or (config.payload_class or "").rsplit(".", 1)[-1] or None,
        "columns": len(table.schema) - len(META_COLUMNS),
        "change_data_capture": config.cdc_logging.value if config.cdc_enabled else None,
        "metadata_table": list(config.metadata_partitions),
        "commits": len(commits),
        "first_commit": commits[0].requested_at if commits else None,
        "latest_commit": commits[-1].requested_at if commits else None,
        "pending": [str(instant) for instant in timeline.instants if not instant.is_completed],
        "partitions": partitions.num_rows,
        "slices": sum(partitions.column("slices").to_pylist()),
        "files": sum(partitions.column("files").to_pylist()),
        "bytes": sum(partitions.column("bytes").to_pylist()),
    }


def _described(name: str, value: Any) -> Text:
    if value is None or value == []:
        return Text("none", style="dim")
    if name == "bytes":
        return Text(f"{size_text(value)} ({value})")
    if isinstance(value, list):
        return Text(", ".join(map(str, value)))
    return cell(value)


def history(
    table: TableArgument,
    archived: Annotated[
        bool, typer.Option("--archived", help="With the actions that left the active timeline.", show_default=False)
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the newest so many actions.")] = None,
    output: OutputOption = Output.text,
    no_metadata: NoMetadata = False,
    debug: Debug = False,
) -> None:
    """Every action on a table, as a picture along time and as a list. Pending actions are hollow."""
    found = open_named(table, no_metadata).inspect.history(archived=archived)
    if limit is not None:
        found = found.slice(max(found.num_rows - limit, 0))
    if output is Output.json:
        print_json(found.to_pylist())
        return
    out = console()
    out.print(picture(found, width=picture_width(out), plain=is_plain(out)), no_wrap=True)
    if found.num_rows:
        out.print()
        print_history(found, out)


def print_history(found: pa.Table, out: Console) -> None:
    """The actions as a table."""
    heads = ("instant", "took", "action", "operation", "files", "ins", "upd", "del", "size")
    rows = grid(out, *heads, right="took files ins upd del size")
    for row in found.to_pylist():
        lane = lane_of(row["action"], row["operation"])
        done = row["state"] == "completed"
        action = Text(f"{lane.glyph(done=done, plain=is_plain(out))} ", style=lane.style)
        rows.add_row(
            Text(row["requested_at"], style="dim" if row["archived"] else ""),
            duration_text(row["requested_at"], row["completed_at"]),
            action.append(row["action"], style="default"),
            Text(_short_operation(row["operation"])) if done else Text(row["state"], style="dim"),
            *(Text(str(row[name] or "")) for name in ("files", "rows_inserted", "rows_updated", "rows_deleted")),
            size_text(row["bytes"] or None),
        )
    out.print(rows)


def _short_operation(operation: str | None) -> str:
    return (operation or "").lower().replace("insert_overwrite", "overwrite").replace("_", " ")


def schema(
    table: TableArgument,
    as_of: Annotated[str | None, typer.Option(help="The columns at an instant, a timestamp or a date.")] = None,
    output: OutputOption = Output.text,
    no_metadata: NoMetadata = False,
    debug: Debug = False,
) -> None:
    """The columns of a table: their types, and which make the key, the partition and the order."""
    opened = open_named(table, no_metadata)
    hudi = opened.hudi
    found = hudi.schema if as_of is None else hudi.schema_at(hudi.instant_at(as_of))
    columns = [
        {
            "name": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "roles": _roles(opened, field.name),
        }
        for field in found.arrow
    ]
    if output is Output.json:
        print_json(columns)
        return
    out = console()
    rows = grid(out, "column", "type", "nullable", "role")
    for column in columns:
        style = "dim" if column["roles"] == ["meta"] else ""
        cells = (column["name"], column["type"], "yes" if column["nullable"] else "no", ", ".join(column["roles"]))
        rows.add_row(*(Text(str(text), style=style) for text in cells))
    out.print(rows)


def _roles(table: Table, name: str) -> list[str]:
    config = table.hudi.config
    roles = {
        "meta": META_COLUMNS,
        "key": config.record_key_fields,
        "partition": config.partition_fields,
        "ordering": config.ordering_fields,
    }
    return [role for role, names in roles.items() if name in names]


def files(
    table: TableArgument,
    partition: Annotated[str | None, typer.Option(help="Only the files of this partition.")] = None,
    output: OutputOption = Output.text,
    no_metadata: NoMetadata = False,
    debug: Debug = False,
) -> None:
    """The files that a snapshot reads now: base files, and under each the logs to be merged over it."""
    found = open_named(table, no_metadata).inspect.files(partition).to_pylist()
    if output is Output.json:
        print_json(found)
        return
    out = console()
    before = None
    for row in found:
        if row["partition"] != before:
            out.print(Text(row["partition"] or "(no partitions)", style="bold"), soft_wrap=True)
        before = row["partition"]
        line = Text(f"{size_text(row['size']):>8}  ", style="dim")
        name = row["path"].rsplit("/", 1)[-1]
        line.append(
            name if row["kind"] == "base" else f" {name}", style="not dim" if row["kind"] == "base" else "not dim cyan"
        )
        out.print(line, soft_wrap=True)
    out.print(f"[dim]{len(found)} files, {size_text(sum(row['size'] or 0 for row in found))}[/dim]")
