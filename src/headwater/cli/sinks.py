"""Rows on their way out: as a table for people, as JSON lines, CSV or Parquet, a batch at a time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from headwater.cli.output import cell, fit, grid, printable, to_json
from headwater.errors import InvalidArgument, StorageError


class Format(str, Enum):
    """How rows are written."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


_EXTENSIONS = {
    "json": Format.json,
    "jsonl": Format.json,
    "ndjson": Format.json,
    "csv": Format.csv,
    "parquet": Format.parquet,
}


def format_of(chosen: Format | None, out: str | None, *, for_programs: bool) -> Format:
    """The format that was asked for, else the one that the file's name tells, else the one for the reader."""
    if chosen is not None:
        return chosen
    if out is not None:
        found = _EXTENSIONS.get(out.rsplit(".", 1)[-1].lower())
        if found is None:
            raise InvalidArgument(f"--out {out}: its name does not tell the format; add --format json, csv or parquet")
        return found
    return Format.json if for_programs else Format.table


def write_rows(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    format: Format,
    out: str | None,
    progress: Callable[[int], None] = lambda rows: None,
) -> int:
    """Write the rows to a file or to stdout as they come, and say how many there were."""
    writers = {Format.json: _write_json, Format.csv: _write_csv, Format.parquet: _write_parquet}
    with _target(out, format) as stream:
        return writers[format](batches, schema, stream, progress)


@contextmanager
def _target(out: str | None, format: Format) -> Iterator[BinaryIO]:
    """Where the bytes go. A file appears under its name when it is whole; a kill half-way leaves `.part` beside it."""
    if out is None:
        if format is Format.parquet and sys.stdout.isatty():
            raise InvalidArgument("Parquet is not for a terminal; give --out FILE, or send stdout into a file")
        yield sys.stdout.buffer
        return
    direct = os.path.exists(out) and not os.path.isfile(out)
    path = out if direct else f"{out}.part"
    try:
        with open(path, "wb") as stream:
            yield stream
    except BaseException as error:
        if not direct:
            with suppress(OSError):
                os.unlink(path)
        if isinstance(error, OSError) and error.filename == path:
            raise StorageError(f"--out {out}: cannot be written: {error.strerror}") from error
        raise
    if not direct:
        os.replace(path, out)


def _write_json(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, stream: BinaryIO, progress: Callable[[int], None]
) -> int:
    rows = 0
    for batch in batches:
        for row in batch.to_pylist(maps_as_pydicts="lossy"):
            stream.write(json.dumps(to_json(row), ensure_ascii=False).encode() + b"\n")
        rows += batch.num_rows
        progress(rows)
    return rows


def _write_csv(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, stream: BinaryIO, progress: Callable[[int], None]
) -> int:
    flat = pa.schema([pa.field(f.name, f.type if _fits_csv(f.type) else pa.string()) for f in schema])
    stream.write(_csv(pa.Table.from_batches([], flat), header=True))
    rows = 0
    for batch in batches:
        stream.write(_csv(pa.Table.from_batches([_flat(batch, flat)]), header=False))
        rows += batch.num_rows
        progress(rows)
    return rows


def _csv(table: pa.Table, *, header: bool) -> bytes:
    buffer = pa.BufferOutputStream()
    pacsv.write_csv(table, buffer, pacsv.WriteOptions(include_header=header))
    return bytes(buffer.getvalue())


def _fits_csv(kind: pa.DataType) -> bool:
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return not (pa.types.is_nested(kind) or is_bytes or pa.types.is_dictionary(kind))


def _flat(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Nested values as JSON text, bytes in base64; nothing else changes."""
    columns = []
    for column, field in zip(batch.columns, target, strict=True):
        if column.type != field.type:
            values = (
                column.to_pylist(maps_as_pydicts="lossy") if pa.types.is_nested(column.type) else column.to_pylist()
            )
            column = pa.array([_flat_text(value) for value in values], pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _flat_text(value: Any) -> str | None:
    plain = to_json(value)
    return plain if plain is None or isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _write_parquet(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, stream: BinaryIO, progress: Callable[[int], None]
) -> int:
    rows = 0
    with pq.ParquetWriter(pa.PythonFile(stream, mode="w"), schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
            progress(rows)
    return rows


def show_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: Console, most: int | None) -> int:
    """Print at most so many rows; a line below says when there are more.

    As a table where the columns fit the terminal, else each row as a list of its columns.
    """
    rows: list[list[Text]] = []
    more = False
    for batch in batches:
        room = batch.num_rows if most is None else most - len(rows)
        rows += [[cell(v) for v in row.values()] for row in batch.slice(0, room).to_pylist(maps_as_pydicts="lossy")]
        if batch.num_rows > room:
            more = True
            break
    naturals = [
        max(cell_len(name), *(row[index].cell_len for row in rows), 4) for index, name in enumerate(schema.names)
    ]
    widths = fit(naturals, out.width)
    if widths is None:
        _show_records(rows, schema, out)
    else:
        numbers = [f.name for f in schema if _is_number(f.type)]
        found = grid(out, *schema.names, right=" ".join(numbers), widths=widths)
        for row in rows:
            found.add_row(*row)
        out.print(found)
    if more:
        out.print(f"[dim]the first {len(rows)} rows; --limit N shows more, --format json, csv or parquet all[/dim]")
    else:
        out.print(f"[dim]{len(rows)} row{'' if len(rows) == 1 else 's'}[/dim]")
    return len(rows)


def _show_records(rows: list[list[Text]], schema: pa.Schema, out: Console) -> None:
    label = max(cell_len(name) for name in schema.names) + 2
    for number, row in enumerate(rows, 1):
        out.print(Text(f"row {number}", style="dim"))
        for name, value in zip(schema.names, row, strict=True):
            line = Text(f"{printable(name):<{label}}", style="bold").append(
                value.plain, style=f"not bold {value.style}"
            )
            out.print(line, soft_wrap=True)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
