"""Filters with the function of an expression index leave out what its statistics rule out, and no matching row."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests import written

import headwater
from headwater.errors import CorruptFile
from headwater.hudi.expression_index import function_statistics
from headwater.hudi.metadata_table.records import ColumnStats
from headwater.spec.expressions import BoundFunction, bind, parse, referenced

TABLES = written.every("expr_")
UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "listing"])
@pytest.mark.parametrize("name", TABLES)
def test_filters_give_what_hudi_gives(name: str, metadata: bool, tmp_path: Path) -> None:
    table = headwater.open(written.unpack(name, tmp_path), metadata=metadata)
    for text, rows in written.expected(name)["filters"]:
        got = table.scan(filter=text).to_arrow().to_pylist()
        assert written.in_order(got) == written.in_order(rows), text


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("year(ts) > 2024", "year(ts) by expr_index_idx_year"),
        ("lower(name) = 'omega'", "lower(name) by expr_index_idx_lower"),
        ("month(day) = 5", "month(day) by expr_index_idx_month"),
        (
            "from_unixtime(secs, 'yyyy-MM-dd') < '1970-01-01'",
            "from_unixtime(secs, 'yyyy-MM-dd') by expr_index_idx_unix",
        ),
    ],
)
def test_index_leaves_slices_out(name: str, text: str, index: str, tmp_path: Path) -> None:
    table = headwater.open(written.unpack(name, tmp_path))
    plan = table.scan(filter=text).plan()
    assert index in str(plan)
    assert len(plan.tasks) < len(table.scan().plan().tasks)
    for other in (f"NOT ({text})", f"({text}) OR id = 1", f"({text}) AND id > 0"):
        assert (
            table.scan(filter=other).count()
            == headwater.open(tmp_path / name, metadata=False).scan(filter=other).count()
        )


@pytest.mark.parametrize("text", ["year(day) = 2020", "lower(city) = 'sf'", "from_unixtime(secs, 'yyyy') = '2020'"])
def test_index_on_another_column_or_pattern_is_not_used(text: str, tmp_path: Path) -> None:
    table = headwater.open(written.unpack("expr_cow_120", tmp_path))
    assert "expr_index" not in table.scan(filter=text).explain()


def function_of(text: str, type_: pa.DataType) -> BoundFunction:
    bound = bind(parse(f"{text} IS NULL"), pa.schema([("x", type_)]))
    function = next(iter(referenced(bound)))
    assert isinstance(function, BoundFunction)
    return function


@pytest.mark.parametrize(
    ("text", "type_", "low", "high", "widened"),
    [
        ("year(x)", UTC, 2020, 2021, (2019, 2022)),
        ("year(x)", pa.timestamp("us"), 2020, 2021, (2020, 2021)),
        ("year(x)", pa.date32(), 2020, 2021, (2020, 2021)),
        ("month(x)", UTC, 3, 4, None),
        ("hour(x)", UTC, 3, 4, None),
        ("day(x)", pa.date32(), 3, 4, (3, 4)),
        ("to_date(x)", UTC, date(2020, 3, 1), date(2020, 3, 1), (date(2020, 2, 29), date(2020, 3, 2))),
        ("date_format(x, 'yyyy')", UTC, "2020", "2021", ("2019", "2022")),
        ("date_format(x, 'yyyy-MM')", UTC, "2020-03", "2020-12", ("2020-02", "2021-01")),
        ("date_format(x, 'yyyyMMdd')", UTC, "20200301", "20201231", ("20200229", "20210101")),
        ("date_format(x, 'yyyy-MM-dd HH')", UTC, "2020-03-01 05", "2020-03-01 05", ("2020-02-29 05", "2020-03-02 05")),
        ("date_format(x, 'MM-yyyy')", UTC, "03-2020", "04-2020", None),
        ("date_format(x, 'HH:mm')", UTC, "03:20", "04:20", None),
        ("date_format(x, 'yyyy')", UTC, "0001", "9999", None),
        ("from_unixtime(x)", pa.int64(), "2020-03-01 00:00:00", "2020-03-01 00:00:00",
         ("2020-02-29 00:00:00", "2020-03-02 00:00:00")),
        ("unix_timestamp(x)", UTC, 5, 9, (5, 9)),
        ("unix_timestamp(x)", pa.date32(), 86_400, 86_400, (0, 172_800)),
        ("lower(x)", pa.string(), "a", "b", ("a", "b")),
        ("lower(x)", pa.string(), 5, 6, None),
    ],
)  # fmt: skip
def test_values_of_another_zone_are_allowed_for(
    text: str, type_: pa.DataType, low: Any, high: Any, widened: Any
) -> None:
    stat = ColumnStats("f", "x", low, high, value_count=2, null_count=2, total_size=0, total_uncompressed_size=0)
    found = function_statistics(stat, function_of(text, type_))
    assert (None if found is None else (found.minimum, found.maximum)) == widened
    assert found is None or (found.null_count, found.value_count, found.all_null) == (2, 4, False)


def test_file_without_values_has_statistics_of_nulls() -> None:
    stat = ColumnStats("f", "x", None, None, value_count=0, null_count=3, total_size=0, total_uncompressed_size=0)
    found = function_statistics(stat, function_of("month(x)", UTC))
    assert found is not None
    assert found.all_null


@pytest.mark.parametrize(
    "content",
    [
        '{"indexDefinitions": {"expr_index_a": {"sourceFields": 5}}}',
        '{"indexDefinitions": {"expr_index_a": {"sourceFields": ["ts"], "indexOptions": ["year"]}}}',
        '{"indexDefinitions": {"expr_index_a": 5}}',
        '{"indexDefinitions": []}',
    ],
)
def test_definitions_of_another_shape_are_corrupt(content: str, tmp_path: Path) -> None:
    path = written.unpack("expr_cow_120", tmp_path)
    (path / ".hoodie/.index_defs/index.json").write_text(content)
    if content.endswith("[]}"):
        assert headwater.open(path).scan(filter="year(ts) = 2020").count() == 2, "no index is none"
        return
    with pytest.raises(CorruptFile, match=r"index\.json: is no list of index definitions .*rebuild the metadata table"):
        headwater.open(path).scan(filter="year(ts) = 2020").to_arrow()
