"""ORDER BY … LIMIT leaves out what cannot hold a row of the answer, and nothing else."""

from __future__ import annotations

import base64
import random
from typing import Any

import pyarrow as pa
import pytest
from tests.fixtures.suites import FixtureTable, tables

import headwater
from headwater.spark.options import parse_read_options
from headwater.spark.sidecar import top_rows
from headwater.spark.sidecar.merging import SliceScan, decode_slice
from headwater.spark.sidecar.planning import plan
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.sidecar.top_rows import Bound, SortKey, bound_of
from headwater.spark.types import to_spark
from headwater.spec.statistics import ColumnStatistics

TABLES = tables("generated")


def opened(table: FixtureTable, **options: str) -> OpenTable:
    given = parse_read_options(options)
    return OpenTable(headwater.open(table.path(), metadata=given.metadata), given)


def top(key: SortKey, limit: int) -> dict[str, Any]:
    order = {"column": [key.column], "descending": key.descending, "nulls_first": key.nulls_first}
    return {"orders": [order], "limit": limit}


def planned(table: OpenTable, key: SortKey, limit: int, **request: Any) -> dict[str, Any]:
    wanted = {"type": "struct", "fields": to_spark(pa.schema([table.schema.field(key.column)]))["fields"]}
    return plan(table, {"read_schema": wanted, "top": top(key, limit), **request}, "0")


def values_of(found: dict[str, Any], key: SortKey) -> list[Any]:
    """The column in all rows that the plan leaves."""
    scan = SliceScan.from_bytes(base64.b64decode(found["scan"]), "0")
    values: list[Any] = []
    for task in found["tasks"]:
        for batch in scan.reader.open(decode_slice(base64.b64decode(task["payload"]))):
            values += batch.column(key.column).to_pylist()
    return values


def in_order(values: list[Any], key: SortKey) -> list[Any]:
    nulls = [value for value in values if value is None]
    rest = sorted((value for value in values if value is not None), reverse=key.descending)
    return nulls + rest if key.nulls_first else rest + nulls


def first_with_equals(values: list[Any], key: SortKey, limit: int) -> list[Any]:
    """The first rows, and all further ones that equal the last of them: another column may prefer those."""
    ordered = in_order(values, key)
    if len(ordered) <= limit:
        return ordered
    last = ordered[limit - 1]
    return [*ordered[:limit], *(value for value in ordered[limit:] if value == last)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@pytest.mark.parametrize("metadata", ["true", "false"])
def test_first_rows_and_their_equals_are_never_left_out(table: FixtureTable, metadata: str) -> None:
    target = opened(table, metadata=metadata)
    draw = random.Random(f"{table.name} {metadata}")
    flat = [f.name for f in target.schema if not pa.types.is_nested(f.type) and not pa.types.is_floating(f.type)]
    partitions = [name for name in target.partition_columns if name in flat]
    rows = target.scan.to_arrow()
    for name in {*partitions, *draw.sample(flat, min(4, len(flat)))}:
        key = SortKey(name, draw.random() < 0.5, draw.random() < 0.5)
        values = rows.column(name).to_pylist()
        for limit in (1, draw.randint(2, 20), rows.num_rows, rows.num_rows + 1):
            found = planned(target, key, limit)
            left = values_of(found, key)
            assert first_with_equals(left, key, limit) == first_with_equals(values, key, limit), (key, limit)


@pytest.mark.parametrize("kind", ["COW", "MOR"])
def test_slices_behind_the_first_rows_are_not_read(kind: str) -> None:
    """Of partitions with values of their own, the one that comes first is enough."""
    seen = 0
    for table in (one for one in TABLES if one.kind == kind):
        target = opened(table, mode="read_optimized")
        if len(target.partition_columns) != 1 or len(target.partitions) < 2:
            continue
        found = planned(target, SortKey(target.partition_columns[0]), 1)
        if found["bound"] is not None and found["tasks"]:
            assert {found["partitions"][task["partition"]]["path"] for task in found["tasks"]} == {
                found["partitions"][0]["path"]
            }
            assert any("first rows 1 by" in line and "they match" in line for line in found["description"])
            seen += 1
    assert seen >= 3


def test_slices_are_left_out_by_statistics_of_data_columns() -> None:
    skipped = 0
    for table in TABLES:
        target = opened(table)
        for name in ("_hoodie_commit_time", "_hoodie_record_key", "_hoodie_commit_seqno"):
            for descending in (False, True):
                found = planned(target, SortKey(name, descending, not descending), 1)
                skipped += found["metrics"]["skipped_by_statistics"]
    assert skipped >= 10


def test_filter_that_spark_evaluates_again_forbids_it() -> None:
    table = next(one for one in TABLES if one.kind == "COW" and len(opened(one).scan.plan().tasks) > 1)
    target = opened(table)
    key = SortKey("_hoodie_record_key")
    predicate = {"op": ">", "args": [{"col": ["_hoodie_record_key"]}, {"lit": "", "type": "string"}]}
    assert planned(target, key, 1)["bound"] is not None
    found = planned(target, key, 1, predicates=[predicate])
    assert found["bound"] is None
    assert not any("first rows" in line for line in found["description"])


def test_of_many_slices_those_that_look_first_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_rows, "_MOST_FOOTERS", 1)
    looked = 0
    for table in (one for one in TABLES if one.kind == "COW"):
        target = opened(table)
        if len(target.partitions) < 2 or len(target.partition_columns) != 1:
            continue
        for descending in (False, True):
            key = SortKey(target.partition_columns[0], descending, False)
            values = target.scan.to_arrow().column(key.column).to_pylist()
            found = planned(target, key, 1)
            assert first_with_equals(values_of(found, key), key, 1) == first_with_equals(values, key, 1)
            looked += found["bound"] is not None
    assert looked


