"""Have every table of a run: plain Parquet always, Hudi tables from the chosen source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.tables import cache, generated, plain, real, rows
from benchmarks.tables.plain import Progress

MANY: Mapping[str, tuple[int, int]] = {"many_1k": (50, 20), "many_10k": (500, 20)}
"""Tables of many small files: partitions × files in each."""

Source = Literal["hudi", "generated"]
Choice = Literal["hudi", "generated", "auto"]


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the tables of a run are."""

    plain: Path
    hudi: Path
    many: Path
    source: Source
    note: str

    def path(self, table: str) -> Path:
        return (self.many if table in MANY else self.hudi) / table


def build(
    data: Path,
    environment: Path,
    total: int,
    choice: Choice,
    progress: Progress,
    many: Mapping[str, tuple[int, int]] = MANY,
) -> Tables:
    """Make what is missing. `auto` takes Apache Hudi where it can be had, else generates the tables."""
    plain_tables = data / f"plain-{total}"
    _plain(plain_tables, total, progress)
    if choice != "generated":
        try:
            jar = real.prepare(data, environment, progress)
        except real.HudiUnavailableError as reason:
            if choice == "hudi":
                raise
            note = f"generated, because {reason}"
        else:
            tables = data / f"hudi-{total}"
            real.write_tables(tables, plain_tables, many, jar, environment, progress)
            note = f"written by Apache Hudi {real.HUDI_VERSION} on Spark 3.5"
            return Tables(plain_tables, tables, data / "hudi-many", "hudi", note)
    else:
        note = "generated, as asked"
    tables = data / f"generated-{total}"
    _generated(tables, data / "generated-many", total, many, progress)
    return Tables(plain_tables, tables, data / "generated-many", "generated", note)


def parameters(total: int) -> dict[str, int]:
    """What plain and generated tables depend on."""
    return {"rows": total, "rows_per_file": plain.ROWS_PER_FILE, "generator": rows.GENERATOR_VERSION}


def _plain(directory: Path, total: int, progress: Progress) -> None:
    given = parameters(total)
    cache.make(directory / "base", given, lambda path: plain.write_base(path, total, progress))
    cache.make(directory / "merged", given, lambda path: plain.write_merged(path, total, progress))
    cache.make(directory / "updates", given, lambda path: plain.write_updates(path, total, progress))


def _generated(
    directory: Path, many_directory: Path, total: int, many: Mapping[str, tuple[int, int]], progress: Progress
) -> None:
    given = parameters(total)
    cache.make(directory / "cow", given, lambda path: generated.write_copy_on_write(path, total, progress))
    cache.make(directory / "mor_avro", given, lambda path: generated.write_merge_on_read(path, total, "avro", progress))
    cache.make(
        directory / "mor_parquet", given, lambda path: generated.write_merge_on_read(path, total, "parquet", progress)
    )
    for table, (partitions, files) in many.items():
        shape = {"partitions": partitions, "files": files, "metadata_table": 1, "generator": rows.GENERATOR_VERSION}

        def write(path: Path, partitions: int = partitions, files: int = files) -> None:
            generated.write_many_files(path, partitions, files, progress)

        cache.make(many_directory / table, shape, write)
