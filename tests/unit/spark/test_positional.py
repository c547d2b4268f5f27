"""base file ⊖ dropped positions ⊕ added rows is the merged slice: on every table, with filters, after pickling."""

from __future__ import annotations

import base64
import collections
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures import suites
from tests.fixtures.random_filters import FilterMaker
from tests.unit.spark.spark_json import spark_json

import headwater
from headwater.hudi.base_file import open_base_file
from headwater.hudi.merge.memo import MergeMemo
from headwater.spark.sidecar.handles import OpenTables
from headwater.spark.sidecar.merging import SliceScan, decode_slice
from headwater.spark.sidecar.planning import plan, push
from headwater.spark.sidecar.predicates import FULL
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.types import arrow_schema, to_spark
from headwater.spec.expressions import Expression, bind, filter_batch

VERSION = headwater.__version__
TABLES = suites.tables("generated")
FILTERS = 3
# As in a sidecar, which goes on remembering what it merged: over all tables, filters and columns of these tests.
MEMO = MergeMemo(64 * 10**6)


def counted(table: pa.Table) -> collections.Counter[str]:
    return collections.Counter(repr(row) for row in table.to_pylist())


def opened(path: Path, **options: str) -> OpenTable:
    tables = OpenTables()
    return tables.get(tables.open(str(path), options, {}))


def rows_of(answer: Mapping[str, Any]) -> pa.Table:
    """What the JVM makes of a plan: base files by itself, less the dropped positions, plus the added rows."""
    sent = SliceScan.from_bytes(base64.b64decode(answer["scan"]), VERSION)
    scan = replace(sent, reader=sent.reader.remembering(MEMO))
    found = [scan.schema.empty_table()]
    for task in answer["tasks"]:
        slice_ = decode_slice(base64.b64decode(task["payload"]))
        if task["how"] == "stream":
            found += list(scan.read(slice_))
            continue
        dropped = [np.zeros(0, np.int64)]
        if task["how"] == "positional":
            for positions, added, _ in scan.merge(slice_, rows=True):
                dropped.append(positions)
                if added is not None:
                    found.append(added)
            again = [part for part, added, _ in scan.merge(slice_, rows=False)]
            assert np.array_equal(np.sort(np.concatenate(dropped)), np.sort(np.concatenate([dropped[0], *again])))
        found.append(_base_rows(scan, slice_, np.concatenate(dropped)))
    return pa.concat_tables(found)


def _base_rows(scan: SliceScan, slice_: Any, dropped: Any) -> pa.Table:
    """The base file without any filter, as a reader of Parquet files alone has it."""
    alone = replace(scan, reader=replace(scan.reader, filter=None), metadata_columns=("_pos",))
    tables = list(alone.read(replace(slice_, delta_files=())))
    whole = pa.concat_tables([alone.schema.empty_table(), *tables])
    assert whole.num_rows == open_base_file(scan.reader.context.storage, slice_.base_file.path).num_rows
    kept = ~np.isin(whole.column("_pos").to_numpy(), dropped)
    return whole.filter(pa.array(kept)).drop_columns(["_pos"])


def readable(table: suites.FixtureTable) -> OpenTable:
    try:
        return opened(table.path())
    except headwater.HeadwaterError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_positional_merge_gives_the_merged_rows(table: suites.FixtureTable) -> None:
    found = readable(table)
    answer = plan(found, {"read_schema": to_spark(found.schema)}, VERSION)
    expected = found.scan.to_arrow()
    got = rows_of(answer)
    assert got.schema.equals(arrow_schema(to_spark(found.schema)))
    assert counted(got) == counted(_as_spark(expected, got.schema))


def _as_spark(table: pa.Table, schema: pa.Schema) -> pa.Table:
    from headwater.hudi.evolution import conform

    return conform(table, schema)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_pushed_filters_lose_no_row(table: suites.FixtureTable) -> None:
    found = readable(table)
    everything = found.scan.to_arrow()
    if not everything.num_rows:
        return
    maker = FilterMaker(everything, 7, prefer=[*found.partition_columns, "_hoodie_record_key"])
    read_schema = to_spark(found.schema)
    for _ in range(FILTERS):
        filters = [maker.filter(), maker.filter(1)]
        predicates = [spark_json(one, found.schema) for one in filters]
        classes = [one.kind for one in push(found, predicates)]
        answer = plan(found, {"read_schema": read_schema, "predicates": predicates}, VERSION)
        got = rows_of(answer)
        expected = everything
        for expression, kind in zip(filters, classes, strict=True):
            bound = bind(expression, found.schema)
            expected = filter_batch(bound, expected)
            if kind != FULL:  # Spark looks again
                got = _filtered(got, expression, found.schema)
        assert counted(got) == counted(_as_spark(expected, got.schema)), (filters, classes)


def _filtered(rows: pa.Table, expression: Expression, schema: pa.Schema) -> pa.Table:
    from headwater.hudi.evolution import conform

    own = conform(rows, pa.schema([field.with_nullable(True) for field in schema]))
    return conform(filter_batch(bind(expression, schema), own), rows.schema)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_small_budget_changes_no_row(table: suites.FixtureTable) -> None:
    found = readable(table)
    if not any(task.slice.delta_files for task in found.scan.plan().tasks):  # type: ignore[union-attr]
        return
    answer = plan(found, {"read_schema": to_spark(found.schema)}, VERSION)
    scan = SliceScan.from_bytes(base64.b64decode(answer["scan"]), VERSION)
    tight = replace(scan, reader=scan.reader.within(2000))
    answer["scan"] = base64.b64encode(tight.to_bytes(VERSION)).decode()
    assert counted(rows_of(answer)) == counted(_as_spark(found.scan.to_arrow(), scan.schema))


@pytest.fixture
def partitioned(tmp_path: Path) -> Path:
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    made = headwater.create(tmp_path / "t", schema=schema, key="id", partition_by="p")
    made.upsert(pa.table({"id": ["1", "2"], "p": ["a", "a"]}, schema=schema))
    return tmp_path / "t"


def test_positions_beside_nothing_but_what_the_path_tells(partitioned: Path) -> None:
    """The file is read for no column, and its rows count all the same."""
    found = opened(partitioned, reader="merge")
    wanted = to_spark(pa.schema([found.schema.field("p")]))
    got = rows_of(plan(found, {"read_schema": wanted, "metadata_columns": ["_pos"]}, VERSION))
    assert got.to_pylist() == [{"p": "a", "_pos": 0}, {"p": "a", "_pos": 1}]


def test_a_filter_that_nothing_can_match_plans_nothing(partitioned: Path) -> None:
    """Partition columns decide what is left of it, so Spark does not look again."""
    found = opened(partitioned)
    unknown = {"op": "<>", "args": [{"col": ["id"]}, {"lit": None, "type": "string"}]}
    known = {"op": "=", "args": [{"col": ["p"]}, {"lit": "a", "type": "string"}]}
    predicates = [{"op": "AND", "args": [unknown, known]}]
    assert [one.kind for one in push(found, predicates)] == [FULL]
    answer = plan(found, {"read_schema": to_spark(found.schema), "predicates": predicates}, VERSION)
    assert len(answer["tasks"]) == 0
