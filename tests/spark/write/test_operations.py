"""Every operation on a Spark frame gives the rows that it gives on the same rows without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame
from tests.spark.write.frames import COLUMNS, arrow, batch, content, make, on_executors

import headwater
from headwater.errors import DuplicateKeys, WriteRefused
from headwater.hudi.write.incoming import Shape
from headwater.hudi.write.options import IndexKind
from headwater.hudi.write.planning import write_options
from headwater.spark.write.frames import schema_of
from headwater.spark.write.keys import with_keys
from headwater.spark.write.pipeline import Pipeline
from headwater.spark.write.places import Tagger

INDEXES: list[Any] = [None, "simple", "global_simple", "global_bloom", "record_index", {"bucket": 3}]


def both(tmp_path: Path, steps: Callable[[headwater.Table, Callable[[DataFrame], Any]], None], **options: Any) -> None:
    """Run the steps on the executors and in this process, and compare what the tables hold."""
    through_spark = make(tmp_path / "spark", batch(0, 1), **options)
    in_process = make(tmp_path / "arrow", batch(0, 1), **options)
    with on_executors():
        steps(through_spark, lambda frame: frame)
    steps(in_process, arrow)
    assert content(through_spark).equals(content(in_process))


@pytest.mark.parametrize("index", INDEXES, ids=str)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_upserts_with_repeats_late_rows_and_deletes_give_the_same_rows(tmp_path: Path, kind: str, index: Any) -> None:
    def steps(table: headwater.Table, given: Callable[[DataFrame], Any]) -> None:
        table.bulk_insert(given(batch(0, 600)))
        changed = batch(0, 900, 7, tag="b", ts=5).unionByName(batch(0, 900, 14, tag="c", ts=4))
        table.upsert(given(changed.unionByName(batch(0, 900, 21, tag="d", ts=5))))
        table.upsert(given(batch(0, 900, 10, tag="late", ts=-1)))
        table.delete(given(batch(0, 900, 9).select("id", "city")))
        result = table.upsert(given(batch(0, 1000, 3, tag="e", ts=9)))
        assert result.inserted + result.updated > 0

    both(tmp_path, steps, kind=kind, index=index)


@pytest.mark.parametrize("index", ["global_simple", "record_index"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_record_of_another_partition_moves_there_unless_it_is_late(tmp_path: Path, kind: str, index: str) -> None:
    moves = {"hoodie.record.index.update.partition.path": "true"} if index == "record_index" else {}

    def steps(table: headwater.Table, given: Callable[[DataFrame], Any]) -> None:
        table.bulk_insert(given(batch(0, 300)))
        table.upsert(given(batch(0, 300, 5, tag="moved", ts=5, shift=1)), options=moves)
        table.upsert(given(batch(0, 300, 7, tag="late", ts=-5, shift=2)), options=moves)
        table.upsert(given(batch(0, 400, 11, tag="back", ts=9)), options=moves)

    both(tmp_path, steps, kind=kind, index=index)


@pytest.mark.parametrize("version", [6, 8])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_older_table_versions_are_written_too(tmp_path: Path, kind: str, version: int) -> None:
    def steps(table: headwater.Table, given: Callable[[DataFrame], Any]) -> None:
        table.insert(given(batch(0, 300)))
        table.upsert(given(batch(0, 400, 5, tag="b", ts=5)))
        table.upsert(given(batch(0, 400, 6, tag="c", ts=6)))

    both(tmp_path, steps, kind=kind, version=version)


@pytest.mark.parametrize("index", [None, {"bucket": 3}], ids=str)
def test_insert_leaves_stored_keys_out_or_refuses_them(tmp_path: Path, index: Any) -> None:
    def steps(table: headwater.Table, given: Callable[[DataFrame], Any]) -> None:
        table.insert(given(batch(0, 100)))
        assert table.insert(given(batch(50, 150, tag="b")), if_present="drop").inserted == 50
        with pytest.raises(DuplicateKeys):
            table.insert(given(batch(149, 160, tag="c")), if_present="fail")

    both(tmp_path, steps, index=index)


@pytest.mark.parametrize("sort", ["none", "partition", "global"])
def test_bulk_insert_writes_all_rows_in_the_order_asked_for(tmp_path: Path, sort: str) -> None:
    table = make(tmp_path / "t", batch(0, 1))
    frame = batch(0, 500).orderBy("v", "price", ascending=False)
    assert table.bulk_insert(frame, sort=sort).inserted == 500
    assert content(table).equals(arrow(batch(0, 500).select(*COLUMNS)).sort_by("id"))
    if sort != "none":
        for task in table.scan().plan().tasks:
            opened = table.scan(columns=["id"]).prepare()[1].open(task.slice)
            keys = [key for part in opened for key in part.column(0).to_pylist()]
            assert keys == sorted(keys)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("count", [20, 3000])
def test_bulk_insert_fills_the_buckets_that_keys_hash_to(tmp_path: Path, kind: str, count: int) -> None:
    def steps(table: headwater.Table, given: Callable[[DataFrame], Any]) -> None:
        result = table.bulk_insert(given(batch(0, count)))
        assert result.inserted == count
        assert all(file.name[:8] in ("00000000", "00000001", "00000002", "00000003") for file in result.files)
        more = table.bulk_insert(given(batch(count, count + 7)))
        assert more.inserted + more.updated == 7  # a log of a bucket cannot tell the two apart

    both(tmp_path, steps, kind=kind, index={"bucket": 4})


def test_a_bucket_that_no_key_hashes_to_gets_no_file(tmp_path: Path) -> None:
    table = make(tmp_path / "t", batch(0, 1), index={"bucket": 4})
    one = batch(0, 1).drop("v").crossJoin(batch(0, 400).select("v")).select(*COLUMNS)
    with on_executors():
        result = table.bulk_insert(one)
    assert result.inserted == 400
    assert len(result.files) == 1


@pytest.mark.parametrize("index", [None, {"bucket": 2}], ids=str)
def test_overwrites_replace_partitions_or_the_table(tmp_path: Path, index: Any) -> None:
    def steps(table: headwater.Table, given: Callable[[DataFrame], Any]) -> None:
        table.bulk_insert(given(batch(0, 90)))
        table.insert_overwrite(given(batch(0, 90, 3, tag="b")))
        table.overwrite(given(batch(5, 25, tag="c")))

    both(tmp_path, steps, index=index)


def test_delete_by_key_alone_finds_the_record_in_any_partition(tmp_path: Path) -> None:
    def steps(table: headwater.Table, given: Callable[[DataFrame], Any]) -> None:
        table.bulk_insert(given(batch(0, 90)))
        assert table.delete(given(batch(0, 200, 4).select("id"))).deleted == 23

    both(tmp_path, steps, kind="mor")


def test_columns_that_a_partial_update_leaves_out_stay(tmp_path: Path) -> None:
    def steps(table: headwater.Table, given: Callable[[DataFrame], Any]) -> None:
        table.bulk_insert(given(batch(0, 90)))
        table.upsert(given(batch(0, 90, 4, tag="b", ts=5).drop("price")), partial=True)

    both(tmp_path, steps, kind="mor")


def test_a_new_column_is_added_and_a_table_without_keys_gets_some(tmp_path: Path) -> None:
    def steps(table: headwater.Table, given: Callable[[DataFrame], Any]) -> None:
        table.bulk_insert(given(batch(0, 50)))
        table.insert(given(batch(50, 90).selectExpr("*", "'x' AS extra")))
        keys = table.scan(columns=["_hoodie_record_key"]).to_arrow().column(0)
        assert len(keys.unique()) == 90

    both(tmp_path, steps, key=(), ordering=())


def test_what_is_refused_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    table = make(tmp_path / "t", batch(0, 1))
    table.bulk_insert(batch(0, 50))
    bad = batch(50, 90).selectExpr("IF(ts = 60, NULL, id) AS id", "ts", "city", "v", "price")
    with on_executors():
        for operation in (table.bulk_insert, table.insert, table.upsert):
            with pytest.raises(WriteRefused, match="have no record key"):
                operation(bad)
    assert content(table).num_rows == 50
    assert not list((tmp_path / "t" / ".hoodie" / ".temp").rglob("*"))
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == len(table.refresh().scan().plan().tasks)


def test_a_small_frame_is_written_by_the_driver(tmp_path: Path) -> None:
    table = make(tmp_path / "t", batch(0, 1))
    table.bulk_insert(batch(0, 50))
    result = table.upsert(batch(0, 60, 10, tag="b", ts=1))
    assert (result.inserted, result.updated) == (1, 5)
    assert "prepare" in result.seconds


def test_a_frame_can_be_merged(tmp_path: Path) -> None:
    table = make(tmp_path / "t", batch(0, 1))
    table.bulk_insert(batch(0, 50))
    merge = table.merge(batch(40, 60, tag="b", ts=1), on="id").when_matched_delete(where="source.ts > 45")
    result = merge.when_matched_update(["v", "ts"]).when_not_matched_insert().execute()
    assert (result.inserted, result.updated, result.deleted) == (10, 5, 5)
    with on_executors(), pytest.raises(WriteRefused, match="too large for the driver"):
        table.merge(batch(0, 60), on="id")


@pytest.mark.parametrize("version", [6, 9])
def test_a_group_with_more_rows_than_memory_gets_several_log_files(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", batch(0, 1), kind="mor", version=version, index={"bucket": 1}, partition_by=())
    table.bulk_insert(batch(0, 10))
    frame = batch(0, 300_000).unionByName(batch(0, 300_000, 3, tag="b", ts=1)).repartition(1)
    shape = Shape.of(table.hudi, schema_of(frame), write_options(table.hudi, None))
    scarce = dataclasses.replace(write_options(table.hudi, None), memory=1)
    pipeline = Pipeline(shape, shape.job("upsert", scarce), combine=True)
    result = pipeline.run(table.hudi, with_keys(frame, shape), lambda state: Tagger(state, IndexKind.BUCKET, scarce))
    assert len(result.files) > 1
    assert len({file.name for file in result.files}) == len(result.files)
    found = table.refresh().scan(columns=["id", "v", "_hoodie_commit_seqno"]).to_arrow()
    assert found.num_rows == len(found.column("id").unique()) == len(found.column("_hoodie_commit_seqno").unique())
    assert found.num_rows == 300_000
    assert found.filter(pc.equal(found.column("v"), "b")).num_rows == 100_000
