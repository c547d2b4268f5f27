"""Tagging and assignment: where records are found, and where new ones go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater
from headwater.errors import InvalidArgument
from headwater.hudi.merge.rules import merge_rules
from headwater.hudi.table import HudiTable
from headwater.hudi.write import tagging
from headwater.hudi.write.assignment import Assigner, How
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.options import IndexKind, WriteOptions
from headwater.hudi.write.tagging import NO_TAGS, Tags, tag
from headwater.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string())])
APART = {"hoodie.parquet.small.file.limit": "0"}
BY_KEYS = [IndexKind.SIMPLE, IndexKind.BLOOM]


def create(folder: Path, kind: str, **more: Any) -> Table:
    return headwater.create(
        folder / "t", schema=SCHEMA, key="id", ordering="ts", partition_by="city", kind=kind, **more
    )


def row(id: str, ts: int = 1, city: str = "sf") -> dict[str, Any]:
    return {"id": id, "ts": ts, "city": city}


def batch(table: HudiTable, *places: tuple[str, str]) -> Batch:
    ids, cities = zip(*places, strict=True)
    rows = pa.table({"id": ids, "ts": pa.array([9] * len(ids), pa.int64()), "city": cities}, schema=SCHEMA)
    return Batch.of(rows, pa.array(ids), pa.array(cities), merge_rules(table.config))


def places(tags: Tags) -> list[tuple[int, str, int]]:
    """Row of the batch, partition, position."""
    found = [tags.slices[number].group.partition for number in tags.slice]
    return list(zip(tags.row.tolist(), found, tags.position.tolist(), strict=True))


@pytest.mark.parametrize("index", BY_KEYS)
def test_keys_are_found_in_their_partition_with_their_positions(tmp_path: Path, index: IndexKind) -> None:
    table = create(tmp_path, "cow")
    table.insert([row("a"), row("b"), row("c", city="la")])
    wanted = batch(table.hudi, ("b", "sf"), ("c", "sf"), ("c", "la"), ("x", "la"))
    tags = tag(table.hudi, wanted, index, WriteOptions())
    assert places(tags) == [(0, "sf", 1), (2, "la", 0)]
    assert tags.absent(len(wanted)).tolist() == [1, 3]


def test_a_global_index_finds_keys_in_any_partition(tmp_path: Path) -> None:
    table = create(tmp_path, "cow")
    table.insert([row("a"), row("c", city="la")])
    tags = tag(table.hudi, batch(table.hudi, ("c", "sf")), IndexKind.GLOBAL_SIMPLE, WriteOptions())
    assert places(tags) == [(0, "la", 0)]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_many_keys_are_found_in_the_files_where_the_record_index_would_find_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = create(tmp_path, kind, index="record_index")
    table.insert([row("a"), row("b"), row("c", city="la"), row("gone")], options=APART)
    table.upsert([row("b", 2), row("d", 2, "la")], options=APART)
    table.delete(["gone"])
    wanted = batch(table.hudi, ("b", "sf"), ("c", "sf"), ("d", "la"), ("x", "la"), ("a", "la"), ("gone", "sf"))
    found = {}
    for bytes_a_key in (0, 10**9):
        monkeypatch.setattr(tagging, "_INDEX_BYTES_A_KEY", bytes_a_key)
        tags = tag(table.hudi, wanted, IndexKind.RECORD_INDEX, WriteOptions())
        found[bytes_a_key] = [(at, tags.slices[number].group) for at, number in zip(tags.row, tags.slice, strict=True)]
    assert found[0] == found[10**9]
    assert [at for at, _ in found[0]] == [0, 1, 2, 4]


def test_a_key_that_a_log_deleted_still_belongs_to_its_group(tmp_path: Path) -> None:
    table = create(tmp_path, "mor")
    table.insert([row("a"), row("b")])
    table.delete(["a"])
    wanted = batch(table.hudi, ("a", "sf"))
    assert places(tag(table.hudi, wanted, IndexKind.SIMPLE, WriteOptions())) == [(0, "sf", 0)]
    assert places(tag(table.hudi, wanted, IndexKind.SIMPLE, WriteOptions(), live=True)) == []


def test_of_a_key_in_two_groups_the_living_one_is_found(tmp_path: Path) -> None:
    table = create(tmp_path, "mor")
    table.insert([row("a"), row("b")], options=APART)
    table.delete(["a"])
    table.insert([row("a")], options=APART)
    table.upsert([row("a", 5)], options=APART)
    assert table.scan(columns=["id", "ts"]).to_arrow().sort_by("id").to_pylist() == [
        {"id": "a", "ts": 5},
        {"id": "b", "ts": 1},
    ]
    table.delete(["a"])
    table.upsert([row("a", 7)], options=APART)
    assert table.scan(columns=["id"]).to_arrow().column("id").to_pylist().count("a") == 1


def test_a_table_without_commits_has_no_places(tmp_path: Path) -> None:
    table = create(tmp_path, "cow")
    assert tag(table.hudi, batch(table.hudi, ("a", "sf")), IndexKind.SIMPLE, WriteOptions()) is NO_TAGS


def test_a_bucket_index_needs_the_buckets_that_the_table_was_written_with(tmp_path: Path) -> None:
    table = create(tmp_path, "cow")
    table.insert([row("a")])
    with pytest.raises(InvalidArgument, match="number of buckets"):
        table.upsert([row("a")], options={"hoodie.index.type": "BUCKET"})
    with pytest.raises(InvalidArgument, match="none of 4 buckets"):
        table.upsert([row("a")], options={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"})


def assigner(table: HudiTable, row_bytes: float, **options: Any) -> Assigner:
    return Assigner(table, WriteOptions(**options), IndexKind.SIMPLE, row_bytes)


def test_new_rows_are_split_into_files_of_the_target_size(tmp_path: Path) -> None:
    table = create(tmp_path, "cow").hudi
    wanted = batch(table, *((str(n), "sf") for n in range(100)))
    works = assigner(table, 50_000, target_file_size=2_000_000).assign(
        wanted, NO_TAGS, np.zeros(0, bool), np.arange(100)
    )
    assert [len(work.inserts) for work in works] == [34, 33, 33]
    assert {work.how for work in works} == {How.CREATE}


def test_small_files_take_what_they_have_room_for(tmp_path: Path) -> None:
    table = create(tmp_path, "cow")
    table.insert([row("a")])
    wanted = batch(table.hudi, *((str(n), "sf") for n in range(100)))
    works = assigner(table.hudi, 50_000, target_file_size=2_000_000).assign(
        wanted, NO_TAGS, np.zeros(0, bool), np.arange(100)
    )
    assert works[0].how is How.MERGE
    assert len(works[0].inserts) == 39
    assert sum(len(work.inserts) for work in works) == 100


def test_a_small_file_with_a_log_is_left_alone(tmp_path: Path) -> None:
    table = create(tmp_path, "mor")
    table.insert([row("a")])
    table.upsert([row("a", 2)])
    wanted = batch(table.hudi, ("b", "sf"))
    works = assigner(table.hudi, 100.0).assign(wanted, NO_TAGS, np.zeros(0, bool), np.arange(1))
    assert [work.how for work in works] == [How.CREATE]


@pytest.mark.parametrize("index", ["simple", "bloom", "global_simple", "global_bloom", "record_index", {"bucket": 2}])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_keys_that_java_orders_otherwise_are_found(tmp_path: Path, kind: str, index: Any) -> None:
    """In the footer of such a file, which has the keys in Java's order, the least key is greater than the greatest."""
    table = create(tmp_path, kind, index=index)
    keys = ["\uffef1", "\U0001f6001", "\ud7ff"]
    table.insert([row(key) for key in keys])
    table.upsert([row(key, ts=2) for key in keys])
    found = headwater.open(table.uri)
    assert sorted(found.scan(columns=["id", "ts"]).to_arrow().to_pylist(), key=str) == sorted(
        ({"id": key, "ts": 2} for key in keys), key=str
    )
    for key in keys:
        assert found.lookup([key]).num_rows == 1
        assert found.scan(filter=f"id = '{key}'").count() == 1
