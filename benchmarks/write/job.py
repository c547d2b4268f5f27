"""One system's writes, in a Spark session of its own: `python -m benchmarks.write.job '<order as JSON>'`.

Each measured write prints a line of JSON: seconds, and the peak memory of the whole process tree. Frames are staged as
Parquet beforehand; tables that a write changes are copies, made before the clock starts.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.write import frames

MARK = "WROTE "
_KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
_INDEXES: dict[str, dict[str, str]] = {
    "simple": {"hoodie.index.type": "SIMPLE"},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "bucket": {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.index.bucket.engine": "SIMPLE",
    },
    "record_index": {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
}
_OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.bulkinsert.shuffle.parallelism": "4",
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.embed.timeline.server": "false",
}


def main(order: dict[str, Any]) -> None:
    spark = _session(order)
    data = Path(order["data"])
    system: str = order["system"]
    total: int = order["rows"]
    staged = _stage(spark, data, total)
    writes = Writes(spark, system, data, order["rounds"])
    for _ in range(order["rounds"] if order.get("baseline") else 0):
        writes.plain(staged["base"])
        for kind in order["kinds"]:
            writes.table(kind, None, staged["base"])
    for kind in order["kinds"]:
        for index in order["indexes"]:
            made = writes.table(kind, index, staged["base"], measured=not order.get("baseline"))
            for name in order["changes"]:
                writes.change(made, kind, index, name, staged[name])
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


class Writes:
    """What is measured."""

    def __init__(self, spark: Any, system: str, data: Path, rounds: int) -> None:
        self.spark, self.system, self.data, self.rounds = spark, system, data, rounds

    def plain(self, frame: Any) -> None:
        path = self.data / "plain"
        self._measure(
            {"write": "plain parquet"},
            lambda: frame.write.mode("overwrite").partitionBy("city").parquet(str(path)),
        )
        shutil.rmtree(path, ignore_errors=True)

    def table(self, kind: str, index: str | None, frame: Any, *, measured: bool = True) -> Path:
        path = self.data / f"{self.system}-{kind}-{index}"
        shutil.rmtree(path, ignore_errors=True)
        what = {"write": "bulk_insert", "kind": kind, "index": index}
        make = lambda: self._bulk(path, kind, index, frame)  # noqa: E731
        if measured:
            self._measure(what, make)
        else:
            make()
        return path

    def change(self, made: Path, kind: str, index: str, name: str, frame: Any) -> None:
        for _ in range(self.rounds):
            path = made.with_name(f"{made.name}-changed")
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(made, path)
            self._measure(
                {"write": "upsert", "rows": name, "kind": kind, "index": index},
                lambda path=path: self._upsert(path, kind, index, frame),
            )
            shutil.rmtree(path)

    def _bulk(self, path: Path, kind: str, index: str | None, frame: Any) -> None:
        options = {**_OPTIONS, **_INDEXES.get(index or "", {}), "hoodie.datasource.write.table.type": _KINDS[kind]}
        self._save(frame, path, "overwrite", {**options, "hoodie.datasource.write.operation": "bulk_insert"})

    def _upsert(self, path: Path, kind: str, index: str, frame: Any) -> None:
        options = {**_OPTIONS, **_INDEXES.get(index, {}), "hoodie.datasource.write.table.type": _KINDS[kind]}
        self._save(frame, path, "append", {**options, "hoodie.datasource.write.operation": "upsert"})

    def _save(self, frame: Any, path: Path, mode: str, options: dict[str, str]) -> None:
        if self.system == "headwater":
            from headwater.spark.write import save

            self.last = save(frame, path, mode, options)
        else:
            frame.write.format("hudi").options(**options).mode(mode).save(str(path))

    def _measure(self, what: dict[str, Any], write: Callable[[], None]) -> None:
        self.spark._jvm.java.lang.System.gc()
        self.last = None
        error = None
        with _Memory(int(self.spark._jvm.java.lang.ProcessHandle.current().pid())) as memory:
            start = time.perf_counter()
            try:
                write()
            except Exception as failure:
                error = str(failure).splitlines()[0][:300]
            seconds = time.perf_counter() - start
        phases = dict(self.last.seconds) if self.last is not None else {}
        print(
            MARK
            + json.dumps(
                {
                    "system": self.system,
                    **what,
                    "seconds": seconds,
                    "peak_mb": memory.peak,
                    "error": error,
                    "phases": phases,
                }
            ),
            flush=True,
        )


class _Memory:
    """The peak of the resident memory of this process, the JVM and all that they started, at ten looks a second."""

    def __init__(self, jvm: int) -> None:
        self._roots = {os.getpid(), jvm}
        self._stop = threading.Event()
        self.peak = 0

    def __enter__(self) -> _Memory:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.peak = max(self.peak, self._now())

    def _now(self) -> int:
        parents: dict[int, int] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1])
                except (OSError, ValueError, IndexError):
                    continue
        ours, grown = set(self._roots), True
        while grown:
            more = {pid for pid, parent in parents.items() if parent in ours} - ours
            grown = bool(more)
            ours |= more
        page = os.sysconf("SC_PAGE_SIZE")
        total = 0
        for pid in ours:
            try:
                total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
            except (OSError, ValueError, IndexError):
                continue
        return total // 2**20


def _session(order: dict[str, Any]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("headwater write bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": order["memory"],
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.extraJavaOptions": "-XX:MinHeapFreeRatio=5 -XX:MaxHeapFreeRatio=15",
        **({"spark.jars": order["jar"]} if order.get("jar") else {}),
    }
    if order["system"] == "hudi":
        settings |= {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
