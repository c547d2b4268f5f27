"""Order a session of queries and collect what it measured.

A session that dies is started again behind the query it was in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.spark.queries import (
    FALLBACK,
    HEADWATER,
    HUDI,
    ICEBERG,
    MERGE,
    PARQUET,
    SAME_FILES,
    STABLE,
    UNCACHED,
    Query,
)
from benchmarks.spark.session_job import MARK
from benchmarks.spark.tables import DIMENSION, Tables

ROOT = Path(__file__).parents[2]
CORES = 2
SMALL = 2_000_000
"""Rows below which a small heap will do."""
TIRELESS = (PARQUET, SAME_FILES, HEADWATER, STABLE, ICEBERG)
"""Systems that take every turn; the others stop when they have used up their patience."""

Answer = dict[str, Any]
READERS: Mapping[str, dict[str, Any]] = {
    PARQUET: {"format": "parquet"},
    SAME_FILES: {"format": "parquet"},
    HEADWATER: {"format": "headwater"},
    STABLE: {"format": "headwater"},
    UNCACHED: {"format": "headwater", "options": {"merge-cache": "false"}},
    MERGE: {"format": "headwater", "options": {"reader": "merge"}},
    FALLBACK: {"format": "headwater", "options": {"use.dsv2": "false"}},
    HUDI: {"format": "hudi"},
    ICEBERG: {"format": "iceberg"},
}
"""How each system is asked for a table."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: timed turns, seconds after which slow systems stop, the longest a run may take, the heap."""

    rounds: int
    patience: float
    timeout: float
    memory: str


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a session runs: its interpreter, which has pyspark, and the jars to add."""

    python: Path
    jars: tuple[Path, ...] = ()
    configure: bool = True
    """Whether `headwater.configure` sets the session up; else its jar is among `jars`."""
    settings: tuple[tuple[str, str], ...] = ()


HUDI_SETTINGS = (
    ("spark.serializer", "org.apache.spark.serializer.KryoSerializer"),
    ("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar"),
    ("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"),
    ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog"),
)


def memory_for(total: int) -> str:
    """Spark's heap for tables of `total` rows, unless the environment says otherwise."""
    return os.environ.get("BENCH_SPARK_MEMORY") or ("2g" if total < SMALL else "5g")


def peers_environment(python: Path, hudi_jar: Path) -> Environment:
    """Spark 3.5 with Apache Hudi and our connector; the sidecar runs in the environment of this process."""
    ours = ROOT / "src" / "headwater" / "spark" / "jars" / "headwater-spark-3.5.jar"
    jars = (hudi_jar, ours) if ours.exists() else (hudi_jar,)
    return Environment(
        python, jars, configure=False, settings=(*HUDI_SETTINGS, ("spark.headwater.python", sys.executable))
    )


def measure(
    asked: Sequence[Query],
    tables: Tables,
    environment: Environment,
    effort: Effort,
    log: Path,
    started: Callable[[str], None],
) -> Iterator[Answer]:
    """What the session says of each query, as it comes. `started` is told the version of Spark."""
    waiting = list(asked)
    while waiting:
        running = False
        for answer in _session(waiting, tables, environment, effort, log):
            if "spark" in answer:
                running = True
                started(answer["spark"])
                continue
            waiting.pop(0)
            yield answer
        if waiting:
            if not running:
                raise RuntimeError(f"the Spark session did not start; see {log}")
            failed = waiting.pop(0)
            failure = {"error": f"the session ended; see {log.name}", "seconds": [], "answer": None}
            yield {"query": failed.name, "busy": [], "systems": dict.fromkeys(failed.systems, failure)}


def _session(
    asked: Sequence[Query], tables: Tables, environment: Environment, effort: Effort, log: Path
) -> Iterator[Answer]:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as scratch:
        order_file = Path(scratch) / "order.json"
        order_file.write_text(json.dumps(order(asked, tables, environment, effort, Path(scratch))))
        command = [str(environment.python), "-m", "benchmarks.spark.session_job", str(order_file)]
        variables = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
        variables |= {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(environment.python)}
        log.parent.mkdir(parents=True, exist_ok=True)
        with (
            open(log, "a") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env=variables) as job,
        ):
            assert job.stdout is not None
            try:
                for line in job.stdout:
                    if line.startswith(MARK):
                        yield json.loads(line.removeprefix(MARK))
            finally:
                # Of a run that was interrupted no session goes on.
                job.terminate()


def order(
    asked: Sequence[Query], tables: Tables, environment: Environment, effort: Effort, scratch: Path
) -> dict[str, Any]:
    """The order that the session's process gets."""
    settings = {
        "spark.master": f"local[{CORES}]",
        "spark.app.name": "headwater-bench",
        "spark.driver.memory": effort.memory,
        # The whole heap from the start, as Spark's executors have it on Kubernetes: a heap that grows and shrinks makes
        # the collector mark it again and again, which costs whoever happens to be in turn.
        "spark.driver.extraJavaOptions": f"-Xms{effort.memory}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        **dict(environment.settings),
    }
    if environment.jars:
        settings["spark.jars"] = ",".join(str(jar) for jar in environment.jars)
    systems = {name for query in asked for name in query.systems}
    return {
        "settings": settings,
        "configure": environment.configure and bool(systems - {PARQUET, SAME_FILES, HUDI, ICEBERG}),
        "rounds": effort.rounds,
        "patience": effort.patience,
        "timeout": effort.timeout,
        "tireless": list(TIRELESS),
        "systems": [{"name": name, "options": {}, "settings": {}} | READERS[name] for name in sorted(systems)],
        "queries": [
            {
                "name": query.name,
                "sql": query.sql,
                "sink": query.sink,
                "check": query.check,
                "check_sql": query.check_sql,
                "given": [{"system": name, "paths": paths(query, name, tables)} for name in query.systems],
            }
            for query in asked
        ],
    }


def paths(query: Query, system: str, tables: Tables) -> dict[str, str]:
    """Where a system finds the tables that a query names."""
    if system == PARQUET:
        found = {"t": tables.baseline(query.plain)}
        dimension = tables.baseline(DIMENSION)
    elif system == ICEBERG:
        # Joins with the dimension are not asked of it.
        assert tables.iceberg is not None
        return {"t": str(tables.iceberg)}
    else:
        found = {"t": tables.table(query.stable if system == STABLE else query.table)}
        dimension = tables.table(DIMENSION)
    if "{dimension}" in query.sql:
        found["dimension"] = dimension
    return {name: str(path) for name, path in found.items()}
