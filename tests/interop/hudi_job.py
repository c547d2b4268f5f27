"""Write the tables of stories with Apache Hudi on Spark, and save what Hudi reads from them.

Runs in its own environment, which has pyspark only: python hudi_job.py JOB.json. The job names the release and its
bundle, the stories to write, and those of other releases to read. Each table T gets a T.reads.RELEASE.json beside it.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
import sys
import time
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

os.environ["TZ"] = "UTC"
time.tzset()

from pyspark.sql import DataFrame, SparkSession  # noqa: E402  (the zone must be set before Spark starts)

TIMELINE = re.compile(r"(\d{17})(?:_(\d{17}))?\.(commit|deltacommit|replacecommit)$")

SQL_OPTIONS = (
    "hoodie.metadata",
    "hoodie.clean",
    "hoodie.log",
    "hoodie.schema",
    "hoodie.keygen",
    "hoodie.datasource.write.schema",
    "hoodie.write.table.version",
    "hoodie.write.complex",
    "hoodie.write.lock",
    "hoodie.embed.timeline",
)
"""What SQL statements are given of a story's options; the rest is in the table's properties."""


def session(job: dict[str, Any]) -> SparkSession:
    scratch = Path(job["scratch"])
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("headwater-interop")
        .config("spark.jars", job["jar"])
        .config("spark.driver.memory", "3g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC -XX:TieredStopAtLevel=1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(scratch / "spark-local"))
        .config("spark.sql.warehouse.dir", str(scratch / "spark-warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        # The vectorized reader of 0.15.0 fails on nested promotions.
        .config("spark.sql.parquet.enableVectorizedReader", str(job["release"] != "0.15.0").lower())
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Writer:
    """Writes one story's table, step by step."""

    def __init__(self, spark: SparkSession, story: dict[str, Any], folder: Path) -> None:
        self.spark = spark
        self.story = story
        self.path = folder / story["table"]
        self.scratch = folder / f"{story['table']}.rows.json"
        self.options = {"hoodie.table.name": story["table"], **story["options"]}

    def run(self) -> str | None:
        """The error of the step that failed, if one did: the steps after it are not made."""
        shutil.rmtree(self.path, ignore_errors=True)
        for number, step in enumerate(self.story["steps"]):
            try:
                getattr(self, step["do"])(step)
            except Exception as error:
                return f"step {number} ({step.get('operation') or step['do']}): {brief(error)}"
        return None

    def write(self, step: dict[str, Any]) -> None:
        self.scratch.write_text("".join(json.dumps(row) + "\n" for row in step["rows"]))
        frame = self.spark.read.schema(step["schema"]).option("mode", "FAILFAST").json(str(self.scratch)).coalesce(1)
        options = {**self.options, **step["options"], "hoodie.datasource.write.operation": step["operation"]}
        mode = "append" if self.path.exists() else "overwrite"
        frame.write.format("hudi").options(**options).mode(mode).save(str(self.path))

    def sql(self, step: dict[str, Any]) -> None:
        self._register()
        wanted = {k: v for k, v in self.options.items() if k.startswith(SQL_OPTIONS)}
        for key, value in wanted.items():
            self.spark.conf.set(key, value)
        try:
            self.spark.sql(step["sql"].format(t=self.story["table"]))
        finally:
            for key in wanted:
                self.spark.conf.unset(key)

    def rollback_last(self, step: dict[str, Any]) -> None:
        self._register()
        last = commits(self.path)[-1]["instant"]
        self.spark.sql(
            f"CALL rollback_to_instant(table => '{self.story['table']}', instant_time => '{last}')"
        ).collect()

    def savepoint_and_restore(self, step: dict[str, Any]) -> None:
        self._register()
        table, known = self.story["table"], commits(self.path)
        instant = known[-2]["instant"]
        self.spark.sql(f"CALL create_savepoint(table => '{table}', commit_time => '{instant}')").collect()
        self.spark.sql(f"CALL rollback_to_savepoint(table => '{table}', instant_time => '{instant}')").collect()

    def _register(self) -> None:
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.story['table']} USING hudi LOCATION '{self.path}'")


def commits(table: Path) -> list[dict[str, str]]:
    """The completed commits, by instant; on version 6 the completion is the instant, for that is what ranges take."""
    folders = (table / ".hoodie" / "timeline", table / ".hoodie")
    found = (TIMELINE.match(path.name) for folder in folders if folder.is_dir() for path in folder.iterdir())
    known = [{"instant": m[1], "completed": m[2] or m[1], "action": m[3]} for m in found if m]
    return sorted(known, key=lambda commit: commit["instant"])


