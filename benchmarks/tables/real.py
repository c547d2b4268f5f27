"""Tables written by Apache Hudi itself: Maven brings the bundle, Spark runs in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.tables import cache, generated, rows
from benchmarks.tables.plain import Progress

HUDI_VERSION = "1.2.0"
BUNDLE = "hudi-spark3.5-bundle_2.12"
PYSPARK = "pyspark==3.5.*"
CORES = 2
MEMORY = os.environ.get("BENCH_SPARK_MEMORY", "5g")
JOB = Path(__file__).with_name("spark_job.py")


class HudiUnavailableError(RuntimeError):
    """Apache Hudi cannot be run here; the message says what is missing."""


def prepare(
    data: Path, environment: Path, progress: Progress, artifact: str = f"org.apache.hudi:{BUNDLE}:{HUDI_VERSION}"
) -> Path:
    """Have Java, a bundle (Hudi's, unless another one is named) and an environment with pyspark; the bundle's path."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        raise HudiUnavailableError(f"{' and '.join(missing)} not found on PATH")
    _, name, version = artifact.split(":")
    jar = data / "jars" / f"{name}-{version}.jar"
    if not jar.exists():
        progress(f"fetching {jar.name} with Maven")
        fetch = ["mvn", "--quiet", "--batch-mode", "dependency:copy", f"-Dartifact={artifact}"]
        _call([*fetch, f"-DoutputDirectory={jar.parent}"], f"Maven could not fetch {jar.name}")
    if not (environment / ".installed").exists():
        progress(f"installing {PYSPARK} into {environment.name}")
        _call([sys.executable, "-m", "venv", str(environment)], "no environment for pyspark")
        # pyspark 3.5 imports distutils, which Python has lost since 3.12 and setuptools still carries.
        _call([str(environment / "bin" / "pip"), "install", "--quiet", PYSPARK, "setuptools<81"], "no pyspark")
        (environment / ".installed").touch()
    return jar


def write_tables(
    tables: Path, plain: Path, many: Mapping[str, generated.ManyFiles], jar: Path, environment: Path, progress: Progress
) -> None:
    """Write whichever of the tables is missing, in one Spark session. Crashes leave no stamp, so they are made anew."""
    steps = [step for step in _steps(tables, plain, many) if not _fresh(step)]
    if not steps:
        return
    scratch = tables / "scratch"
    order = {"jar": str(jar), "cores": CORES, "memory": MEMORY, "scratch": str(scratch), "steps": steps}
    for step in steps:
        path = Path(step["path"])
        cache.clear(path)
        if step["do"] == "add_metadata_table":
            path.mkdir(parents=True)
            generated.write_many_files(path, many[step["table"]], progress, by_hudi=True)
    by_table = {step["table"]: step for step in steps}
    progress(f"Spark and Hudi {HUDI_VERSION}: {steps[0]['table']}")
    waiting = [step["table"] for step in steps]
    for line in _lines([str(environment / "bin" / "python"), str(JOB), json.dumps(order)]):
        done = json.loads(line)
        step = by_table[done["table"]]
        cache.seal(Path(step["path"]), step["parameters"])
        waiting.remove(done["table"])
        following = f", now {waiting[0]}" if waiting else ""
        progress(f"Hudi {HUDI_VERSION}: {done['table']} written in {done['seconds']} s{following}")
    shutil.rmtree(scratch, ignore_errors=True)


def _steps(tables: Path, plain: Path, many: Mapping[str, generated.ManyFiles]) -> Iterator[dict[str, Any]]:
    common = {"columns": rows.COLUMNS}
    made_from = json.loads(cache.stamp_of(plain / "base").read_text())

    def step(do: str, table: str, **more: Any) -> dict[str, Any]:
        parameters = {"hudi": HUDI_VERSION, "do": do, "logs": more.get("logs"), "rows": made_from}
        return {"do": do, "table": table, "path": str(tables / table), "parameters": parameters, **common, **more}

    base = {"source": str(plain / "base")}
    update = {"source": str(plain / "updates"), "base": str(tables / "mor_base")}
    yield step("bulk_insert", "cow", kind="COPY_ON_WRITE", **base)
    yield step("bulk_insert", "mor_base", kind="MERGE_ON_READ", **base)
    yield step("upsert", "mor_avro", logs="avro", **update)
    yield step("upsert", "mor_parquet", logs="parquet", **update)
    for table, many_files in many.items():
        # Independent of the number of rows, so kept between runs with other ROWS.
        path = tables.parent / "hudi-many" / table
        shape = {"hudi": HUDI_VERSION, **asdict(many_files), "generator": rows.GENERATOR_VERSION}
        yield step("add_metadata_table", table, partition="p00000") | {
            "path": str(path),
            "parameters": shape,
        }


def _fresh(step: dict[str, Any]) -> bool:
    return cache.is_fresh(Path(step["path"]), step["parameters"])


def _call(command: list[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        text = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise HudiUnavailableError(f"{failure}: {text[-1] if text else f'exit {done.returncode}'}")


def _lines(command: list[str]) -> Iterator[str]:
    """The JSON lines that the Spark job prints; its log goes to a file that the error names."""
    log = Path(json.loads(command[-1])["scratch"]).with_name("spark.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as job:
        assert job.stdout is not None
        yield from (line for line in job.stdout if line.startswith("{"))
    if job.returncode:
        raise RuntimeError(f"the Spark job that writes the Hudi tables failed; see {log}")
