"""MERGE: clauses in their order, conditions on both sides, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headwater
from headwater.errors import ColumnNotFound, DuplicateKeys, InvalidArgument, WriteRefused
from headwater.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("city", pa.string())])
KINDS = [(kind, version) for kind in ("cow", "mor") for version in (6, 9)]


def create(folder: Path, kind: str = "cow", version: int = 9, index: Any = None) -> Table:
    shape: dict[str, Any] = {"key": "id", "ordering": "ts", "partition_by": "city", "index": index}
    table = headwater.create(folder / "t", schema=SCHEMA, kind=kind, version=version, **shape)
    table.insert([row("a"), row("b"), row("c", city="la")])
    return table


def row(id: str, ts: int = 1, name: str = "old", city: str = "sf") -> dict[str, Any]:
    return {"id": id, "ts": ts, "name": name, "city": city}


def names(table: Table) -> dict[str, str]:
    return {one["id"]: one["name"] for one in table.scan(columns=["id", "name"]).to_arrow().to_pylist()}


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_the_first_clause_that_holds_counts(tmp_path: Path, kind: str, version: int) -> None:
    table = create(tmp_path, kind, version)
    source = [row("a", 2, "gone"), row("b", 2, "new"), row("c", 2, "new", "la"), row("d", 2, "added"), row("e", 0)]
    result = (
        table.merge(source, on="id")
        .when_matched_delete(where="source.name = 'gone'")
        .when_matched_update({"name": headwater.col("source.name")}, where="target.city = 'la'")
        .when_matched_update({"name": lambda target, source: pc.binary_join_element_wise(target["name"], "+", "")})
        .when_not_matched_insert(where="source.ts > 1")
        .execute()
    )
    assert (result.inserted, result.updated, result.deleted) == (1, 2, 1)
    assert names(table) == {"b": "old+", "c": "new", "d": "added"}


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_an_update_that_is_late_loses(tmp_path: Path, kind: str, version: int) -> None:
    table = create(tmp_path, kind, version)
    table.merge([row("a", 0, "late"), row("b", 1, "equal")], on="id").when_matched_update().execute()
    assert names(table) == {"a": "old", "b": "equal", "c": "old"}


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_an_update_of_the_partition_moves_the_row(tmp_path: Path, kind: str, version: int) -> None:
    table = create(tmp_path, kind, version)
    table.merge([row("a", 2, "moved", "ny")], on="id").when_matched_update().execute()
    found = {one["id"]: one["city"] for one in table.scan(columns=["id", "city"]).to_arrow().to_pylist()}
    assert found == {"a": "ny", "b": "sf", "c": "la"}


def test_rows_may_be_joined_on_other_columns_than_the_key(tmp_path: Path) -> None:
    table = create(tmp_path)
    source = pa.table({"city": ["sf"], "word": ["hello"]})
    result = table.merge(source, on="city").when_matched_update({"name": headwater.col("source.word")}).execute()
    assert result.updated == 2
    assert names(table) == {"a": "hello", "b": "hello", "c": "old"}


def test_new_rows_may_be_made_of_other_columns(tmp_path: Path) -> None:
    table = create(tmp_path)
    source = pa.table({"id": ["z"], "at": [7]})
    values = {"id": headwater.col("source.id"), "ts": headwater.col("source.at"), "city": "ny", "name": "made"}
    table.merge(source, on="id").when_not_matched_insert(values).execute()
    assert table.scan(filter="id = 'z'", columns=["ts", "name", "city"]).to_arrow().to_pylist() == [
        {"ts": 7, "name": "made", "city": "ny"}
    ]


def test_several_matches_of_a_stored_row_are_refused(tmp_path: Path) -> None:
    table = create(tmp_path)
    with pytest.raises(WriteRefused, match="several rows"):
        table.merge([row("a", 2), row("a", 3)], on="id").when_matched_update().execute()


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", [None, "record_index", {"bucket": 1}])
def test_new_rows_are_counted_as_such(tmp_path: Path, kind: str, index: Any) -> None:
    source = [row("a", 2, "new"), row("d"), row("e", city="la")]
    merge = create(tmp_path, kind, index=index).merge(source, on="id").when_matched_update()
    result = merge.when_not_matched_insert().execute()
    assert (result.inserted, result.updated) == (2, 1)


@pytest.mark.parametrize("index", [None, {"bucket": 1}])
def test_a_key_that_is_stored_cannot_be_inserted_again(tmp_path: Path, index: Any) -> None:
    table = create(tmp_path, index=index)
    with pytest.raises(DuplicateKeys, match="'a'"):
        table.merge([row("a", 2, "another name")], on="name").when_not_matched_insert().execute()
    assert table.merge([row("z", 2, "another name")], on="name").when_not_matched_insert().execute().inserted == 1


def test_a_statement_that_cannot_be_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path)
    with pytest.raises(InvalidArgument, match="without clauses"):
        table.merge([row("a")], on="id").execute()
    with pytest.raises(ColumnNotFound, match="nothing"):
        table.merge([row("a")], on="nothing").when_matched_delete().execute()
    with pytest.raises(ColumnNotFound, match="nothing"):
        table.merge([row("a")], on="id").when_matched_update({"nothing": 1}).execute()
    with pytest.raises(WriteRefused, match="record keys"):
        table.merge([row("a")], on="id").when_matched_update({"id": "other"}).execute()
    with pytest.raises(WriteRefused, match="gives no city"):
        table.merge([{"id": "z", "ts": 1}], on="id").when_not_matched_insert().execute()
    assert names(table) == {"a": "old", "b": "old", "c": "old"}


def test_a_merge_into_an_empty_table_inserts(tmp_path: Path) -> None:
    table = headwater.create(tmp_path / "t", schema=SCHEMA, key="id", ordering="ts", partition_by="city")
    result = table.merge([row("a")], on="id").when_matched_delete().when_not_matched_insert().execute()
    assert result.inserted == 1
