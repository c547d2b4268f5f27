"""Apache Hudi on Spark, as a service: takes orders as lines of JSON, and answers each with one. See `sessions`.

Runs in an environment that has pyspark only, with one release of Hudi.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from hudi_job import brief, plain, session  # it sets the zone before Spark starts
from pyspark.sql import DataFrame, SparkSession

ANSWER = "@@"
"""What an answer's line begins with: Hudi prints other things, too."""


class Service:
    """The orders that can be given."""

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self.spark = spark
        self.scratch = scratch

    def read(self, order: dict[str, Any]) -> Any:
        reader = self.spark.read.format("hudi").options(**order["options"])
        frame: DataFrame = reader.load(order["path"])
        if order.get("where"):
            frame = frame.where(order["where"])
        rows = [plain(row.asDict(recursive=True)) for row in frame.collect()]
        return {"rows": rows, "types": [[field.name, field.dataType.simpleString()] for field in frame.schema.fields]}

    def write(self, order: dict[str, Any]) -> Any:
        rows = self.scratch / "rows.json"
        rows.write_text("".join(json.dumps(row) + "\n" for row in order["rows"]))
        frame = self.spark.read.schema(order["schema"]).option("mode", "FAILFAST").json(str(rows)).coalesce(1)
        frame.write.format("hudi").options(**order["options"]).mode(order["mode"]).save(order["path"])
        return None

    def sql(self, order: dict[str, Any]) -> Any:
        return [plain(row.asDict(recursive=True)) for row in self.spark.sql(order["text"]).collect()]


def answer(call: Callable[[dict[str, Any]], Any], order: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        given = {"result": call(order)}
    except Exception as error:
        given = {"error": brief(error), "whole": str(error)[:20_000]}
    return {**given, "seconds": round(time.perf_counter() - started, 2)}


def main() -> None:
    job = json.loads(sys.argv[1])
    scratch = Path(job["scratch"])
    scratch.mkdir(parents=True, exist_ok=True)
    service = Service(session(job), scratch)
    print(f"{ANSWER}{json.dumps({'result': 'ready'})}", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(f"{ANSWER}{json.dumps(answer(getattr(service, order['do']), order))}", flush=True)
    service.spark.stop()


if __name__ == "__main__":
    main()