class Reader:
    """Reads one table in every mode."""

    def __init__(self, spark: SparkSession, story: dict[str, Any], folder: Path, release: str) -> None:
        self.spark = spark
        self.story = story
        self.path = folder / story["table"]
        self.release = release

    def run(self) -> list[dict[str, Any]]:
        rng = random.Random(self.story["seed"])
        known = commits(self.path)
        found = [self.read("snapshot", {})]
        if self.story["mor"]:
            found.append(self.read("read_optimized", {}, {"hoodie.datasource.query.type": "read_optimized"}))
        for commit in rng.sample(known, min(3, len(known))):
            as_of = {"as_of": commit["instant"]}
            found.append(self.read("time_travel", as_of, {"as.of.instant": commit["instant"]}))
        for start, end in self.ranges(known, rng) if self.story["meta_fields"] else ():
            found.append(self.incremental("incremental", start, end, {}))
            if self.story["cdc"]:
                found.append(self.incremental("cdc", start, end, {"hoodie.datasource.query.incremental.format": "cdc"}))
        for text, columns in self.story["filters"]:
            opts = {"filter": text, "columns": columns}
            found.append(self.read("filter", opts, {"hoodie.enable.data.skipping": "false"}))
        return found

    def ranges(self, known: list[dict[str, str]], rng: random.Random) -> list[tuple[Any, Any]]:
        in_order = sorted(known, key=lambda commit: commit["completed"])
        chosen: list[tuple[Any, Any]] = [(None, in_order[-1])] if in_order else []
        for _ in range(3 if len(in_order) > 1 else 0):
            low, high = sorted(rng.sample(range(len(in_order)), 2))
            chosen.append((in_order[low], in_order[high]))
        return chosen

    def incremental(self, mode: str, start: Any, end: Any, options: dict[str, str]) -> dict[str, Any]:
        begin = start["completed"] if start else "00000000000000"
        if start and self.release == "1.0.2" and self.story["version"] > 6:
            begin = str(int(begin) + 1)  # 1.0.2 takes the start as inclusive
        opts = {"start": start and start["instant"], "end": end["instant"]}
        return self.read(
            mode,
            opts,
            {
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": begin,
                "hoodie.datasource.read.end.instanttime": end["completed"],
                **options,
            },
        )

    def read(self, mode: str, opts: dict[str, Any], options: dict[str, str] | None = None) -> dict[str, Any]:
        on_read = {k: v for k, v in self.story["options"].items() if k == "hoodie.schema.on.read.enable"}
        try:
            reader = self.spark.read.format("hudi").options(**on_read, **(options or {}))
            frame: DataFrame = reader.load(str(self.path))
            if mode == "filter":
                frame = frame.where(opts["filter"]).select(*(opts["columns"] or ["*"]))
            rows = [plain(row.asDict(recursive=True)) for row in frame.collect()]
        except Exception as error:
            return {"mode": mode, "opts": opts, "error": brief(error)}
        types = [[field.name, field.dataType.simpleString()] for field in frame.schema.fields]
        return {"mode": mode, "opts": opts, "types": types, "rows": rows}


def plain(value: Any) -> Any:
    """A value as JSON: moments in ISO, bytes in hexadecimal, decimals and what is not finite as text."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, (datetime, date)) else value


def brief(error: Exception) -> str:
    """The innermost cause that a Java stack trace names."""
    lines = str(error).splitlines() or [repr(error)]
    causes = [line.strip() for line in lines if line.startswith("Caused by:")]
    own = [line.strip() for line in lines if line.strip() and not line.startswith("An error occurred")]
    return (causes or own)[-1 if causes else 0][:300]


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(job["folder"])
    spark = session(job)
    for story in job["stories"]:
        started = time.perf_counter()
        table, failed = story["table"], None
        print(json.dumps({"begun": table}), flush=True)
        if story["release"] == job["release"]:
            failed = Writer(spark, story, folder).run()
        written = time.perf_counter()
        reads = Reader(spark, story, folder, job["release"]).run() if (folder / table / ".hoodie").exists() else []
        known = commits(folder / table)
        saved = {"story": story, "write_error": failed, "commits": known, "reads": reads}
        (folder / f"{table}.reads.{job['release']}.json").write_text(json.dumps(saved))
        took = {"write": round(written - started, 1), "read": round(time.perf_counter() - written, 1)}
        print(json.dumps({"done": table, "failed": failed, **took}), flush=True)
        try:
            spark.catalog.clearCache()
        except Exception:  # the JVM died, of this table: the caller starts another one for the rest
            (folder / f"{table}.reads.{job['release']}.json").unlink(missing_ok=True)
            os._exit(1)
    spark.stop()


if __name__ == "__main__":
    main()
