"""Functions in filters: what they give is what Spark gives, and what they do not take is refused."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.places import DATA

from headwater.errors import InvalidExpression
from headwater.spec.expressions import (
    BoundFunction,
    Match,
    bind,
    col,
    evaluate,
    evaluate_partition,
    evaluate_statistics,
    filter_batch,
    parse,
    referenced,
    to_arrow,
)
from headwater.spec.expressions.functions import FUNCTIONS, compute
from headwater.spec.statistics import ColumnStatistics

SPARK: dict[str, dict[str, Any]] = json.loads((DATA / "written" / "functions.json").read_text("utf-8"))
TYPES = {"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "long": pa.int64(), "string": pa.string()}
CALLS = [(kind, call) for kind, found in SPARK.items() for call in found["out"]]
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("s", pa.string()), ("n", pa.int64()), ("d", pa.date32())])


def function_of(call: str, schema: pa.Schema) -> BoundFunction:
    (found,) = referenced(bind(parse(f"{call} IS NULL"), schema))
    assert isinstance(found, BoundFunction)
    return found


def values_of(kind: str) -> pa.Array:
    numbers = {"date": pa.int32()}.get(kind, pa.int64())
    return pa.array(SPARK[kind]["in"], pa.string() if kind == "string" else numbers).cast(TYPES[kind])


@pytest.mark.parametrize(("kind", "call"), CALLS)
@pytest.mark.parametrize("chunked", [False, True], ids=["array", "chunks"])
def test_every_value_is_sparks(kind: str, call: str, chunked: bool) -> None:
    given = values_of(kind)
    function = function_of(call, pa.schema([("x", TYPES[kind])]))
    values = pa.chunked_array([given[:3], given[3:3], given[3:]]) if chunked else given
    got = compute(function.function, function.arguments, values)
    assert got.type == function.type
    if pa.types.is_date(got.type):
        got = got.cast(pa.int32())
    assert got.to_pylist() == SPARK[kind]["out"][call]


def test_every_function_was_compared_with_sparks() -> None:
    compared = {call.split("(")[0] for _, call in CALLS}
    assert compared == set(FUNCTIONS)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_of_any_unit(unit: str, zone: str | None) -> None:
    moments = pa.array([datetime(1969, 12, 31, 23), datetime(2024, 2, 29, 1), None], pa.timestamp(unit, zone))
    assert compute("year", (), moments).to_pylist() == [1969, 2024, None]
    assert compute("hour", (), moments).to_pylist() == [23, 1, None]
    assert compute("to_date", (), moments).to_pylist() == [date(1969, 12, 31), date(2024, 2, 29), None]
    assert compute("unix_timestamp", (), moments).to_pylist() == [-3600, 1_709_168_400, None]


ROWS = pa.table(
    {
        "ts": [datetime(2020, 5, 1), datetime(2021, 5, 1), None],
        "s": ["Abc", "xyz", None],
        "n": [0, 86_400, None],
        "d": [date(2020, 12, 31), date(2021, 1, 1), None],
    },
    schema=SCHEMA,
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("year(ts) = 2020", [True, False, None]),
        ("NOT year(ts) = 2020", [False, True, None]),
        ("year(ts) IN (2019, 2021)", [False, True, None]),
        ("year(ts) IS NULL", [False, False, True]),
        ("2020 >= year(d)", [True, False, None]),
        ("year(ts) = year(d)", [True, True, None]),
        ("year(ts) > n", [True, False, None]),
        ("lower(s) = 'abc'", [True, False, None]),
        ("lower(s) <=> NULL", [False, False, True]),
        ("lower(s) LIKE 'a%'", [True, False, None]),
        ("startswith(upper(s), 'XY')", [False, True, None]),
        ("substring(s, 1, 1) BETWEEN 'A' AND 'B'", [True, False, None]),
        ("from_unixtime(n, 'yyyy-MM-dd') = '1970-01-02'", [False, True, None]),
        ("date_add(d, 1) = DATE '2021-01-01'", [True, False, None]),
        ("date_add(d, 1) > '2021-01-01'", [False, True, None]),
        ("month(ts) = 5 AND month(ts) < 300", [True, True, None]),
        ("length(s) > 2.5", [True, True, None]),
        ("YEAR(TS) = 2021", [False, True, None]),
    ],
)
def test_functions_stand_where_columns_do(text: str, rows: list[bool | None]) -> None:
    bound = bind(parse(text), SCHEMA)
    assert evaluate(bound, ROWS).to_pylist() == rows
    assert evaluate(bind(parse(str(parse(text))), SCHEMA), ROWS).to_pylist() == rows, "it prints as it parses"
    assert bind(bound, SCHEMA) == bound, "a bound tree can be bound again"
    found = to_arrow(bound)
    assert found.expression is None or not found.exact


def test_builder_makes_functions() -> None:
    built = col("ts").function("date_format", "yyyy-MM") == "2020-05"
    assert str(built) == "date_format(ts, 'yyyy-MM') = '2020-05'"
    assert filter_batch(bind(built, SCHEMA), ROWS).num_rows == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("reverse(s) = 'a'", "no function 'reverse' in filters; there are: isnan"),
        ("year(s, 5) = 3", "year(s, 5): year takes a column"),
        ("date_format(ts) = ''", "date_format takes a column, a text"),
        ("date_format(ts, 5) = ''", "date_format takes a column, a text"),
        ("to_date(s, 'yyyy') IS NULL", "to_date(s, 'yyyy'): to_date takes a column"),
        ("date_format(ts, 'yy') = ''", "'yy' in the pattern 'yy' is not known in filters; there are: yyyy, MM"),
        ("date_format(ts, 'yyyy-MM-dd EEE') = ''", "'EEE' in the pattern"),
        ("date_format(ts, 'yyyy[MM]') = ''", "'[' in the pattern"),
        ("year(n) = 5", "year(n): year takes columns of type date, string, timestamp, and this one is int64"),
        ("lower(n) = 'a'", "lower takes columns of type string"),
        ("from_unixtime(s) = ''", "from_unixtime takes columns of type integer"),
        ("year(lower(s)) = 5", "year takes a column, and no function of one"),
        ("year(5) = 5", "expected a column here"),
        ("substring(s, 1.5) = ''", "substring takes texts and whole numbers behind its column"),
        ("substring(s, TRUE) = ''", "substring takes texts and whole numbers behind its column"),
        ("year(ts) = 'soon'", "cannot compare year(ts) of type int32"),
        ("year(ts)", "year(ts) is int32, not boolean: compare it with a value"),
    ],
)
def test_what_cannot_be_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        bind(parse(text), SCHEMA)
    assert says in str(caught.value)


def test_statistics_of_a_column_say_nothing_of_its_functions() -> None:
    bound = bind(parse("lower(s) = 'abc'"), SCHEMA)
    assert evaluate_statistics(bound, {"s": ColumnStatistics("X", "Z", null_count=0)}) is Match.MAYBE
    known = {function_of("lower(s)", SCHEMA).name: ColumnStatistics("x", "z", null_count=0)}
    assert evaluate_statistics(bound, known) is Match.NO
    named_so = pa.schema([("lower(s)", pa.string()), ("s", pa.string())])
    assert evaluate_statistics(bind(parse("`lower(s)` = 'abc'"), named_so), known) is Match.MAYBE


def test_partition_values_decide_functions_of_them() -> None:
    bound = bind(parse("year(d) = 2020 AND n > 5"), SCHEMA)
    assert evaluate_partition(bound, {"d": date(2021, 1, 1)}) is Match.NO
    assert evaluate_partition(bound, {"d": date(2020, 1, 1)}) is Match.MAYBE
    assert evaluate_partition(bound, {"d": None}) is Match.NO
    assert evaluate_partition(bound, {"n": 9}) is Match.MAYBE


def test_function_of_a_column_without_type_is_unknown() -> None:
    schema = pa.schema([("x", pa.null())])
    assert evaluate(bind(parse("year(x) = 5"), schema), pa.table({"x": pa.nulls(2)})).to_pylist() == [None, None]
