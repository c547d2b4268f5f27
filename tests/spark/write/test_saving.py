"""`save`: modes, options by our names and Hudi's, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.write.frames import batch, content

import headwater
from headwater.errors import InvalidArgument, TableExists, TableNotFound, WriteRefused
from headwater.spark.write import save

HUDI = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.upsert.shuffle.parallelism": "4",
}


def test_a_script_written_for_hudi_works_as_it_is(tmp_path: Path) -> None:
    save(batch(0, 30), tmp_path / "t", "overwrite", {**HUDI, "hoodie.datasource.write.operation": "bulk_insert"})
    result = save(batch(0, 40, 10, tag="b", ts=1), tmp_path / "t", "append", HUDI)
    assert result is not None
    assert (result.operation, result.inserted, result.updated) == ("upsert", 1, 3)
    table = headwater.open(tmp_path / "t")
    assert table.name == "trips"
    assert table.hudi.config.is_merge_on_read
    assert sorted(table.hudi.listing.partitions()) == ["city=c0", "city=c1", "city=c2"]
    save(batch(0, 1), tmp_path / "t", "append", {**HUDI, "hoodie.datasource.write.operation": "delete"})
    assert content(table).num_rows == 30


def test_modes_do_what_spark_says_they_do(tmp_path: Path) -> None:
    options = {"key": "id", "ordering": "ts", "partition-by": "city"}
    save(batch(0, 9), tmp_path / "t", options=options)
    with pytest.raises(TableExists):
        save(batch(0, 9), tmp_path / "t", "error", options)
    assert save(batch(9, 12), tmp_path / "t", "ignore", options) is None
    save(batch(20, 23), tmp_path / "t", "append", options)
    assert content(headwater.open(tmp_path / "t")).num_rows == 12
    save(batch(3, 6, tag="b"), tmp_path / "t", "overwrite", {**options, "operation": "insert_overwrite"})
    save(batch(0, 5), tmp_path / "t", "overwrite")
    assert content(headwater.open(tmp_path / "t")).num_rows == 5


def test_bucket_tables_remember_their_buckets(tmp_path: Path) -> None:
    save(batch(0, 9), tmp_path / "t", options={"key": "id", "index": "bucket", "buckets": "2"})
    save(batch(0, 9, tag="b"), tmp_path / "t", "append")
    assert content(headwater.open(tmp_path / "t")).num_rows == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitionby": "id"}, "did you mean 'partition-by'"),
        ({"hoodie.datasource.write.recordkey.fields": "id"}, r"did you mean 'hoodie.datasource.write.recordkey.field'"),
        ({"kind": "cows"}, "is none of: cow, mor"),
        ({"key": "id", "hoodie.datasource.write.recordkey.field": "ts"}, "say different things"),
        ({"version": "7"}, "is none of: 6, 8, 9"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_made(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        save(batch(0, 9), tmp_path / "t", options=options)
    assert not (tmp_path / "t").exists()


def test_options_that_contradict_the_table_are_refused(tmp_path: Path) -> None:
    save(batch(0, 9), tmp_path / "t", options={"key": "id", "ordering": "ts"})
    with pytest.raises(WriteRefused, match="key is id, not ts"):
        save(batch(0, 9), tmp_path / "t", "append", {"key": "ts"})
    with pytest.raises(TableNotFound):
        save(batch(0, 9), tmp_path / "other", "append", {"operation": "delete"})
