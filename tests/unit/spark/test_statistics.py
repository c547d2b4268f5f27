"""What Spark's optimizer is told of a scan."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest
from tests.fixtures.suites import FixtureTable, tables

import headwater
from headwater.spark import statistics
from headwater.spark.options import ReadOptions
from headwater.spark.sidecar.planning import plan
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.types import to_json, to_spark

COW = [table for table in tables("generated") if table.kind == "COW"]


def estimated(table: FixtureTable, columns: int | None = None, **request: Any) -> dict[str, Any]:
    opened = OpenTable(headwater.open(table.path()), ReadOptions())
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
        assert told["nulls"] == column.null_count
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
    monkeypatch.setattr(statistics.pq, "read_metadata", None)
    assert estimated(COW[0])["rows"] is not None
