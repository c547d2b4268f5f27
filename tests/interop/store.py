"""`make interop-store`: a table on S3 whose base files Spark's own reader opens, by Hadoop's filesystem for it.

    python -m tests.interop.store

Maven brings `hadoop-aws` of the Hadoop that the installed pyspark has, and what it needs (some 700 MB, kept in
`build/interop`). A store is served by this process; every way of reading must give the rows that were written. The exit
status is 1 when one does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
from moto.server import ThreadedMotoServer
from pyspark.sql import DataFrame, SparkSession

import headwater

ROOT = Path(__file__).parents[2]
ROWS = 200_000
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>headwater</groupId><artifactId>store</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""
OPTIONS = {"key": "id", "ordering": "ts", "partition-by": "city", "kind": "mor"}
QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "all rows": lambda frame: frame.selectExpr("count(id)", "sum(x)", "sum(price)", "count(DISTINCT note)"),
    "one key": lambda frame: frame.where("id = '000000123'").select("id", "x", "price"),
    "a range": lambda frame: frame.where("x BETWEEN 100 AND 120").selectExpr("count(*)", "max(note)"),
    "by partition": lambda frame: frame.groupBy("city").agg({"x": "sum", "id": "count"}).orderBy("city"),
}


def hadoop_aws(folder: Path) -> list[Path]:
    """The jars of Hadoop's filesystem for S3, fetched once for each version of Hadoop."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    jars = folder / f"hadoop-aws-{version}"
    if not (jars / "fetched").exists():
        jars.mkdir(parents=True, exist_ok=True)
        (jars / "pom.xml").write_text(POM.format(version=version))
        copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
        subprocess.run(["mvn", "--quiet", "--batch-mode", "-f", str(jars / "pom.xml"), *copy], check=True)
        (jars / "fetched").touch()
    return sorted(jars.glob("*.jar"))


def session(jars: list[Path], address: str) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(map(str, jars)))
    settings = {
        "endpoint": address,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": "a-key",
        "secret.key": "a-secret",
    }
    for name, value in settings.items():
        builder = builder.config(f"spark.hadoop.fs.s3a.{name}", value)
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    return headwater.configure(builder, catalogs={"lake": "s3a://lake/warehouse"}).getOrCreate()


def written(spark: SparkSession, path: str) -> DataFrame:
    """A table with a tenth of its rows in logs; the rows that it must have, made by Spark alone."""
    names = "lpad(CAST(id AS STRING), 9, '0') id", "id % 3 city"
    first = spark.range(ROWS).selectExpr(
        *names, "id ts", "id * 2 x", "CAST(id AS DECIMAL(12, 2)) price", "concat('note ', id) note"
    )
    newer = spark.range(0, ROWS, 10).selectExpr(
        *names, "id + 5000000 ts", "-1L x", "CAST(1 AS DECIMAL(12, 2)) price", "'changed' note"
    )
    first.write.format("headwater").options(**OPTIONS).option("operation", "bulk_insert").save(path)
    newer.write.format("headwater").mode("append").save(path)
    return first.where("ts % 10 <> 0").union(newer)


def main() -> int:
    jars = hadoop_aws(ROOT / "build" / "interop" / "jars")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    os.environ.update(
        AWS_ENDPOINT_URL=address,
        AWS_ACCESS_KEY_ID="a-key",
        AWS_SECRET_ACCESS_KEY="a-secret",
        AWS_DEFAULT_REGION="us-east-1",
    )
    from s3fs import S3FileSystem

    S3FileSystem().mkdir("lake")
    spark = session(jars, address)
    spark.sparkContext.setLogLevel("ERROR")
    path = "s3a://lake/warehouse/db/t"
    expected = written(spark, path).cache()
    ways = {
        "native": spark.read.format("headwater").load(path),
        "merge reader": spark.read.format("headwater").option("reader", "merge").load(path),
        "warehouse": spark.table("lake.db.t"),
    }
    failed = 0
    for way, frame in ways.items():
        for name, query in QUERIES.items():
            same = query(frame).collect() == query(expected).collect()
            failed += not same
            print(f"Spark {spark.version}, {way}, {name}: {'the same rows' if same else 'OTHER ROWS'}", flush=True)
    plan = ways["native"]._jdf.queryExecution().toString()  # type: ignore[operator]
    if "positional" not in plan:
        failed += 1
        print(f"the slices are not read by Spark's own reader:\n{plan}")
    spark.stop()
    server.stop()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
