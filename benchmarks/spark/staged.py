"""Plain Parquet of the Spark part's states, by Arrow: what Hudi's writes read, and the baseline of generated tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.spark import states
from benchmarks.tables import cache, rows
from benchmarks.tables.plain import ROWS_PER_FILE, Progress, write_parquet

Rows = Callable[[rows.Chunk, int], pa.Table]


def round_name(number: int) -> str:
    """The directory of one of the five updates."""
    return f"round_{number}"


def write_all(directory: Path, total: int, progress: Progress) -> None:
    """Have the states of `total` rows in `directory`, beside those that the embedded part keeps there."""

    def of_round(number: int) -> Rows:
        return lambda chunk, total: states.round_rows(chunk, total, number)[0]

    found: dict[str, Rows] = {
        "five": states.five_rows,
        "evolved_cow": states.evolved_cow_rows,
        "evolved_mor": states.evolved_mor_rows,
        **{round_name(number): of_round(number) for number in range(states.ROUNDS)},
        "deleted": lambda chunk, total: states.deleted_rows(chunk, total)[0],
    }
    for name, rows_of in found.items():
        _make(directory / name, total, rows_of, progress)
    given = {"versions": [rows.GENERATOR_VERSION, states.STATES_VERSION]}
    dimension = directory / "dimension"
    cache.make(dimension, given, lambda path: write_parquet(states.dimension_rows(), path / "part-00000.parquet"))


def _make(directory: Path, total: int, rows_of: Rows, progress: Progress) -> None:
    def write(path: Path) -> None:
        progress(f"making plain Parquet: {path.name}")
        for chunk in rows.chunks(total, ROWS_PER_FILE):
            partition = path / f"city={chunk.city_name}"
            partition.mkdir(parents=True, exist_ok=True)
            table = rows_of(chunk, total).drop_columns(["city"])
            write_parquet(table, partition / f"part-{chunk.number:05d}.parquet")

    versions = [rows.GENERATOR_VERSION, states.STATES_VERSION]
    cache.make(directory, {"rows": total, "rows_per_file": ROWS_PER_FILE, "versions": versions}, write)
