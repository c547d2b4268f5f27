"""What is written for one file group, where readers found it wanting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater
from headwater.hudi.table import HudiTable
from headwater.hudi.write import operations
from headwater.storage.faults import FaultyStorage
from headwater.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("ts2", pa.int32()), ("name", pa.string())])


def create(folder: Path, **more: Any) -> Table:
    given: dict[str, Any] = {"schema": SCHEMA, "key": "id", "ordering": "ts", "kind": "mor", **more}
    return headwater.create(folder / "t", **given)


def row(id: str, ts: int = 1, ts2: int = 1, name: str = "n") -> dict[str, Any]:
    return {"id": id, "ts": ts, "ts2": ts2, "name": name}


def ids(table: Table) -> list[str]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def test_a_delete_by_key_has_no_ordering_value_where_there_are_several_ordering_fields(tmp_path: Path) -> None:
    table = create(tmp_path, ordering=["ts", "ts2"], version=9)
    table.insert([row("a", 9), row("b", 9)])
    table.upsert([row("a", 9, 9)])
    table.delete(["a"])
    assert ids(table) == ["b"]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_base_file_of_merge_on_read_that_is_rewritten_for_new_rows_has_a_change_log(
    tmp_path: Path, version: int
) -> None:
    properties = {
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
    }
    table = create(tmp_path, version=version, properties=properties)
    table.insert([row("a")])
    result = table.insert([row("b")])
    assert [file.name for file in (tmp_path / "t").iterdir() if file.name.endswith(".cdc")]
    changes = table.changes().to_arrow().to_pylist()
    assert sorted((change["op"], change["after"]["id"]) for change in changes) == [("i", "a"), ("i", "b")]
    assert result.inserted == 1


@pytest.mark.parametrize("version", [6, 8, 9])
def test_where_changes_are_kept_a_log_names_the_files_before_it(tmp_path: Path, version: int) -> None:
    """Hudi takes the rows before a change from them."""
    table = create(tmp_path, version=version, properties={"hoodie.table.cdc.enabled": "true"})
    base = table.insert([row("a"), row("b")]).files[0]
    first = table.upsert([row("a", 2)]).files[0]
    table.upsert([row("a", 3)])
    stat = next(iter(table.hudi.timeline.read(table.hudi.timeline.commits[-1])["partitionToWriteStats"].values()))[0]
    assert stat["baseFile"] == base.name
    assert first.name in stat["logFiles"]


@pytest.mark.parametrize(("generator", "is_whole"), [("timestamp", True), ("simple", False)])
def test_partial_updates_are_whole_rows_where_a_timestamp_is_the_path(
    tmp_path: Path, generator: str, is_whole: bool
) -> None:
    """Hudi takes the column for a text when it puts such rows together."""
    properties = {
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd",
    }
    table = create(tmp_path, partition_by="ts2", key_generator=generator, properties=properties)
    table.insert([row("a", name="kept")])
    file = table.upsert(pa.table({"id": ["a"], "ts": [2], "ts2": pa.array([1], pa.int32())}), partial=True).files[0]
    assert (b"kept" in (tmp_path / "t" / file.path).read_bytes()) == is_whole
    assert table.scan(columns=["name", "ts"]).to_arrow().to_pylist() == [{"name": "kept", "ts": 2}]


@pytest.mark.parametrize(("version", "kind"), [(6, "APPEND"), (9, "CREATE")])
def test_the_marker_of_a_change_log_is_that_of_a_log_file(tmp_path: Path, version: int, kind: str) -> None:
    """Hudi's rollback refuses markers of another kind."""
    table = create(tmp_path, kind="cow", version=version, properties={"hoodie.table.cdc.enabled": "true"})
    table.insert([row("a")])
    storage = FaultyStorage.over(table.hudi.storage)
    operations.upsert(HudiTable.open(storage), [row("a", 2)])
    assert [call for call in storage.faults.calls if call.endswith(f".cdc.marker.{kind}")]
