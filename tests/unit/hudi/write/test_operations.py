"""The operations, end to end: what they write is what every mode of reading gives."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import headwater
from headwater.errors import (
    ColumnNotFound,
    DuplicateKeys,
    InvalidArgument,
    TableExists,
    WriteRefused,
    WrongType,
)
from headwater.table import Table

SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("price", pa.float64()), ("city", pa.string())]
)
KINDS = [(kind, version) for kind in ("cow", "mor") for version in (6, 8, 9)]


def create(folder: Path, kind: str = "cow", version: int = 9, **more: Any) -> Table:
    given = {"schema": SCHEMA, "key": "id", "ordering": "ts", "partition_by": "city", **more}
    return headwater.create(folder / "t", kind=kind, version=version, **given)


def row(id: str, ts: int = 1, name: str | None = "n", price: float | None = 1.0, city: str = "sf") -> dict[str, Any]:
    return {"id": id, "ts": ts, "name": name, "price": price, "city": city}


def names(table: Table) -> dict[str, str]:
    found = table.scan(columns=["id", "name"]).to_arrow().to_pylist()
    assert len({one["id"] for one in found}) == len(found), "a key came twice"
    return {one["id"]: one["name"] for one in found}


def files(folder: Path) -> dict[str, bytes]:
    """All files but the claims to the lock."""
    found = [path for path in folder.rglob("*") if path.is_file() and ".locks" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize(("kind", "version"), KINDS)
class TestEveryKindOfTable:
    def test_rows_of_an_insert_are_read_back(self, tmp_path: Path, kind: str, version: int) -> None:
        table = create(tmp_path, kind, version)
        result = table.insert(pa.Table.from_pylist([row("a"), row("b", city="la")], schema=SCHEMA))
        assert (result.inserted, result.updated, result.deleted) == (2, 0, 0)
        assert len(result.files) == 2
        assert result.bytes == sum(file.size for file in result.files) > 0
        assert names(table) == names(headwater.open(table.uri)) == {"a": "n", "b": "n"}

    def test_an_upsert_updates_inserts_and_lets_late_rows_lose(self, tmp_path: Path, kind: str, version: int) -> None:
        table = create(tmp_path, kind, version)
        table.insert([row("a", 5, "a5"), row("b", 5, "b5")])
        table.upsert([row("a", 4, "late"), row("b", 5, "equal"), row("c", 1, "new")])
        assert names(table) == {"a": "a5", "b": "equal", "c": "new"}

    def test_by_commit_time_the_last_write_wins(self, tmp_path: Path, kind: str, version: int) -> None:
        table = create(tmp_path, kind, version, merge="commit_time")
        table.insert([row("a", 5, "a5")])
        table.upsert([row("a", 4, "late")])
        assert names(table) == {"a": "late"}

    def test_marked_rows_delete_unless_they_are_late(self, tmp_path: Path, kind: str, version: int) -> None:
        schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
        table = create(tmp_path, kind, version, schema=schema)
        table.insert([{**row(id, 5), "_hoodie_is_deleted": False} for id in "abc"])
        table.upsert([{**row(id, ts), "_hoodie_is_deleted": True} for id, ts in (("a", 6), ("b", 4), ("x", 9))])
        assert names(table) == {"b": "n", "c": "n"}

    def test_a_delete_by_key_wins_whatever_the_ordering_value(self, tmp_path: Path, kind: str, version: int) -> None:
        table = create(tmp_path, kind, version)
        table.insert([row("a", 99), row("b", 99), row("b", 99, city="la")])
        assert table.delete(["a", "nothing"]).deleted == 1
        assert table.delete(pa.table({"id": ["b"], "city": ["la"]})).deleted == 1
        assert names(table) == {"b": "n"}

    def test_a_text_alone_is_neither_key_nor_filter(self, tmp_path: Path, kind: str, version: int) -> None:
        table = create(tmp_path, kind, version)
        table.insert([row("a"), row("b")])
        with pytest.raises(InvalidArgument, match="where='a'"):
            table.delete("a")
        assert table.delete(headwater.col("id") == "a").deleted == 1
        assert names(table) == {"b": "n"}

    def test_an_update_sets_constants_columns_and_functions(self, tmp_path: Path, kind: str, version: int) -> None:
        table = create(tmp_path, kind, version)
        table.insert([row("a", price=2.0), row("b", price=3.0)])
        result = table.update(
            {"price": lambda rows: pc.multiply(rows["price"], 10), "name": headwater.col("city")}, where="id = 'b'"
        )
        assert result.updated == 1
        found = table.scan(columns=["id", "name", "price"]).to_arrow().sort_by("id").to_pylist()
        assert found == [{"id": "a", "name": "n", "price": 2.0}, {"id": "b", "name": "sf", "price": 30.0}]

    def test_an_update_of_the_partition_column_moves_the_row(self, tmp_path: Path, kind: str, version: int) -> None:
        table = create(tmp_path, kind, version)
        table.insert([row("a"), row("b")])
        table.update({"city": "la"}, where="id = 'b'")
        found = table.scan(columns=["id", "city"]).to_arrow().sort_by("id").to_pylist()
        assert found == [{"id": "a", "city": "sf"}, {"id": "b", "city": "la"}]

    def test_a_partial_upsert_keeps_the_columns_it_lacks(self, tmp_path: Path, kind: str, version: int) -> None:
        table = create(tmp_path, kind, version)
        table.insert([row("a", 1, "kept", 1.0), row("b", 1, "kept", 1.0)])
        table.upsert([{"id": "a", "ts": 2, "city": "sf", "price": 7.0}], partial=True)
        table.upsert([{"id": "b", "ts": 2, "city": "sf", "name": "new"}], partial=True)
        found = table.scan(columns=["id", "name", "price", "ts"]).to_arrow().sort_by("id").to_pylist()
        assert found == [
            {"id": "a", "name": "kept", "price": 7.0, "ts": 2},
            {"id": "b", "name": "new", "price": 1.0, "ts": 2},
        ]

    def test_overwrites_replace_partitions_or_all(self, tmp_path: Path, kind: str, version: int) -> None:
        table = create(tmp_path, kind, version)
        table.insert([row("a"), row("b", city="la")])
        table.upsert([row("a", 2, "changed")])
        table.insert_overwrite([row("c")])
        assert names(table) == {"b": "n", "c": "n"}
        table.delete_partitions(["la"])
        assert names(table) == {"c": "n"}
        table.overwrite([row("z", city="ny")])
        assert names(table) == {"z": "n"}

    def test_new_columns_and_wider_numbers_are_taken(self, tmp_path: Path, kind: str, version: int) -> None:
        schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("n", pa.int32()), ("city", pa.string())])
        table = create(tmp_path, kind, version, schema=schema)
        table.insert([{"id": "a", "ts": 1, "n": 1, "city": "sf"}, {"id": "b", "ts": 1, "n": 2, "city": "sf"}])
        table.upsert([{"id": "a", "ts": 2, "n": 2**40, "city": "sf", "extra": "x"}])
        found = table.scan(columns=["id", "n", "extra"]).to_arrow().sort_by("id").to_pylist()
        assert found == [{"id": "a", "n": 2**40, "extra": "x"}, {"id": "b", "n": 2, "extra": None}]

    def test_global_indexes_move_a_record_to_its_new_partition(self, tmp_path: Path, kind: str, version: int) -> None:
        table = create(tmp_path, kind, version, index="global_bloom")
        table.insert([row("a", 5), row("b", 5), row("c", 5)])
        result = table.upsert([row("a", 6, "moved", city="la"), row("b", 4, "late", city="la")])
        assert names(table) == {"a": "moved", "b": "n", "c": "n"}
        assert result.instant is not None
        cities = {one["id"]: one["city"] for one in table.scan(columns=["id", "city"]).to_arrow().to_pylist()}
        assert cities == {"a": "la", "b": "sf", "c": "sf"}


def test_a_table_is_written_from_every_kind_of_frame(tmp_path: Path) -> None:
    import pandas as pd

    table = create(tmp_path)
    table.insert(pl.DataFrame([row("polars")]))
    table.insert(pd.DataFrame([row("pandas")]))
    table.insert(pa.RecordBatch.from_pylist([row("batch")]))
    table.insert(pa.Table.from_pylist([row("stream")]).to_reader())
    table.insert(pl.LazyFrame([row("lazy")]))
    assert sorted(names(table)) == ["batch", "lazy", "pandas", "polars", "stream"]


def test_bulk_insert_sorts_by_key_where_asked(tmp_path: Path) -> None:
    table = create(tmp_path, partition_by=(), key="id")
    table.bulk_insert([row(f"{n:03d}") for n in reversed(range(100))], sort="global")
    assert table.scan(columns=["id"]).to_arrow().column("id").to_pylist() == [f"{n:03d}" for n in range(100)]


def test_a_stream_is_written_batch_by_batch(tmp_path: Path) -> None:
    table = create(tmp_path)

    def batches() -> Any:
        for start in range(0, 1000, 100):
            yield pa.RecordBatch.from_pylist(
                [row(str(start + n), city="abc"[n % 3]) for n in range(100)], schema=SCHEMA
            )

    result = table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert result.inserted == 1000
    assert len(result.files) == 3
    assert table.scan().count() == 1000


def random_rows(count: int) -> pa.Table:
    generator = np.random.default_rng(5)
    return pa.table(
        {
            "id": pa.array(np.arange(count)).cast(pa.string()),
            "ts": pa.array(np.ones(count, np.int64)),
            "name": pa.array(generator.integers(0, 10**9, count)).cast(pa.string()),
            "price": pa.array(generator.random(count)),
            "city": pa.array(np.full(count, "sf")),
        }
    )


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_files_have_the_size_that_was_asked_for(tmp_path: Path, operation: str) -> None:
    table = create(tmp_path)
    size = 2 * 1024 * 1024
    options = {"hoodie.parquet.max.file.size": str(size), "hoodie.parquet.small.file.limit": "0"}
    result = getattr(table, operation)(random_rows(300_000), options=options)
    sizes = sorted(file.size for file in result.files)
    assert len(sizes) > 3
    assert all(abs(one - size) < 0.2 * size for one in sizes[1:]), sizes


def test_small_files_are_filled_up_before_new_ones_are_made(tmp_path: Path) -> None:
    table = create(tmp_path)
    first = table.insert([row("a")])
    second = table.insert([row("b")])
    assert [file.file_id for file in first.files] == [file.file_id for file in second.files]
    assert names(table) == {"a": "n", "b": "n"}


def test_a_key_may_be_inserted_twice_as_in_hudi_and_is_then_updated_twice(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.insert([row("a", name="one")])
    table.insert([row("a", name="two")])
    assert table.scan().count() == 2
    table.upsert([row("a", 2, "both")])
    assert table.scan(columns=["name"]).to_arrow().column("name").to_pylist() == ["both", "both"]


def test_keys_that_are_there_can_be_refused_or_dropped(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.insert([row("a")])
    before = files(tmp_path)
    with pytest.raises(DuplicateKeys, match="'a'"):
        table.insert([row("a"), row("b")], if_present="fail")
    with pytest.raises(DuplicateKeys, match="more than once"):
        table.insert([row("c"), row("c")], if_present="fail")
    assert files(tmp_path) == before
    assert table.insert([row("a", name="other"), row("b")], if_present="drop").inserted == 1
    assert names(table) == {"a": "n", "b": "n"}


def test_rows_of_a_table_without_a_key_get_one_each(tmp_path: Path) -> None:
    table = create(tmp_path, key=())
    table.insert([row("a"), row("a")])
    keys = table.scan(columns=["_hoodie_record_key"]).to_arrow().column(0).to_pylist()
    assert len(set(keys)) == 2
    with pytest.raises(WriteRefused, match="makes up one"):
        table.upsert([row("a")])
    assert table.delete(where="id = 'a'").deleted == 2


def test_a_write_without_effect_commits_nothing(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.insert([row("a", 5)])
    before = files(tmp_path)
    for result in (
        table.delete(["nothing"]),
        table.delete(where="price > 100"),
        table.update({"name": "x"}, where="id = 'nothing'"),
        table.upsert(SCHEMA.empty_table()),
    ):
        assert result.instant is None
        assert "nothing to commit" in str(result)
    assert files(tmp_path) == before


def test_rows_that_all_lose_rewrite_no_file(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.insert([row("a", 5)])
    result = table.upsert([row("a", 4, "late")])
    assert result.files == ()
    assert names(table) == {"a": "n"}
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_a_row_does_not_move_to_where_its_key_is_already(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.insert([row("a"), row("a", name="other", city="la")])
    with pytest.raises(DuplicateKeys, match="'a'"):
        table.update({"city": "la"}, where="city = 'sf'")
    assert table.scan().count() == 2


def test_a_scan_goes_on_seeing_its_own_state(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.insert([row("a")])
    scan = table.scan(columns=["id"])
    table.insert([row("b")])
    assert scan.to_arrow().num_rows == 1
    assert table.scan().count() == 2


def test_time_travel_and_changes_tell_what_was_written(tmp_path: Path) -> None:
    table = create(tmp_path, "mor")
    first = table.insert([row("a", 1, "one")]).instant
    second = table.upsert([row("a", 2, "two")]).instant
    table.delete(["a"])
    assert first is not None
    assert second is not None
    assert table.scan(as_of=first.requested_at, columns=["name"]).to_arrow().to_pylist() == [{"name": "one"}]
    assert table.scan(as_of=second.requested_at, columns=["name"]).to_arrow().to_pylist() == [{"name": "two"}]
    ops = [change["op"] for change in table.changes().to_arrow().to_pylist()]
    assert ops == ["i", "u", "d"]


BAD_ROWS: dict[str, tuple[Any, type[Exception], str]] = {
    "no key": ([{**row("a"), "id": None}], WriteRefused, "no record key"),
    "empty key": ([row("")], WriteRefused, "no record key"),
    "no partition": ([{**row("a"), "city": None}], WriteRefused, "no city"),
    "no ordering value": ([{**row("a"), "ts": None}], WriteRefused, "no ts"),
    "no ordering column": (pa.table({"id": ["a"], "city": ["sf"]}), ColumnNotFound, "ts"),
    "no key column": (pa.table({"ts": [1], "city": ["sf"]}), ColumnNotFound, "id"),
    "text for a number": ([{**row("a"), "price": "much"}], WriteRefused, "price"),
    "a column without a type": (pa.table({**{k: [v] for k, v in row("a").items()}, "x": [None]}), WriteRefused, "x"),
    "two spellings": (pa.table({**{k: [v] for k, v in row("a").items()}, "PRICE": [1.0]}), WriteRefused, "PRICE"),
    "no rows at all": (42, WrongType, "pyarrow"),
}


@pytest.mark.parametrize("operation", ["insert", "upsert", "bulk_insert", "insert_overwrite", "overwrite"])
@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_that_cannot_be_stored_are_refused_and_nothing_is_written(
    tmp_path: Path, case: str, operation: str
) -> None:
    table = create(tmp_path)
    table.insert([row("before")])
    before = files(tmp_path)
    rows, error, message = BAD_ROWS[case]
    with pytest.raises(error, match=message):
        getattr(table, operation)(rows)
    assert files(tmp_path) == before


def test_statements_that_cannot_be_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.insert([row("a")])
    before = files(tmp_path)
    with pytest.raises(WriteRefused, match="record key"):
        table.update({"id": "other"})
    with pytest.raises(ColumnNotFound, match="nothing"):
        table.update({"nothing": 1})
    with pytest.raises(WrongType, match="price"):
        table.update({"price": "much"})
    with pytest.raises(InvalidArgument, match="one of the two"):
        table.delete()
    with pytest.raises(WriteRefused, match="no partition"):
        table.delete_partitions(["nowhere"])
    with pytest.raises(InvalidArgument, match="not known"):
        table.insert([row("b")], options={"hoodie.no.such.option": "1"})
    assert files(tmp_path) == before


def test_a_table_is_created_only_where_nothing_is(tmp_path: Path) -> None:
    create(tmp_path)
    with pytest.raises(TableExists, match="already"):
        create(tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "loose.parquet")
    with pytest.raises(TableExists, match="no Hudi table"):
        headwater.create(tmp_path, schema=SCHEMA, key="id")
    with pytest.raises(TableExists, match="file"):
        headwater.create(tmp_path / "loose.parquet", schema=SCHEMA, key="id")


def test_types_of_all_kinds_come_back_as_they_were(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc)
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "flag": [True, None],
            "day": pa.array([datetime.date(2024, 1, 2), None]),
            "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "amount": pa.array([None, 3], pa.decimal128(10, 2)),
            "raw": pa.array([b"\x00\xff", None]),
            "list": pa.array([[1, 2], None], pa.list_(pa.int64())),
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
            "deep": pa.array([{"a": {"b": "x"}}, None], pa.struct([("a", pa.struct([("b", pa.string())]))])),
        }
    )
    for kind, version in KINDS:
        table = headwater.create(
            tmp_path / f"{kind}{version}", schema=rows.schema, key="id", kind=kind, version=version
        )
        table.insert(rows)
        table.upsert(rows)
        found = table.scan(columns=rows.column_names).to_arrow().sort_by("id")
        assert found.to_pylist() == rows.to_pylist()


def test_buckets_take_their_rows_by_hash(tmp_path: Path) -> None:
    for kind in ("cow", "mor"):
        table = headwater.create(
            tmp_path / kind, schema=SCHEMA, key="id", ordering="ts", partition_by="city", kind=kind, index={"bucket": 3}
        )
        table.insert([row(str(n)) for n in range(20)])
        result = table.upsert([row(str(n), 2, "new") for n in range(15, 25)])
        assert len({file.file_id[:8] for file in result.files}) == 3
        assert {file.file_id[:8] for file in result.files} == {"00000000", "00000001", "00000002"}
        assert len(names(table)) == 25
        assert table.lookup(["24", "3"]).num_rows == 2


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_a_row_moves_to_a_bucket_that_is_there(tmp_path: Path, kind: str, version: int) -> None:
    table = create(tmp_path, kind, version, index={"bucket": 1})
    table.insert([row("a"), row("b", city="la"), row("c", city="la")])
    table.update({"city": "la", "name": "moved"}, where="id = 'a'")
    table.upsert([row("b", 2, "new", city="la")])
    assert names(table) == {"a": "moved", "b": "new", "c": "n"}
    groups = {slice_.group.file_id for found in table.hudi.file_index().list_files_at() for slice_ in found.slices}
    assert len(groups) == 2
