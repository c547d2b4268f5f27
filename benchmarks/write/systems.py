"""How each system makes a table of a frame, and changes it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
BUCKETS = 4
_INDEXES: dict[str, dict[str, str]] = {
    "simple": {"hoodie.index.type": "SIMPLE"},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "bucket": {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(BUCKETS),
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


class System(Protocol):
    """One of those that are measured, in a Spark session of its own."""

    def make(self, kind: str, index: str, frame: Any) -> None: ...

    def before_change(self, kind: str, index: str) -> None:
        """Have the table as it was made; not measured."""

    def change(self, kind: str, index: str, frame: Any) -> Any: ...

    def count(self, kind: str, index: str) -> tuple[int, int]:
        """The rows of the changed table, and the sum of a column that changes touch; not measured."""

    def end(self, kind: str, index: str) -> None:
        """Remove the table."""


class HudiLike:
    """Headwater and Apache Hudi: the same options, tables that are folders."""

    def __init__(self, spark: Any, name: str, data: Path, *, keep: bool = False) -> None:
        self.spark, self.name, self.data, self.keep = spark, name, data, keep

    def path(self, kind: str, index: str, *, changed: bool = False) -> Path:
        return self.data / f"{self.name}-{kind}-{index}{'-changed' if changed else ''}"

    def make(self, kind: str, index: str, frame: Any) -> None:
        path = self.path(kind, index)
        shutil.rmtree(path, ignore_errors=True)
        self._save(
            frame, path, "overwrite", {**_options(kind, index), "hoodie.datasource.write.operation": "bulk_insert"}
        )

    def before_change(self, kind: str, index: str) -> None:
        changed = self.path(kind, index, changed=True)
        shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(self.path(kind, index), changed)

    def change(self, kind: str, index: str, frame: Any) -> Any:
        options = {**_options(kind, index), "hoodie.datasource.write.operation": "upsert"}
        return self._save(frame, self.path(kind, index, changed=True), "append", options)

    def count(self, kind: str, index: str) -> tuple[int, int]:
        import headwater

        rows = headwater.open(self.path(kind, index, changed=True)).scan(columns=["qty"]).to_arrow()
        return rows.num_rows, int(rows.column("qty").to_numpy().sum())

    def end(self, kind: str, index: str) -> None:
        shutil.rmtree(self.path(kind, index, changed=True), ignore_errors=True)
        if not self.keep:
            shutil.rmtree(self.path(kind, index), ignore_errors=True)

    def _save(self, frame: Any, path: Path, mode: str, options: dict[str, str]) -> Any:
        from headwater.spark.write import save

        return save(frame, path, mode, options)


class Hudi(HudiLike):
    """Apache Hudi on Spark 3.5."""

    def count(self, kind: str, index: str) -> tuple[int, int]:
        frame = self.spark.read.format("hudi").load(str(self.path(kind, index, changed=True)))
        return _counted(frame)

    def _save(self, frame: Any, path: Path, mode: str, options: dict[str, str]) -> Any:
        frame.write.format("hudi").options(**options).mode(mode).save(str(path))


class Iceberg:
    """Apache Iceberg on Spark 3.5: tables by SQL, changes by MERGE; it has no index."""

    def __init__(self, spark: Any, data: Path, **properties: str) -> None:
        self.spark, self.data = spark, data
        self._properties = {"format-version": "2", "write.parquet.compression-codec": "snappy", **properties}
        self._first: dict[str, int] = {}

    def make(self, kind: str, index: str, frame: Any) -> None:
        how = "copy-on-write" if kind == "cow" else "merge-on-read"
        told = ", ".join(f"'{name}'='{value}'" for name, value in self._properties.items())
        frame.createOrReplaceTempView("made_of")
        self.spark.sql(f"DROP TABLE IF EXISTS ice.db.{kind} PURGE")
        self.spark.sql(
            f"CREATE TABLE ice.db.{kind} USING iceberg PARTITIONED BY (city) TBLPROPERTIES ({told}, "
            f"'write.merge.mode'='{how}') AS SELECT * FROM made_of"
        )
        (found,) = self.spark.sql(f"SELECT snapshot_id FROM ice.db.{kind}.snapshots").collect()
        self._first[kind] = int(found[0])

    def before_change(self, kind: str, index: str) -> None:
        self.spark.sql(f"CALL ice.system.rollback_to_snapshot('db.{kind}', {self._first[kind]})")

    def change(self, kind: str, index: str, frame: Any) -> Any:
        frame.createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO ice.db.{kind} t USING changes s ON t.id = s.id AND t.city = s.city "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def count(self, kind: str, index: str) -> tuple[int, int]:
        return _counted(self.spark.table(f"ice.db.{kind}"))

    def end(self, kind: str, index: str) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS ice.db.{kind} PURGE")


def _counted(frame: Any) -> tuple[int, int]:
    (found,) = frame.selectExpr("count(*)", "sum(qty)").collect()
    return int(found[0]), int(found[1])


def _options(kind: str, index: str) -> dict[str, str]:
    return {**_OPTIONS, **_INDEXES[index], "hoodie.datasource.write.table.type": KINDS[kind]}


def session(order: dict[str, Any]) -> Any:
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
    elif order["system"] == "iceberg":
        settings |= {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(Path(order["data"]) / "iceberg"),
        }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def system(spark: Any, order: dict[str, Any]) -> System:
    data = Path(order["data"])
    if order["system"] == "iceberg":
        return Iceberg(spark, data)
    made = Hudi if order["system"] == "hudi" else HudiLike
    return made(spark, order["system"], data, keep=bool(order.get("keep")))
