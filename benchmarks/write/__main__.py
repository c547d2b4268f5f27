"""The write part of `make bench`: `python -m benchmarks.write --rows 10000000 [--peers]`.

Each system writes in a Spark session of its own, one after the other; then a thousand rows are written without Spark
into tables of several sizes. Prints the ratios with their bars and writes `results/write.json` and `.png`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.results import machine
from benchmarks.spark import document, iceberg
from benchmarks.tables import real
from benchmarks.write import report
from benchmarks.write.job import MARK

ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.write")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=2, help="turns of each of our writes; peers have one")
    parser.add_argument("--kinds", default="cow,mor")
    parser.add_argument("--indexes", default="bloom,bucket,record_index")
    parser.add_argument("--peer-indexes", default="bucket", help="those that Apache Hudi is measured with")
    parser.add_argument("--changes", default="tenth,tenth+new,thousand")
    parser.add_argument("--small", default="1000000,10000000,40000000", help="sizes of tables for 1,000 rows each")
    parser.add_argument("--peers", action="store_true", default=os.environ.get("PEERS") == "1")
    parser.add_argument("--systems", default="headwater,hudi,iceberg")
    parser.add_argument("--memory", default="1g", help="of our Spark session")
    parser.add_argument("--peer-memory", default="8g", help="of the peers' sessions")
    parser.add_argument("--keep", action="store_true", help="leave the tables there")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--document", type=Path, help="a page whose section on writing is made anew")
    given = parser.parse_args()
    data = ROOT / "benchmarks" / "data" / f"write-{given.rows}"
    common = {
        "data": str(data),
        "rows": given.rows,
        "kinds": given.kinds.split(","),
        "changes": [name for name in given.changes.split(",") if name],
        "keep": given.keep,
    }
    systems = given.systems.split(",")
    found: list[dict[str, Any]] = []
    if "headwater" in systems:
        ours = {"system": "headwater", "baseline": True, "indexes": given.indexes.split(","), "memory": given.memory}
        found += _run(sys.executable, "job", {**common, **ours, "rounds": given.rounds})
    for rows in (int(text) for text in given.small.split(",") if text):
        order = {"data": str(data), "rows": rows, "indexes": ["record_index", "bucket"], "rounds": 5}
        found += _run(sys.executable, "small_job", order)
    if given.peers:
        found += _peers(given, common, systems)
    if not given.keep:
        shutil.rmtree(data, ignore_errors=True)
    report.print_report(Console(width=170), found, given.rows)
    made_at = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    heaps = {"headwater": given.memory, "peers": given.peer_memory}
    told = {"made_at": made_at, "machine": machine(), "rows": given.rows, "heaps": heaps, "writes": found}
    given.results.mkdir(parents=True, exist_ok=True)
    (given.results / "write.json").write_text(json.dumps(told, indent=1) + "\n")
    report.plot(given.results / "write.png", found)
    if given.document:
        document.write(given.document, report.markdown(found, told), report.BEGIN, report.END)


def _peers(given: argparse.Namespace, common: dict[str, Any], systems: list[str]) -> Iterator[dict[str, Any]]:
    environment = ROOT / ".venv-peers"
    python = str(environment / "bin" / "python")
    for system in ("hudi", "iceberg"):
        if system not in systems:
            continue
        data = ROOT / "benchmarks" / "data"
        artifact = [iceberg.ARTIFACT] if system == "iceberg" else []
        jar = real.prepare(data, environment, print, *artifact)
        indexes = ["none"] if system == "iceberg" else given.peer_indexes.split(",")
        order = {**common, "system": system, "jar": str(jar), "indexes": indexes, "memory": given.peer_memory}
        yield from _run(python, "job", {**order, "rounds": 1})


def _run(python: str, module: str, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a process measured, as it comes."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": python}
    command = [python, "-m", f"benchmarks.write.{module}", json.dumps(order)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings, cwd=ROOT) as job:
        assert job.stdout is not None
        for line in job.stdout:
            if line.startswith(MARK):
                found = json.loads(line.removeprefix(MARK))
                print(_line(found), flush=True)
                yield found
    if job.returncode:
        raise SystemExit(f"{order.get('system', module)}: the process ended with {job.returncode}")


def _line(one: dict[str, Any]) -> str:
    name = " ".join(str(one[key]) for key in ("system", "write", "rows", "kind", "index", "of") if one.get(key))
    phases = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in one["phases"].items())
    failed = f"{one['error']}, " if one["error"] else ""
    return f"  {name}: {failed}{one['seconds']:.2f} s, {one['peak_mb']} MB{f' ({phases})' if phases else ''}"


if __name__ == "__main__":
    main()
