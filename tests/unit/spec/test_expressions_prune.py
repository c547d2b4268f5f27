"""Bound trees on statistics and partition values: never wrong, and sharp where the rows leave no doubt."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spec.expression_cases import SCHEMA, expected, random_table, trees

from headwater.spec.expressions import (
    Expression,
    Match,
    bind,
    col,
    evaluate,
    evaluate_partition,
    evaluate_statistics,
    filter_batch,
    parse,
    residual,
)
from headwater.spec.statistics import ColumnStatistics, merge_statistics

NAN = math.nan
ODD_BOUNDS: list[Any] = [None, 1, -5, 2.5, NAN, math.inf, Decimal("1.5"), Decimal("NaN"), "a", b"a", True, object()]
ODD_BOUNDS += [date(2024, 1, 1), datetime(2024, 1, 1), datetime(1, 1, 1, tzinfo=timezone.utc), [1], 10**400]
YES, NO, MAYBE = Match.YES, Match.NO, Match.MAYBE


def true_statistics(values: pa.ChunkedArray) -> ColumnStatistics:
    """The statistics that a careful writer would note for a column."""
    numbers = [value for value in values.to_pylist() if value is not None and value == value]
    return ColumnStatistics(
        minimum=min(numbers, default=None),
        maximum=max(numbers, default=None),
        null_count=values.null_count,
        value_count=len(values),
        exact=True,
        may_have_nan=len(numbers) + values.null_count < len(values),
    )


def columns_of(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    columns = {name: table[name] for name in table.column_names if name != "rider"}
    return {**columns, "rider.age": pc.struct_field(table["rider"], "age")}


def match(filter_: str | Expression, type_: pa.DataType, statistics: ColumnStatistics) -> Match:
    tree = parse(filter_) if isinstance(filter_, str) else filter_
    return evaluate_statistics(bind(tree, pa.schema([("x", type_)])), {"x": statistics})


def ints(low: Any, high: Any, nulls: int | None = 0, rows: int | None = 10) -> ColumnStatistics:
    return ColumnStatistics(low, high, nulls, rows)


@settings(max_examples=400, deadline=None)
@given(
    trees(), st.integers(0, 2**32), st.integers(0, 5), st.sets(st.sampled_from(["tiny", "real", "name", "ok", "at"]))
)
def test_statistics_never_contradict_the_rows(tree: Expression, seed: int, count: int, unknown: set[str]) -> None:
    table = random_table(seed, count)
    statistics = {name: true_statistics(values) for name, values in columns_of(table).items() if name not in unknown}
    found = evaluate_statistics(bind(tree, SCHEMA), statistics)
    truths = [expected(tree, row) for row in table.to_pylist()]
    assert not (found is NO and True in truths)
    assert not (found is YES and set(truths) - {True})


@settings(max_examples=200, deadline=None)
@given(trees(), st.integers(0, 2**32))
def test_statistics_of_merged_files_never_contradict_the_rows(tree: Expression, seed: int) -> None:
    tables = [random_table(seed, 2), random_table(seed + 1, 3)]
    first, second = ({name: true_statistics(values) for name, values in columns_of(t).items()} for t in tables)
    found = evaluate_statistics(bind(tree, SCHEMA), merge_statistics(first, second))
    truths = [expected(tree, row) for table in tables for row in table.to_pylist()]
    assert not (found is NO and True in truths)
    assert not (found is YES and set(truths) - {True})


@settings(max_examples=200, deadline=None)
@given(trees(), st.integers(0, 2**32), st.sets(st.sampled_from([*SCHEMA.names, "rider.age"])))
def test_partition_values_and_residual_keep_the_same_rows(tree: Expression, seed: int, known: set[str]) -> None:
    table = random_table(seed, 1)
    values = {name: array[0].as_py() for name, array in columns_of(table).items() if name in known}
    bound = bind(tree, SCHEMA)
    kept = expected(tree, table.to_pylist()[0]) is True
    found = evaluate_partition(bound, values)
    assert found is not (NO if kept else YES)
    assert filter_batch(residual(bound, values), table).num_rows == kept
    if known >= {*SCHEMA.names, "rider.age"} - {"rider"}:
        assert found is (YES if kept else NO)


@pytest.mark.parametrize(
    ("filter_", "result"),
    [
        ("x < 1", NO),
        ("x < 6", YES),
        ("x < 3", MAYBE),
        ("x = 7", NO),
        ("x = 3", MAYBE),
        ("x != 7", YES),
        ("x IN (0, 7)", NO),
        ("x IN (0, 3)", MAYBE),
        ("x NOT IN (0, 7)", YES),
        ("x IS NULL", NO),
        ("x IS NOT NULL", YES),
        ("x <=> NULL", NO),
        ("x > 2.5", MAYBE),
        ("x = 2.5", NO),
        ("x > 0 AND x < 9", YES),
        ("x > 5 OR x < 1", NO),
        ("NOT (x > 5 OR x < 1)", YES),
        ("x BETWEEN 6 AND 9", NO),
    ],
)
def test_bounds_decide_where_they_can(filter_: str, result: Match) -> None:
    assert match(filter_, pa.int64(), ints(1, 5)) is result


def test_null_rows_match_neither_a_condition_nor_its_opposite() -> None:
    some_nulls = ints(1, 5, nulls=2)
    assert match("x > 10", pa.int64(), some_nulls) is NO
    assert match("NOT x > 10", pa.int64(), some_nulls) is MAYBE
    assert match("x < 10", pa.int64(), some_nulls) is MAYBE
    assert match("x < 10", pa.int64(), ints(1, 5, nulls=None)) is MAYBE
    assert match("x IS NULL", pa.int64(), some_nulls) is MAYBE


def test_column_without_values_matches_only_is_null() -> None:
    nothing = ColumnStatistics(None, None, null_count=10, value_count=10)
    for filter_ in ("x > 1", "NOT x > 1", "x != 1", "x IN (1)", "x NOT IN (1)", "x IS NOT NULL"):
        assert match(filter_, pa.int64(), nothing) is NO
    assert match("x IS NULL", pa.int64(), nothing) is YES
    assert match("x <=> 1", pa.int64(), nothing) is NO


def test_nan_above_the_maximum_is_not_pruned() -> None:
    prices = ColumnStatistics(1.0, 5.0, null_count=0, value_count=10)
    for filter_ in ("x > 100", "x >= 100", "x != 3", "isnan(x)", "NOT x < 100"):
        assert match(filter_, pa.float64(), prices) is MAYBE
    assert match(col("x") == NAN, pa.float64(), prices) is MAYBE
    assert match("x = 100", pa.float64(), prices) is NO
    assert match("x < 1", pa.float64(), prices) is NO
    assert match("x < 100", pa.float64(), prices) is MAYBE
    clean = ColumnStatistics(1.0, 5.0, null_count=0, value_count=10, may_have_nan=False)
    assert match("x > 100", pa.float64(), clean) is NO
    assert match("x < 100", pa.float64(), clean) is YES
    assert match("isnan(x)", pa.float64(), clean) is NO
    assert match(col("x").is_in([NAN]), pa.float64(), clean) is NO


def test_nan_written_as_a_bound_is_no_bound() -> None:
    assert match("x < 5", pa.float64(), ColumnStatistics(NAN, NAN, 0, 10)) is MAYBE


@pytest.mark.parametrize(
    ("filter_", "result"),
    [
        ("startswith(x, 'b')", MAYBE),
        ("x LIKE 'a%'", NO),
        ("x LIKE 'c%'", MAYBE),
        ("x LIKE 'ca%'", NO),
        ("x LIKE 'ca_%'", NO),
        ("x LIKE 'd%x'", NO),
        ("x NOT LIKE 'd%'", YES),
        ("x LIKE '%z'", MAYBE),
        ("contains(x, 'q')", MAYBE),
    ],
)
def test_prefixes_are_ranges(filter_: str, result: Match) -> None:
    assert match(filter_, pa.string(), ints("b", "c")) is result


def test_bounds_that_share_the_prefix_prove_it_for_all_rows() -> None:
    assert match("x LIKE 'ab%'", pa.string(), ints("abc", "abd")) is YES
    assert match("x LIKE '%c'", pa.string(), ints("abc", "abc")) is YES


@pytest.mark.parametrize(
    ("filter_", "type_", "low", "high", "result"),
    [
        ("x > 10", pa.float64(), 1, 5, MAYBE),
        ("x < 0", pa.float64(), 1, 5, NO),
        ("x > 10", pa.decimal128(10, 2), 1, 5, NO),
        ("x > 10", pa.decimal128(10, 2), 1.0, 5.0, MAYBE),
        ("x = '7'", pa.string(), 1, 5, MAYBE),
        ("x > 10", pa.int64(), "1", "5", MAYBE),
        ("x > 10", pa.int64(), Decimal(1), Decimal(5), MAYBE),
        ("x > '2024-01-02'", pa.date32(), 1, 5, MAYBE),
        ("x > '2024-01-02'", pa.timestamp("us"), date(2023, 1, 1), date(2023, 2, 1), NO),
        ("x > '2024-01-02'", pa.timestamp("us", "UTC"), datetime(2023, 1, 1), datetime(2023, 2, 1), NO),
        ("x > 7", pa.string(), "1", "5", MAYBE),
        ("x = TRUE", pa.bool_(), 0, 1, MAYBE),
        ("x = X'FF'", pa.binary(), b"a", b"b", NO),
        ("x > 3", pa.int64(), 5, 1, MAYBE),
        ("x > 1e18", pa.int64(), 1, 5, NO),
        ("x = 0.1F", pa.float32(), 0.1, 0.1, MAYBE),
        ("x IN (7, 9)", pa.int64(), "a", "b", MAYBE),
        ("x <= '2024-01-02 00:00:00'", pa.timestamp("ns"), datetime(2024, 1, 2), datetime(2024, 1, 2), MAYBE),
        ("x >= '2024-01-02 00:00:00'", pa.timestamp("ns"), datetime(2024, 1, 2), datetime(2024, 1, 2), YES),
    ],
)
def test_bounds_of_another_type_are_compared_safely(
    filter_: str, type_: pa.DataType, low: Any, high: Any, result: Match
) -> None:
    assert match(filter_, type_, ColumnStatistics(low, high, 0, 10)) is result


@settings(max_examples=200, deadline=None)
@given(
    trees(),
    st.lists(st.sampled_from(ODD_BOUNDS), min_size=2, max_size=2),
)
def test_statistics_of_any_kind_never_raise(tree: Expression, bounds: list[Any]) -> None:
    statistics = ColumnStatistics(bounds[0], bounds[1])
    evaluate_statistics(bind(tree, SCHEMA), dict.fromkeys([*SCHEMA.names, "rider.age"], statistics))
    evaluate_partition(bind(tree, SCHEMA), dict.fromkeys([*SCHEMA.names, "rider.age"], bounds[0]))


def test_columns_are_compared_by_their_ranges() -> None:
    bound = bind(parse("x < y"), pa.schema([("x", pa.int32()), ("y", pa.int64())]))
    assert evaluate_statistics(bound, {"x": ints(1, 2), "y": ints(3, 4)}) is YES
    assert evaluate_statistics(bound, {"x": ints(3, 4), "y": ints(1, 3)}) is NO
    assert evaluate_statistics(bound, {"x": ints(3, 4)}) is MAYBE


def test_rows_of_no_file_match_nothing() -> None:
    assert match("x > 1", pa.int64(), ColumnStatistics(None, None, 0, 0)) is NO


def test_partition_values_decide_casts_too() -> None:
    schema = pa.schema([("s", pa.string()), ("day", pa.date32()), ("fare", pa.float64())])
    assert evaluate_partition(bind(parse("s = 5"), schema), {"s": "5"}) is YES
    assert evaluate_partition(bind(parse("day LIKE '2024-01%'"), schema), {"day": date(2024, 1, 2)}) is YES
    assert evaluate_partition(bind(parse("day = '2024-01-02'"), schema), {"day": "2024-01-02"}) is YES
    assert evaluate_partition(bind(parse("fare > 5"), schema), {"fare": NAN}) is YES
    assert evaluate_partition(bind(parse("s = 'x'"), schema), {"s": None}) is NO


def test_residual_is_what_partition_values_leave_open() -> None:
    schema = pa.schema([("city", pa.string()), ("fare", pa.int64())])
    bound = bind(parse("(city = 'sf' AND fare > 10) OR (city = 'nyc' AND fare > 20)"), schema)
    assert str(residual(bound, {"city": "sf"})) == "fare > 10"
    assert str(residual(bound, {"city": "la"})) == "FALSE"
    assert str(residual(bound, {"city": None})) == "FALSE"
    assert residual(bound, {}) == bound
    assert evaluate_partition(bound, {"fare": 5}) is NO


def test_long_in_list_prunes_quickly() -> None:
    bound = bind(col("x").is_in(range(0, 100_000, 2)), pa.schema([("x", pa.int64())]))
    for low in range(1, 1001, 2):
        assert evaluate_statistics(bound, {"x": ints(low, low)}) is NO
    assert evaluate(bound, pa.table({"x": [4, 5]})).to_pylist() == [True, False]


def test_merge_keeps_only_what_both_sides_know() -> None:
    left = ColumnStatistics(1, 5, 0, 10, exact=True, may_have_nan=False)
    assert left.merge(ColumnStatistics(None, 9, None, 5)) == ColumnStatistics(None, 9, None, 15, exact=False)
    assert left.merge(ColumnStatistics("a", "b", 0, 5)).minimum is None
    assert left.merge(ColumnStatistics(NAN, 9.0, 0, 5)).minimum is None
    assert left.merge(ColumnStatistics(None, None, 3, 3)).maximum == 5
