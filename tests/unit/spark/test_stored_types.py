"""What a commit's schema tells of its files is what their footers say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fixtures.suites import FixtureTable, tables

import headwater
from headwater.spark.options import ReadOptions
from headwater.spark.sidecar.planning import plan
from headwater.spark.sidecar.stored_types import why_not
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.types import to_spark

TABLES = tables("generated")


def tasks_of(table: FixtureTable) -> list[dict[str, Any]]:
    opened = OpenTable(headwater.open(table.path()), ReadOptions())
    found: list[dict[str, Any]] = plan(opened, {"read_schema": to_spark(opened.schema)}, "0")["tasks"]
    return found


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_plan_foretells_what_footers_decide(table: FixtureTable) -> None:
    opened = OpenTable(headwater.open(table.path()), ReadOptions())
    wanted = to_spark(opened.schema)
    answer = plan(opened, {"read_schema": wanted}, "0")
    for task in answer["tasks"]:
        if task["how"] not in ("parquet", "positional"):
            continue
        footer = pq.read_schema(table.path() / task["path"])
        renames = {tuple(one["column"]): one["file"] for one in task["renames"]}
        decided = why_not(wanted, footer, renames, answer["constants"])
        assert bool(task["why"]) == bool(decided), (task["why"], decided)
        assert task["why"].startswith("left to the sidecar: ") or not task["why"]


def test_some_tables_have_files_that_are_left_to_the_sidecar() -> None:
    assert any("left to the sidecar" in task["why"] for table in TABLES for task in tasks_of(table))


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"fields": [{"name": name, "type": kind}]}


@pytest.mark.parametrize(
    ("wanted", "stored", "reason"),
    [
        ("long", pa.int32(), ""),
        ("double", pa.float32(), ""),
        ("double", pa.int64(), ""),
        ("integer", pa.int64(), "column x is stored as bigint, the table says int"),
        ("string", pa.int32(), "column x is stored as int, the table says string"),
        ("decimal(12,2)", pa.decimal128(10, 2), "column x is stored as decimal(10,2), the table says decimal(12,2)"),
        ("long", pa.time64("us"), "Spark's reader does not know"),
        ({"type": "array", "elementType": "long"}, pa.list_(pa.int32()), "array<int>, the table says array<bigint>"),
        ({"type": "array", "elementType": "long"}, pa.list_(pa.int64()), ""),
        (
            {"type": "struct", "fields": [{"name": "b", "type": "long"}]},
            pa.struct([("a", pa.int8())]),
            "none of the fields asked for",
        ),
        (
            {"type": "struct", "fields": [{"name": "a", "type": "byte"}, {"name": "b", "type": "long"}]},
            pa.struct([("a", pa.int8())]),
            "",
        ),
        (
            {"type": "map", "keyType": "string", "valueType": "long"},
            pa.map_(pa.string(), pa.int32()),
            "map<string,bigint>",
        ),
    ],
)
def test_rules_are_those_of_the_connector(wanted: Any, stored: pa.DataType, reason: str) -> None:
    found = why_not(field("x", wanted), pa.schema([("x", stored)]))
    assert reason in found
    assert bool(found) == bool(reason)


def test_renamed_and_constant_columns() -> None:
    stored = pa.schema([("old", pa.int32()), ("p", pa.int32())])
    assert why_not(field("new", "string"), stored) == ""
    assert "stored as int" in why_not(field("new", "string"), stored, {("new",): "old"})
    assert why_not(field("old", "string"), stored, {("old",): None}) == ""
    assert why_not(field("p", "string"), stored, {}, ["p"]) == ""
    inner = {"type": "struct", "fields": [{"name": "a", "type": "byte"}, {"name": "b", "type": "byte"}]}
    held = pa.schema([("s", pa.struct([("a", pa.int8()), ("b", pa.int8())]))])
    assert "replaced" in why_not(field("s", inner), held, {("s", "b"): None})
