"""What Spark's optimizer is told of a scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.fixtures.suites import FixtureTable, tables

import headwater
from headwater.spark import row_counts, statistics
from headwater.spark.options import ReadOptions
from headwater.spark.sidecar.planning import plan
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.types import to_json, to_spark

COW = [table for table in tables("generated") if table.kind == "COW"]


def estimated(
    table: FixtureTable, columns: int | None = None, *, metadata: bool = True, **request: Any
) -> dict[str, Any]:
    opened = OpenTable(headwater.open(table.path(), metadata=metadata), ReadOptions())
    wanted = {"type": "struct", "fields": to_spark(opened.schema)["fields"][:columns]}
    found: dict[str, Any] = plan(opened, {"read_schema": wanted, **request}, "0")["statistics"]
    return found


def base_files(table: FixtureTable) -> list[str]:
    return [path for task in headwater.open(table.path()).scan().plan().tasks for path in task.slice.paths]  # type: ignore[union-attr]


@pytest.mark.parametrize("table", COW, ids=lambda table: table.name)
def test_rows_and_column_statistics_of_copy_on_write_tables(table: FixtureTable) -> None:
    rows = headwater.open(table.path()).scan().to_arrow()
    found = estimated(table)
    if "parquet" in {path.rsplit(".", 1)[-1] for path in base_files(table)}:
        assert found["rows"] == rows.num_rows
    assert found["bytes"] > 0
    for name, told in found["columns"].items():
        column = rows.column(name)
        assert told.get("nulls", column.null_count) == column.null_count
        if "distinct" in told:
            assert told["distinct"] == pc.count_distinct(column).as_py()
        if "min" in told:
            assert [told["min"], told["max"]] == [to_json(pc.min(column).as_py()), to_json(pc.max(column).as_py())]


def test_column_statistics_are_told_where_the_metadata_table_has_them() -> None:
    assert any("min" in told for table in COW for told in estimated(table)["columns"].values())


def test_fewer_columns_are_fewer_bytes_and_none_are_fewest() -> None:
    table = COW[0]
    every, one, none = estimated(table)["bytes"], estimated(table, 1)["bytes"], estimated(table, 0)["bytes"]
    assert every > one > 0
    assert 0 < none < every


def test_pruned_scan_is_told_as_such() -> None:
    for table in COW:
        opened = OpenTable(headwater.open(table.path()), ReadOptions())
        values = [p.as_mapping() for p in opened.partitions]
        texts = [(name, v) for one in values for name, v in one.items() if isinstance(v, str)]
        if len(values) < 2 or not texts:
            continue
        predicate = {"op": "=", "args": [{"col": [texts[0][0]]}, {"lit": "no such value", "type": "string"}]}
        assert estimated(table, predicates=[predicate]) == {"bytes": 1, "rows": 0, "columns": {}}
        return
    pytest.fail("no partitioned table")


def test_footer_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    statistics._FOOTERS.clear()
    estimated(COW[0])
    monkeypatch.setattr(statistics, "read_footer", None)
    assert estimated(COW[0])["rows"] is not None


def test_distinct_values_of_partition_columns_are_known_despite_logs() -> None:
    seen = 0
    for table in tables("generated"):
        opened = OpenTable(headwater.open(table.path()), ReadOptions())
        rows = opened.scan.to_arrow()
        for name, told in estimated(table)["columns"].items():
            if name in opened.partition_columns and rows.num_rows:
                assert told["distinct"] >= pc.count_distinct(rows.column(name)).as_py()
                seen += table.kind == "MOR"
    assert seen > 10


@pytest.mark.parametrize("table", COW, ids=lambda table: table.name)
def test_rows_of_many_small_files_are_those_that_commits_tell(
    table: FixtureTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The footer of a small file is mostly a bloom filter: its size says nothing of its rows."""
    monkeypatch.setattr(statistics, "_FEW", 0)
    opened = headwater.open(table.path())
    active = {instant.requested_at for instant in opened.hudi.timeline.commits}
    if not {path.rsplit(".", 1)[0].rsplit("_", 1)[-1] for path in base_files(table)} <= active:
        pytest.skip("its commits are archived")
    assert estimated(table, metadata=False)["rows"] == opened.scan().count()


def test_rows_without_commits_are_told_by_the_bytes_that_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_FEW", 0)
    monkeypatch.setattr(row_counts, "_MOST_BYTES", 0)
    for table in COW[:10]:
        rows = headwater.open(table.path()).scan().count()
        found = estimated(table, metadata=False)["rows"]
        assert found is None or rows / 3 <= found <= rows * 3, table.name


def test_bytes_are_those_of_rows() -> None:
    """A few rows are a few kilobytes, however large the bloom filter next to them."""
    for table in COW:
        found = estimated(table)
        if found["rows"] is not None and found["rows"] < 100:
            assert 50 * found["rows"] <= found["bytes"] < 100_000, table.name


def test_rows_of_few_bytes_are_not_taken_for_few_rows(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    table = headwater.create(tmp_path / "t", schema=schema, key="id")
    table.bulk_insert(pa.table({"id": range(100_000), "city": ["oslo"] * 100_000}, schema=schema))
    opened = OpenTable(headwater.open(tmp_path / "t"), ReadOptions())
    for columns in (["city"], []):
        asked = {"read_schema": to_spark(pa.schema([schema.field(name) for name in columns]))}
        assert 800_000 <= plan(opened, asked, "0")["statistics"]["bytes"] < 2_000_000, columns


def test_rows_of_logs_without_a_base_file_are_estimated() -> None:
    for table in tables("generated"):
        opened = headwater.open(table.path())
        slices = [task.slice for task in opened.scan().plan().tasks]
        if table.kind == "MOR" and slices and all(one.base_file is None for one in slices):  # type: ignore[union-attr]
            found = estimated(table)["rows"]
            assert found is not None
            assert 0 < found <= 2 * opened.scan().count()
            return
    pytest.fail("no table of logs alone")
