"""Have every table of a run: plain Parquet always, Hudi tables from the chosen source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from benchmarks.tables import cache, generated, plain, real, rows
from benchmarks.tables.generated import ManyFiles
from benchmarks.tables.plain import Progress

MANY: Mapping[str, ManyFiles] = {
    "many_1k": ManyFiles(50, 20),
    "many_10k": ManyFiles(500, 20),
    "many_10k_bulk": ManyFiles(500, 20, in_last_commit=True),
}
MANY_VERSION = 2
"""Part of the stamp of generated tables of many files."""

Source = Literal["hudi", "generated"]
Choice = Literal["hudi", "generated", "auto"]


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the tables of a run are."""

    plain: Path
    hudi: Path
    many: Path
    generated_many: Path
    """Those that are generated whoever writes the others: Hudi takes six minutes for 10,000 files in one commit."""
    source: Source
    note: str

    def path(self, table: str) -> Path:
        shape = MANY.get(table)
        if shape is None:
            return self.hudi / table
        return (self.generated_many if shape.in_last_commit else self.many) / table


def build(
    data: Path,
    environment: Path,
    total: int,
    choice: Choice,
    progress: Progress,
    many: Mapping[str, ManyFiles] = MANY,
) -> Tables:
    """Make what is missing. `auto` takes Apache Hudi where it can be had, else generates the tables."""
    plain_tables = data / f"plain-{total}"
    generated_many = data / "generated-many"
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
            grown = {name: shape for name, shape in many.items() if not shape.in_last_commit}
            real.write_tables(tables, plain_tables, grown, jar, environment, progress)
            bulk = {name: shape for name, shape in many.items() if shape.in_last_commit}
            _many(generated_many, bulk, progress)
            note = f"written by Apache Hudi {real.HUDI_VERSION} on Spark 3.5"
            return Tables(plain_tables, tables, data / "hudi-many", generated_many, "hudi", note)
    else:
        note = "generated, as asked"
    tables = data / f"generated-{total}"
    _generated(tables, total, progress)
    _many(generated_many, many, progress)
    return Tables(plain_tables, tables, generated_many, generated_many, "generated", note)


def parameters(total: int) -> dict[str, int]:
    """What plain and generated tables depend on."""
    return {"rows": total, "rows_per_file": plain.ROWS_PER_FILE, "generator": rows.GENERATOR_VERSION}


def _plain(directory: Path, total: int, progress: Progress) -> None:
    given = parameters(total)
    cache.make(directory / "base", given, lambda path: plain.write_base(path, total, progress))
    cache.make(directory / "merged", given, lambda path: plain.write_merged(path, total, progress))
    cache.make(directory / "updates", given, lambda path: plain.write_updates(path, total, progress))


def _generated(directory: Path, total: int, progress: Progress) -> None:
    given = parameters(total)
    cache.make(directory / "cow", given, lambda path: generated.write_copy_on_write(path, total, progress))
    cache.make(directory / "mor_avro", given, lambda path: generated.write_merge_on_read(path, total, "avro", progress))
    cache.make(
        directory / "mor_parquet", given, lambda path: generated.write_merge_on_read(path, total, "parquet", progress)
    )


def _many(directory: Path, many: Mapping[str, ManyFiles], progress: Progress) -> None:
    for table, shape in many.items():

        def write(path: Path, shape: ManyFiles = shape) -> None:
            generated.write_many_files(path, shape, progress)

        cache.make(directory / table, asdict(shape) | {"version": MANY_VERSION}, write)
