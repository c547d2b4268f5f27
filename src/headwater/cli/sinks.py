"""Rows on their way out: as a table for people, as JSON lines, CSV or Parquet, a batch at a time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from rich.console import Console

from headwater.cli.output import cell, grid, to_json
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
    """Where the bytes go. A file appears under its name when it is whole; a crash leaves `.part` beside it."""
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
    except OSError as error:
        if error.filename == path:
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
            values = column.to_pylist(maps_as_pydicts="lossy") if pa.types.is_nested(column.type) else column.to_pylist()
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
    """Print at most so many rows as one table; a line below says when there are more."""
    right = " ".join(f.name for f in schema if pa.types.is_primitive(f.type) and not pa.types.is_temporal(f.type))
    found = grid(out, *schema.names, right=right)
    rows, more = 0, False
    for batch in batches:
        room = batch.num_rows if most is None else max(most - rows, 0)
        for row in batch.slice(0, room).to_pylist(maps_as_pydicts="lossy"):
            found.add_row(*(cell(value) for value in row.values()))
        rows += min(batch.num_rows, room)
        if batch.num_rows > room:
            more = True
            break
    out.print(found)
    if more:
        out.print(f"[dim]the first {rows} rows; --limit N shows more, --format json, csv or parquet gives all[/dim]")
    else:
        out.print(f"[dim]{rows} row{'' if rows == 1 else 's'}[/dim]")
    return rows
