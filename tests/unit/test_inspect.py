"""Looking into tables: every answer is checked against the files themselves."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests import places

import headwater
from headwater.demo import DEMO_TABLES, demo_table
from headwater.errors import InstantNotFound, InvalidArgument


def fixture_table(name: str, into: Path) -> headwater.Table:
    return headwater.open(places.unpack(f"generated/{name}", into))


def demo(name: str) -> headwater.Table:
    return headwater.open(demo_table(name))


def test_history_tells_rows_files_and_bytes_of_each_write() -> None:
    rows = demo("trips").inspect.history().to_pylist()
    assert [row["operation"] for row in rows] == ["INSERT", "UPSERT", "UPSERT", None, "UPSERT", "DELETE"]
    assert [row["rows_inserted"] for row in rows] == [12, 0, 0, None, 1, 0]
    assert [row["rows_updated"] for row in rows] == [0, 3, 2, None, 2, 0]
    assert [row["rows_deleted"] for row in rows] == [0, 0, 0, None, 0, 2]
    assert [row["partitions"] for row in rows] == [3, 3, 1, None, 2, 1]
    assert rows[0]["bytes"] == 435484 + 435486 + 435494
    assert rows[0]["completed_at"] == "20261115073151664"


def test_history_leaves_out_what_a_pending_action_did_not_write_down() -> None:
    pending = demo("trips").inspect.history().to_pylist()[3]
    assert (pending["action"], pending["state"], pending["completed_at"]) == ("compaction", "requested", None)
    assert pending["files"] is None
    assert pending["bytes"] is None


def test_history_of_a_clean_tells_the_partitions() -> None:
    cleans = [row for row in demo("legacy").inspect.history().to_pylist() if row["action"] == "clean"]
    assert len(cleans) == 2
    assert all(row["partitions"] for row in cleans)
    assert all(row["rows_inserted"] is None for row in cleans)


@pytest.mark.parametrize("name", ["archive_mor_v9_120", "archive_cow_v9_120", "archive_mor_v8_102"])
def test_archived_actions_come_on_demand_and_in_order(name: str, tmp_path: Path) -> None:
    inspect = fixture_table(name, tmp_path).inspect
    active, everything = inspect.history(), inspect.history(archived=True)
    assert not any(active.column("archived").to_pylist())
    assert sum(everything.column("archived").to_pylist()) == everything.num_rows - active.num_rows > 0
    times = everything.column("requested_at").to_pylist()
    assert times == sorted(times)
    first = everything.to_pylist()[0]
    assert (first["archived"], first["operation"], first["files"]) == (True, "INSERT", 1)


@pytest.mark.parametrize("name", DEMO_TABLES)
def test_files_slices_and_partitions_agree(name: str) -> None:
    table = demo(name)
    files, slices, partitions = table.inspect.files(), table.inspect.slices(), table.inspect.partitions()
    assert sum(partitions.column("files").to_pylist()) == files.num_rows
    assert sum(partitions.column("slices").to_pylist()) == slices.num_rows
    assert sum(partitions.column("bytes").to_pylist()) == sum(files.column("size").to_pylist())
    assert sum(slices.column("logs").to_pylist()) == files.column("kind").to_pylist().count("log")
    for row in files.to_pylist():
        assert os.path.getsize(os.path.join(table.uri, row["path"])) == row["size"]


def test_files_of_one_partition() -> None:
    files = demo("trips").inspect.files("city=la").to_pylist()
    assert {row["partition"] for row in files} == {"city=la"}
    assert [row["kind"] for row in files] == ["base", "log", "log"]
    assert [row["instant"] for row in files] == ["20261115073146372", "20261115073152107", "20261115073201626"]


def test_unknown_partition_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match="no partition 'la'; there are: 'city=la', 'city=nyc', 'city=sf'"):
        demo("trips").inspect.files("la")


def test_slices_at_an_earlier_time_have_the_logs_of_that_time() -> None:
    inspect = demo("trips").inspect
    assert sum(inspect.slices().column("logs").to_pylist()) == 6
    assert sum(inspect.slices(as_of="20261115073152107").column("logs").to_pylist()) == 3


def test_slices_before_the_first_commit_are_an_error() -> None:
    with pytest.raises(InstantNotFound):
        demo("trips").inspect.slices(as_of="2020-01-01")


def test_properties_are_those_of_the_file() -> None:
    table = demo("stats")
    found = dict(zip(*table.inspect.properties().to_pydict().values(), strict=True))
    assert found["hoodie.table.name"] == table.name
    assert found["hoodie.table.metadata.partitions"] == "column_stats,files,partition_stats"
    assert list(found) == sorted(found)


def test_statistics_are_those_of_the_footers() -> None:
    table = demo("stats")
    found = {(row["path"], row["column"]): row for row in table.inspect.statistics().to_pylist()}
    for path in {path for path, _ in found}:
        rows = pq.read_table(os.path.join(table.uri, path), columns=["id", "note"])
        ids, notes = rows.column("id").to_pylist(), rows.column("note")
        known = found[path, "id"]
        assert (known["rows"], known["nulls"], known["min"], known["max"]) == (
            len(ids),
            0,
            str(min(ids)),
            str(max(ids)),
        )
        assert found[path, "note"]["nulls"] == notes.null_count


def test_nested_columns_are_listed_without_bounds(tmp_path: Path) -> None:
    table = fixture_table("types_all_cow_v9_120", tmp_path)
    rows = table.inspect.statistics().to_pylist()
    nested = {field.name for field in table.schema if "<" in str(field.type)}
    assert nested
    assert {row["column"] for row in rows} >= nested
    assert all(row["min"] is None for row in rows if row["column"] in nested)


def test_log_only_slices_have_no_base_file(tmp_path: Path) -> None:
    inspect = fixture_table("idx_bucket_logonly_mor_v9_120", tmp_path).inspect
    assert None in inspect.slices().column("base_file").to_pylist()
    assert "log" in inspect.files().column("kind").to_pylist()
    assert inspect.statistics().num_rows >= 0


def test_listing_folders_gives_the_same_as_the_metadata_table() -> None:
    with_table, without = demo("stats"), headwater.open(demo_table("stats"), metadata=False)
    assert with_table.inspect.files().equals(without.inspect.files())
    assert with_table.inspect.partitions().equals(without.inspect.partitions())
