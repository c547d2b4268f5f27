"""A table on S3 through Spark, where Hadoop has no filesystem for it: written and read by Python, or told why not."""

from __future__ import annotations

from tests.spark.jobs import run_job


def test_a_table_on_s3_is_written_and_read_without_hadoops_filesystem() -> None:
    saw = run_job("tests.spark.s3_job")
    expected = sum(2 * one for one in range(10, 1000)) - 10
    assert {saw["merge"], saw["python"], saw.get("fallback", expected)} == {expected}
    assert saw["count"] == 1000
    assert saw["after an upsert"] == expected + 10
    assert "StorageError" in saw["native"]
    assert "hadoop-aws" in saw["native"]
    assert "reader=merge" in saw["native"]
