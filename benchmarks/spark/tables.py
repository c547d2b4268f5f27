"""Have every table of a run: Hudi tables from the chosen source, and plain Parquet by the same kind of writer."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from benchmarks.spark import generated, real, staged
from benchmarks.tables import build as shared
from benchmarks.tables import cache
from benchmarks.tables import real as shared_real
from benchmarks.tables.plain import Progress

MANY = "many_10k"
DIMENSION = "dimension"
MANY_PLAIN_VERSION = 1


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the tables of a run are."""

    plain: Path
    hudi: Path
    many: Path
    many_plain: Path
    source: shared.Source
    note: str
    jar: Path | None
    """Apache Hudi's bundle, where it is at hand."""
    iceberg: Path | None = None
    """Apache Iceberg's table, where it is asked."""

    def table(self, name: str) -> Path:
        """A Hudi table."""
        return self.many if name == MANY else self.hudi / name

    def baseline(self, name: str) -> Path:
        """Plain Parquet with the same final rows."""
        return self.many_plain if name == MANY else self.plain / name


def have(
    data: Path,
    environment: Path,
    total: int,
    choice: shared.Choice,
    needed: Collection[str],
    progress: Progress,
) -> Tables:
    """Make what is missing of the needed tables. Where Hudi writes them, Spark's own writer makes the plain Parquet."""
    many = {MANY: shared.MANY[MANY]} if MANY in needed else {}
    found = shared.build(data, environment, total, choice, progress, many)
    many_table = found.path(MANY)
    many_plain = data / f"spark-plain-many-{found.source}" / MANY
    if many:
        stamp = {"version": MANY_PLAIN_VERSION, "of": cache.stamp_of(many_table).read_text()}
        cache.make(many_plain, stamp, lambda path: _copy_base_files(many_table, path, progress))
    if found.source == "hudi":
        jar = shared_real.prepare(data, environment, progress)
        real.write_tables(data, total, needed, jar, environment, progress)
        plain = data / f"spark-plain-{total}"
        return Tables(plain, found.hudi, many_table, many_plain, "hudi", found.note, jar)
    staged.write_all(found.plain, total, progress)
    generated.write_tables(found.hudi, total, needed, progress)
    return Tables(found.plain, found.hudi, many_table, many_plain, "generated", found.note, None)


def _copy_base_files(table: Path, plain: Path, progress: Progress) -> None:
    """A table of many small files as plain Parquet: the same files in the same folders, without Hudi's own."""
    progress("making plain Parquet of many files")
    for partition in sorted(table.glob("part=*")):
        (plain / partition.name).mkdir()
        for file in partition.glob("*.parquet"):
            if not file.name.startswith("."):
                shutil.copyfile(file, plain / partition.name / file.name)
