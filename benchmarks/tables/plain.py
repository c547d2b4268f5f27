"""Plain Parquet with the benchmark's rows: the 1.0 of every ratio, and what the Hudi tables are made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tables import rows

ROWS_PER_FILE = 1_250_000
"""About 105 MB of snappy-compressed Parquet."""

Progress = Callable[[str], None]


def write_base(directory: Path, total: int, progress: Progress) -> None:
    """The rows as first written, by hive partition."""
    progress("making plain Parquet")
    for chunk in rows.chunks(total, ROWS_PER_FILE):
        _write(directory, chunk, rows.base_rows(chunk, total))


def write_merged(directory: Path, total: int, progress: Progress) -> None:
    """The rows after the update, by hive partition."""
    progress("making plain Parquet after the update")
    for chunk in rows.chunks(total, ROWS_PER_FILE):
        _write(directory, chunk, rows.merged_rows(chunk, total))


def write_updates(directory: Path, total: int, progress: Progress) -> None:
    """The updated rows alone: the input of the upserts."""
    progress("making the updated rows")
    for chunk in rows.chunks(total, ROWS_PER_FILE):
        _write(directory, chunk, rows.updated_rows(chunk, total)[0])


def write_parquet(table: pa.Table, where: Path | pa.NativeFile) -> None:
    """Parquet as Hudi's writer is told to write it: snappy, with decimals as fixed-length bytes."""
    pq.write_table(table, where, compression="snappy")


def _write(directory: Path, chunk: rows.Chunk, table: pa.Table) -> None:
    partition = directory / f"city={chunk.city_name}"
    partition.mkdir(parents=True, exist_ok=True)
    write_parquet(table.drop_columns(["city"]), partition / f"part-{chunk.number:05d}.parquet")
