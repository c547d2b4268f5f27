"""The Spark part's tables by Apache Hudi itself, and their plain Parquet by Spark's own writer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.spark import staged, states
from benchmarks.tables import cache, rows
from benchmarks.tables.plain import ROWS_PER_FILE, Progress
from benchmarks.tables.real import CORES, HUDI_VERSION, MEMORY

ROOT = Path(__file__).parents[2]
OLDER = [name if name != "qty" else "cast(qty as int) as qty" for name in rows.COLUMNS]
NEWER = [*rows.COLUMNS, "cast(qty as double) * 0.5 as extra"]
UNKNOWN = [*rows.COLUMNS, "cast(null as double) as extra"]

Step = dict[str, Any]


def write_tables(
    data: Path, total: int, needed: Collection[str], jar: Path, environment: Path, progress: Progress
) -> None:
    """Write whichever of the needed tables is missing, in one Spark session."""
    wanted = [step for step in steps(data, total) if Path(step["path"]).name in needed]
    missing = [step for step in wanted if not cache.is_fresh(Path(step["path"]), step["parameters"])]
    if not missing:
        return
    staged.write_all(data / f"plain-{total}", total, progress)
    for step in missing:
        step["done"] = _writes_done(step)
        if not step["done"]:
            cache.clear(Path(step["path"]))
        Path(step["path"]).parent.mkdir(parents=True, exist_ok=True)
    by_path = {step["path"]: step for step in missing}
    scratch = data / f"spark-scratch-{total}"
    order = {"jar": str(jar), "cores": CORES, "memory": MEMORY, "scratch": str(scratch), "steps": missing}
    progress(f"Spark and Hudi {HUDI_VERSION}: {len(missing)} tables, first {_name(missing[0])}")
    for done in _answers(order, environment, data / "spark-tables.log"):
        step = by_path[done["path"]]
        if "writes" in done:
            _partial(step).write_text(json.dumps({"parameters": step["parameters"], "writes": done["writes"]}))
            continue
        cache.seal(Path(step["path"]), step["parameters"])
        _partial(step).unlink(missing_ok=True)
        progress(f"{_name(step)} written in {done['seconds']} s")
    shutil.rmtree(scratch, ignore_errors=True)


def steps(data: Path, total: int) -> Iterator[Step]:
    """Every table and its writes. Those that the embedded part has too are not among them."""
    sources, hudi, plain = data / f"plain-{total}", data / f"hudi-{total}", data / f"spark-plain-{total}"
    common = {
        "hudi": HUDI_VERSION,
        "rows": total,
        "rows_per_file": ROWS_PER_FILE,
        "versions": [rows.GENERATOR_VERSION, states.STATES_VERSION],
    }

    def step(do: str, path: Path, writes: Sequence[Step], partition: str = "city", **more: Any) -> Step:
        told = [{key: value for key, value in write.items() if key not in ("source", "files")} for write in writes]
        parameters = common | {"do": do, "writes": told, "logs": more.get("logs")}
        return {"do": do, "path": str(path), "writes": writes, "partition": partition, "parameters": parameters} | more

    def write(operation: str, source: str, select: Sequence[str], files: Sequence[str] = ()) -> Step:
        given = {"operation": operation, "source": str(sources / source), "select": list(select)}
        return given | ({"files": list(files)} if files else {})

    for name in ("base", "merged", "five"):
        yield step("plain", plain / name, [write("write", name, rows.COLUMNS)])
    for name in ("evolved_cow", "evolved_mor"):
        yield step("plain", plain / name, [write("write", name, states.EVOLVED_SCHEMA.names)])
    dimension = states.DIMENSION.names
    yield step("plain", plain / "dimension", [write("write", "dimension", dimension)], partition="")
    bulk = [write("bulk_insert", "dimension", dimension)]
    yield step("hudi", hudi / "dimension", bulk, partition="", kind="COPY_ON_WRITE")

    first, second = files_of(total, newer=False), files_of(total, newer=True)
    for name, before in (("evolved_cow", OLDER), ("stable_cow", UNKNOWN)):
        writes = [write("bulk_insert", "base", before, first), write("bulk_insert", "base", NEWER, second)]
        yield step("hudi", hudi / name, writes, kind="COPY_ON_WRITE")
    rounds = [write("upsert", staged.round_name(number), rows.COLUMNS) for number in range(states.ROUNDS)]
    rounds.append(write("delete", "deleted", rows.COLUMNS))
    base = str(hudi / "mor_base")
    yield step("hudi", hudi / "mor5_avro", rounds, kind="MERGE_ON_READ", logs="avro", base=base)
    for name, before in (("evolved_mor", OLDER), ("stable_mor", UNKNOWN)):
        writes = [write("bulk_insert", "base", before), write("upsert", "updates", NEWER)]
        yield step("hudi", hudi / name, writes, kind="MERGE_ON_READ", logs="avro")
    yield step("hudi", hudi / "mor5_parquet", rounds, kind="MERGE_ON_READ", logs="parquet", base=base)


def files_of(total: int, *, newer: bool) -> list[str]:
    """The plain files that one of the two commits of the evolved copy-on-write table wrote."""
    chunks = rows.chunks(total, ROWS_PER_FILE)
    return [
        f"city={chunk.city_name}/part-{chunk.number:05d}.parquet"
        for chunk in chunks
        if states.writes_newer_schema(chunk) == newer
    ]


def _partial(step: Step) -> Path:
    """Where it is noted how many writes of a table are done; Hudi itself rolls back one that was cut off."""
    path = Path(step["path"])
    return path.with_name(path.name + ".partial.json")


def _writes_done(step: Step) -> int:
    noted = _partial(step)
    if not noted.exists() or not Path(step["path"]).exists():
        return 0
    told = json.loads(noted.read_text())
    return int(told["writes"]) if told["parameters"] == step["parameters"] else 0


def _name(step: Step) -> str:
    return f"{Path(step['path']).parent.name}/{Path(step['path']).name}"


def _answers(order: Step, environment: Path, log: Path) -> Iterator[dict[str, Any]]:
    """The JSON lines of the Spark job; what it logs goes to a file that the error names."""
    command = [str(environment / "bin" / "python"), "-m", "benchmarks.spark.table_job", json.dumps(order)]
    with (
        open(log, "w") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": "."}
        ) as job,
    ):
        assert job.stdout is not None
        yield from (json.loads(line) for line in job.stdout if line.startswith("{"))
    if job.returncode:
        raise RuntimeError(f"the Spark job that writes the tables failed; see {log}")
