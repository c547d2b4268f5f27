"""`df.write.format("headwater")`: from Spark's writer through the JVM to the Python driver, and errors back."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from tests.spark.session import load, rows, spark
from tests.spark.write.frames import batch, content, on_executors

import headwater
from headwater.errors import InvalidArgument, TableExists, WriteRefused

KEYED = {"key": "id", "ordering": "ts"}
HUDI = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.upsert.shuffle.parallelism": "2",
}


def ids(path: Path) -> list[str]:
    """The keys, as Spark reads them and as they are read without it."""
    table = content(headwater.open(path), ["id"]).column("id").to_pylist()
    found = rows(load(spark(), str(path)).select("id").orderBy("id")).column("id").to_pylist()
    assert found == table
    return table


def test_save_modes_are_sparks(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(0, 9).write.format("headwater").options(**KEYED).partitionBy("city").save(str(path))
    assert len(ids(path)) == 9
    assert headwater.open(path).hudi.config.partition_fields == ("city",)
    with pytest.raises(TableExists, match="use mode append or overwrite"):
        batch(0, 9).write.format("headwater").options(**KEYED).save(str(path))
    batch(9, 12).write.format("headwater").mode("ignore").save(str(path))
    assert len(ids(path)) == 9
    batch(6, 12, tag="b", ts=1).write.format("headwater").mode("append").save(str(path))
    assert len(ids(path)) == 12
    batch(0, 4).write.format("headwater").mode("overwrite").save(str(path))
    assert len(ids(path)) == 4


def test_options_of_hudi_and_a_write_by_executors(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with on_executors():
        for start, operation in ((0, "bulk_insert"), (20, "upsert"), (25, "delete")):
            frame = batch(start, start + 30, ts=start)
            writer = frame.write.format("headwater").options(**HUDI)
            writer.option("hoodie.datasource.write.operation", operation).mode("append").save(str(path))
    assert len(ids(path)) == 25
    assert headwater.open(path).hudi.config.is_merge_on_read


def test_dynamic_overwrite_takes_the_partitions_of_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batch(0, 9).write.format("headwater").options(**KEYED).partitionBy("city").save(str(path))
    one = batch(0, 1, tag="b").write.format("headwater").mode("overwrite")
    one.option("partitionOverwriteMode", "dynamic").save(str(path))
    assert len(ids(path)) == 7


def test_settings_of_the_session_are_options(tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark().conf.set("spark.headwater.write.key", "id")
    try:
        batch(0, 3).write.format("headwater").save(str(path))
    finally:
        spark().conf.unset("spark.headwater.write.key")
    assert headwater.open(path).hudi.config.record_key_fields == ("id",)


def test_errors_are_those_that_python_raised(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with pytest.raises(InvalidArgument, match="did you mean 'partition-by'") as caught:
        batch(0, 9).write.format("headwater").option("partition_by", "city").save(str(path))
    assert "py4j" not in str(caught.value).lower()
    assert not path.exists()
    batch(0, 9).write.format("headwater").options(**KEYED).save(str(path))
    with pytest.raises(WriteRefused, match="column 'v'"):
        batch(0, 9).selectExpr("id", "ts", "city", "array(1) AS v", "price").write.format("headwater").mode(
            "append"
        ).save(str(path))
    frame = batch(0, 9).selectExpr("id", "CAST(NULL AS bigint) AS ts", "city", "v", "price")
    with on_executors(), pytest.raises(WriteRefused, match="have no ts"):
        frame.write.format("headwater").mode("append").save(str(path))
    assert len(ids(path)) == 9


def test_reading_where_there_is_no_table_says_so_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="TableNotFound") as caught:
        load(spark(), str(tmp_path / "nothing"))
    assert "Traceback" not in str(caught.value)


def test_threads_write_at_the_same_time(tmp_path: Path) -> None:
    paths = [tmp_path / f"t{number}" for number in range(3)]
    failed: list[BaseException] = []

    def write(path: Path) -> None:
        try:
            for start in (0, 5):
                frame = batch(start, start + 10)
                frame.write.format("headwater").options(**KEYED).mode("append").save(str(path))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed
    assert [len(ids(path)) for path in paths] == [15, 15, 15]


def test_writes_from_within_foreach_batch(tmp_path: Path) -> None:
    source, path = tmp_path / "source", tmp_path / "t"
    batch(0, 9).write.parquet(str(source))
    stream = spark().readStream.schema(batch(0, 1).schema).parquet(str(source)).writeStream
    query = stream.foreachBatch(
        lambda frame, _: frame.write.format("headwater").options(**KEYED).mode("append").save(str(path))
    )
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert len(ids(path)) == 9


def test_a_jvm_without_a_python_driver_says_what_to_do(tmp_path: Path) -> None:
    writers = spark()._jvm.io.headwater.spark.PythonWriters
    writers.unregister()
    try:
        with pytest.raises(AnalysisException, match=r"no Python driver .* headwater\.configure"):
            batch(0, 9).write.format("headwater").save(str(tmp_path / "t"))
    finally:
        headwater.spark.enable_writes(spark())