def known(low: Any, high: Any, rows: int, nulls: int = 0, *, exact: bool = True) -> ColumnStatistics:
    return ColumnStatistics(low, high, null_count=nulls, value_count=rows, exact=exact)


def test_nulls_come_where_they_are_asked_for() -> None:
    some = [known(1, 3, 5, nulls=2), known(7, 9, 2)]
    assert bound_of(SortKey("x"), 2, some) == Bound(SortKey("x"), None)
    assert bound_of(SortKey("x"), 3, some) == Bound(SortKey("x"), 1)
    last = SortKey("x", nulls_first=False)
    assert bound_of(last, 2, some) == Bound(last, 3)
    assert bound_of(last, 5, some) == Bound(last, 9)
    assert bound_of(last, 6, some) is None, "nulls are the last: no value bounds them"
    down = SortKey("x", descending=True, nulls_first=False)
    assert bound_of(down, 2, some) == Bound(down, 7)


def test_loose_bounds_prove_nothing_but_nulls_are_counted() -> None:
    assert bound_of(SortKey("x"), 1, [known(1, 3, 5, exact=False)]) is None
    assert bound_of(SortKey("x"), 2, [known(1, 3, 5, nulls=2, exact=False)]) == Bound(SortKey("x"), None)


def test_values_that_have_no_common_order_prove_nothing() -> None:
    assert bound_of(SortKey("x"), 1, [known(1, 3, 5), known("a", "b", 5)]) is None
    assert not Bound(SortKey("x"), 1).rules_out(known("a", "b", 5))


def test_what_a_bound_rules_out() -> None:
    first, last = Bound(SortKey("x"), 5), Bound(SortKey("x", nulls_first=False), 5)
    assert first.rules_out(known(6, 9, 2))
    assert not first.rules_out(known(6, 9, 2, nulls=1))
    assert last.rules_out(known(6, 9, 2, nulls=1))
    assert last.rules_out(known(None, None, 2, nulls=2))
    assert not first.rules_out(known(None, None, 2, nulls=2))
    assert not last.rules_out(known(5, 9, 2))
    assert not last.rules_out(known(None, None, 2))
    assert Bound(SortKey("x"), None).rules_out(known(1, 2, 2))
    assert not Bound(SortKey("x"), None).rules_out(known(1, 2, 2, nulls=1))
    assert Bound(SortKey("x", descending=True, nulls_first=False), 5).rules_out(known(1, 4, 2))


def test_limit_of_nothing_has_no_bound() -> None:
    assert bound_of(SortKey("x"), 0, [known(1, 3, 5)]) is None
