"""One system's writes, in a Spark session of its own: `python -m benchmarks.write.job '<order as JSON>'`.

Each measured write prints a line of JSON: seconds, the peak memory of the whole process tree, and what the table then
holds. Frames are staged as Parquet beforehand; a change is always to the table as it was made.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.write import frames, systems
from benchmarks.write.memory import PeakMemory

MARK = "WROTE "


def main(order: dict[str, Any]) -> None:
    spark = systems.session(order)
    staged = _stage(spark, Path(order["data"]), order["rows"])
    job = Job(spark, systems.system(spark, order), order)
    if order.get("baseline"):
        job.plain(staged["base"])
    for kind in order["kinds"]:
        for index in order["indexes"]:
            job.measure({"write": "bulk_insert", "kind": kind, "index": index}, staged["base"])
            for name in order["changes"]:
                job.measure({"write": "upsert", "rows": name, "kind": kind, "index": index}, staged[name])
            job.system.end(kind, index)
    spark.stop()


def _stage(spark: Any, data: Path, total: int) -> dict[str, Any]:
    base = frames.rows(spark, total)
    made = {
        "base": lambda: base,
        "tenth": lambda: frames.changed(frames.one_in(base, 10, 1), 0).coalesce(4),
        "tenth+new": lambda: (
            frames.changed(frames.one_in(base, 10, 1), 0)
            .unionByName(frames.rows(spark, total // 100, total))
            .coalesce(4)
        ),
        "thousand": lambda: frames.changed(frames.one_in(base, total // 1000, 5), 1).coalesce(1),
    }
    found = {}
    for name, make in made.items():
        path = data / "staged" / name
        if not (path / "_SUCCESS").exists():
            make().write.mode("overwrite").parquet(str(path))
        found[name] = spark.read.parquet(str(path))
    return found


class Job:
    """What is measured, and told."""

    def __init__(self, spark: Any, system: systems.System, order: dict[str, Any]) -> None:
        self.spark, self.system, self.order = spark, system, order

    def plain(self, frame: Any) -> None:
        path = Path(self.order["data"]) / "plain"
        writer = frame.write.mode("overwrite").partitionBy("city")
        for _ in range(self.order["rounds"]):
            self._tell({"write": "plain parquet"}, *self._timed(lambda: writer.parquet(str(path))))
        shutil.rmtree(path, ignore_errors=True)

    def measure(self, what: dict[str, str], frame: Any) -> None:
        """Each turn of a write; the last table that was made stays for the changes."""
        kind, index = what["kind"], what["index"]
        for _ in range(self.order["rounds"]):
            if what["write"] == "bulk_insert":
                self._tell(what, *self._timed(lambda: self.system.make(kind, index, frame)))
                continue
            self.system.before_change(kind, index)
            found = self._timed(lambda: self.system.change(kind, index, frame))
            self._tell(what, *found, holds=self.system.count(kind, index) if found[2] is None else None)

    def _timed(self, write: Callable[[], Any]) -> tuple[float, int, str | None, dict[str, float]]:
        self.spark._jvm.java.lang.System.gc()
        error, result = None, None
        with PeakMemory([int(self.spark._jvm.java.lang.ProcessHandle.current().pid())]) as memory:
            start = time.perf_counter()
            try:
                result = write()
            except Exception as failure:
                error = str(failure).splitlines()[0][:300]
            seconds = time.perf_counter() - start
        return seconds, memory.peak, error, dict(getattr(result, "seconds", None) or {})

    def _tell(
        self,
        what: dict[str, str],
        seconds: float,
        peak: int,
        error: str | None,
        phases: dict[str, float],
        holds: tuple[int, int] | None = None,
    ) -> None:
        told = {"system": self.order["system"], **what, "seconds": seconds, "peak_mb": peak, "error": error}
        print(MARK + json.dumps({**told, "phases": phases, "holds": holds}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
