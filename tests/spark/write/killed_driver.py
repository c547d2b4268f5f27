"""A Spark driver that takes one step after the other until it or a helper is killed (`tests.reliability.kill_steps`).

Run as `python -m tests.spark.write.killed_driver TABLE SOURCE STEP`. The rows of a step come from another table, which
the connector's sidecar reads, and are written by Python workers, never by the driver. Says `begin N`, `done N` and
`failed N`; a step that failed is taken again. Ends when a file `stop` lies beside the table.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from tests.reliability.kill_steps import CITIES, KEYS

import headwater
from headwater.spark.write.deciding import DRIVER_LIMIT


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2,3]").appName("killed")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.headwater.read.reader": "merge",
        DRIVER_LIMIT: "0",
    }.items():
        builder = builder.config(key, value)
    made = headwater.configure(builder).getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def take(spark: SparkSession, table: headwater.Table, source: str, step: int) -> None:
    """The same step as `kill_steps.take`, as Spark does it."""
    keys = spark.read.format("headwater").load(source)
    columns = ["id", f"CAST({step} AS bigint) AS ts", "city", f"'step {step}' AS name"]
    kind = step % 4
    if kind == 3:
        table.delete(keys.where(f"(key * 5 + {step}) % 9 = 0").select("id", "city"))
        return
    rows = keys.where(f"(key * 7 + {step}) % 4 = 0").selectExpr(*columns)
    if kind == 2:
        table.insert_overwrite(rows.where("city = 'ny'"))
    else:
        table.upsert(rows)


def make_source(path: Path) -> None:
    """A table with a row for each key, base files and logs."""
    import pyarrow as pa

    rows = [{"id": f"k{key:03d}", "key": key, "city": CITIES[key % len(CITIES)]} for key in range(KEYS)]
    frame = pa.Table.from_pylist(rows)
    table = headwater.create(path, schema=frame.schema, key="id", partition_by="city", kind="mor")
    table.insert(frame)
    table.upsert(frame)


def main(path: str, source: str, step: int) -> None:
    spark = session()
    print("jvm", spark._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
    while not (Path(path).parent / "stop").exists():
        print("begin", step, flush=True)
        try:
            take(spark, headwater.open(path), source, step)
        except Exception as error:
            print("failed", step, repr(error)[:300].replace("\n", " "), flush=True)
            continue
        print("done", step, flush=True)
        step += 1
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
