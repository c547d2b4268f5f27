"""Write the merge-on-read table of the Spark part with Apache Iceberg: a bulk write, then a MERGE. Needs pyspark only.

Usage: python -m benchmarks.spark.iceberg_job '{"jar": ..., "data": ..., "base": ..., "updates": ..., ...}'.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.write.systems import Iceberg, session

# Deletion vectors come with version 3. One file for each file of the source, as Hudi's bulk insert makes them.
PROPERTIES = {
    "format-version": "3",
    "write.distribution-mode": "none",
    "write.target-file-size-bytes": str(256 << 20),
}


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = session({"system": "iceberg", **job})
    table = Iceberg(spark, Path(job["data"]), **PROPERTIES)
    table.make("mor", "none", spark.read.parquet(job["base"]).select(*job["columns"]))
    table.change("mor", "none", spark.read.parquet(job["updates"]).select(*job["columns"]))
    spark.stop()


if __name__ == "__main__":
    main()
