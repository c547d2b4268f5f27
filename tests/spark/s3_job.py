"""A session with a table on S3, which this process serves: writes it and reads it in each way.

Run as `python -m tests.spark.s3_job`; prints what it saw as JSON. The address is in the environment before Spark,
from which sidecars and workers have it, starts.
"""

from __future__ import annotations

import json
import os

from moto.server import ThreadedMotoServer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headwater

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
}


def main() -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://{host}:{port}",
        AWS_ACCESS_KEY_ID="a-key",
        AWS_SECRET_ACCESS_KEY="a-secret",
        AWS_DEFAULT_REGION="us-east-1",
    )
    from s3fs import S3FileSystem

    S3FileSystem().mkdir("lake")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = headwater.configure(builder.config("spark.sql.shuffle.partitions", "2")).getOrCreate()
    path = "s3a://lake/t"
    rows = spark.range(1000).selectExpr("cast(id as string) id", "id ts", "id % 3 city", "id * 2 x")
    rows.write.format("headwater").options(**OPTIONS).mode("overwrite").save(path)
    newer = spark.range(10).selectExpr("cast(id as string) id", "5000L ts", "id % 3 city", "-1L x")
    newer.write.format("headwater").options(**OPTIONS).mode("append").save(path)

    def total(**options: str) -> int:
        frame = spark.read.format("headwater").options(**options).load(path)
        return int(frame.selectExpr("sum(x)").collect()[0][0])

    saw: dict[str, object] = {"merge": total(reader="merge")}
    if int(spark.version.split(".")[0]) >= 4:
        saw["fallback"] = total(**{"use.dsv2": "false"})
    saw["python"] = sum(headwater.open(path).scan(columns=["x"]).to_arrow()["x"].to_pylist())
    saw["count"] = spark.read.format("headwater").load(path).count()
    headwater.open(path).upsert(newer.selectExpr("id", "6000L ts", "city", "0L x"))
    saw["after an upsert"] = total(reader="merge")
    try:
        saw["native"] = total()
    except (PySparkException, Py4JJavaError) as error:
        saw["native"] = str(error)
    print("SAW " + json.dumps(saw), flush=True)
    spark.stop()
    server.stop()


if __name__ == "__main__":
    main()
