"""The write part of `make bench`: `python -m benchmarks.write --rows 10000000 [--peers]`.

Ratios are of one run: bulk insert against Spark's plain Parquet write of the same frame, and with `--peers` each write
against Apache Hudi's with the same index. Prints a table and writes `results/write.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.tables import real
from benchmarks.write.job import MARK

ROOT = Path(__file__).parents[2]
BULK_BAR = 1.4
HUDI_BAR = 4.0
MEMORY_BAR = 0.5
_Key = tuple[str, str, str, str]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.write")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kinds", default="cow,mor")
    parser.add_argument("--indexes", default="bloom,bucket,record_index")
    parser.add_argument("--changes", default="tenth,tenth+new,thousand")
    parser.add_argument("--peers", action="store_true", default=os.environ.get("PEERS") == "1")
    parser.add_argument("--memory", default=os.environ.get("BENCH_SPARK_MEMORY", "4g"))
    parser.add_argument("--keep", action="store_true", help="leave the tables there")
    given = parser.parse_args()
    data = ROOT / "benchmarks" / "data" / f"write-{given.rows}"
    order = {
        "data": str(data),
        "rows": given.rows,
        "rounds": given.rounds,
        "kinds": given.kinds.split(","),
        "indexes": given.indexes.split(","),
        "changes": [name for name in given.changes.split(",") if name],
        "memory": given.memory,
    }
    found = list(_run(sys.executable, {**order, "system": "headwater", "baseline": True}))
    if given.peers:
        environment = ROOT / ".venv-peers"
        jar = real.prepare(ROOT / "benchmarks" / "data", environment, print)
        found += _run(str(environment / "bin" / "python"), {**order, "system": "hudi", "jar": str(jar)})
    if not given.keep:
        shutil.rmtree(data, ignore_errors=True)
    print(report(found))
    target = ROOT / "benchmarks" / "results" / "write.json"
    target.write_text(json.dumps({"rows": given.rows, "writes": found}, indent=1) + "\n")


def _run(python: str, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a system's session measured, as it comes."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": python}
    command = [python, "-m", "benchmarks.write.job", json.dumps(order)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings, cwd=ROOT) as job:
        assert job.stdout is not None
        for line in job.stdout:
            if line.startswith(MARK):
                found = json.loads(line.removeprefix(MARK))
                print(_line(found), flush=True)
                yield found
    if job.returncode:
        raise SystemExit(f"{order['system']}: the session ended with {job.returncode}")


def _line(one: dict[str, Any]) -> str:
    name = " ".join(str(one[key]) for key in ("system", "write", "rows", "kind", "index") if one.get(key))
    phases = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in one["phases"].items())
    return (
        f"  {name}: {one['error'] or ''}{one['seconds']:.2f} s, {one['peak_mb']} MB{f' ({phases})' if phases else ''}"
    )


def report(found: list[dict[str, Any]]) -> str:
    """The ratios, each with its bar."""
    best: dict[_Key, dict[str, float]] = defaultdict(dict)
    peak: dict[_Key, dict[str, float]] = defaultdict(dict)
    for one in found:
        if one["error"]:
            continue
        key = (one["write"], one.get("rows") or "", one.get("kind") or "", one.get("index") or "")
        best[key][one["system"]] = min(one["seconds"], best[key].get(one["system"], float("inf")))
        peak[key][one["system"]] = max(one["peak_mb"], peak[key].get(one["system"], 0))
    plain = best.get(("plain parquet", "", "", ""), {}).get("headwater")
    lines = ["write                                   seconds   ratio"]
    for key, seconds in best.items():
        name = " ".join(part for part in key if part)
        ours = seconds.get("headwater")
        if ours is None:
            continue
        text = f"{name:<38} {ours:>8.2f}"
        if key[0] == "bulk_insert" and not key[3] and plain:
            verdict = "met" if ours / plain <= BULK_BAR else "missed"
            text += f"   {ours / plain:.2f}x of plain Parquet (bar {BULK_BAR}x: {verdict})"
        if "hudi" in seconds:
            times, memory = seconds["hudi"] / ours, peak[key]["headwater"] / peak[key]["hudi"]
            text += f"   Hudi {seconds['hudi']:.2f}: {times:.1f}x faster (bar {HUDI_BAR:.0f}x: "
            text += f"{'met' if times >= HUDI_BAR else 'missed'}), memory {memory:.2f}x (bar {MEMORY_BAR}x)"
        lines.append(text)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
