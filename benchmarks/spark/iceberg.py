"""The merge-on-read table of the Spark part as Apache Iceberg keeps it: version 3, with deletion vectors."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from benchmarks.spark import staged
from benchmarks.tables import cache, rows
from benchmarks.tables import real as shared_real
from benchmarks.tables.plain import ROWS_PER_FILE, Progress

VERSION = "1.11.0"
ARTIFACT = f"org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:{VERSION}"
ROOT = Path(__file__).parents[2]
TABLE_VERSION = 1


def path(data: Path, total: int) -> Path:
    """Where the table is: the same final rows as the plain `merged`, a tenth of them changed by a MERGE."""
    return _home(data, total) / "iceberg" / "db" / "mor"


def _home(data: Path, total: int) -> Path:
    return data / f"iceberg-{total}"


def have(data: Path, environment: Path, total: int, progress: Progress) -> tuple[Path, Path]:
    """Make the table unless it is there; Iceberg's jar and the table."""
    jar = shared_real.prepare(data, environment, progress, ARTIFACT)
    table = path(data, total)
    parameters = {
        "iceberg": VERSION,
        "rows": total,
        "rows_per_file": ROWS_PER_FILE,
        "versions": [rows.GENERATOR_VERSION, TABLE_VERSION],
    }
    if cache.is_fresh(table, parameters):
        return jar, table
    staged.write_all(data / f"plain-{total}", total, progress)
    cache.clear(table)
    table.parent.mkdir(parents=True, exist_ok=True)
    progress(f"Spark and Iceberg {VERSION}: a table with deletion vectors")
    sources = data / f"plain-{total}"
    order = {
        "jar": str(jar),
        "memory": shared_real.MEMORY,
        "data": str(_home(data, total)),
        "columns": list(rows.COLUMNS),
        "base": str(sources / "base"),
        "updates": str(sources / "updates"),
    }
    command = [str(environment / "bin" / "python"), "-m", "benchmarks.spark.iceberg_job", json.dumps(order)]
    log = data / "iceberg-tables.log"
    with open(log, "w") as errors:
        done = subprocess.run(
            command, stdout=errors, stderr=errors, cwd=ROOT, env=os.environ | {"PYTHONPATH": "."}, check=False
        )
    if done.returncode:
        raise RuntimeError(f"the Spark job that writes Iceberg's table failed; see {log}")
    cache.seal(table, parameters)
    return jar, table
