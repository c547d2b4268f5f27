"""Bound trees on batches: Spark's casts, NULL logic and NaN order."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spec.expression_cases import SCHEMA, expected, random_table, trees

from headwater.errors import ColumnNotFound, InvalidExpression
from headwater.spec.expressions import Expression, bind, col, evaluate, filter_batch, parse

NAN = math.nan


def rows(filter_: str | Expression, values: Any, type_: pa.DataType | None = None) -> list[Any]:
    """What the filter gives for each value of a column x."""
    batch = pa.record_batch([pa.array(values, type_)], ["x"])
    tree = parse(filter_) if isinstance(filter_, str) else filter_
    return evaluate(bind(tree, batch.schema), batch).to_pylist()  # type: ignore[no-any-return]


@settings(max_examples=400, deadline=None)
@given(trees(), st.integers(0, 2**32), st.integers(0, 6), st.booleans())
def test_evaluate_agrees_with_a_row_by_row_reference(tree: Expression, seed: int, count: int, batched: bool) -> None:
    table = random_table(seed, count)
    bound = bind(tree, SCHEMA)
    wanted = [expected(tree, row) for row in table.to_pylist()]
    if batched and count:
        (batch,) = table.combine_chunks().to_batches()
        assert evaluate(bound, batch).to_pylist() == wanted
    else:
        assert evaluate(bound, table).to_pylist() == wanted
    assert filter_batch(bound, table).num_rows == wanted.count(True)


def test_nan_equals_itself_and_is_greater_than_every_number() -> None:
    prices = [5.0, NAN, None, math.inf]
    assert rows("x > 500", prices) == [False, True, None, True]
    assert rows("x < 500", prices) == [True, False, None, False]
    assert rows(col("x") == NAN, prices) == [False, True, None, False]
    assert rows(col("x").is_in([NAN, 5.0]), prices) == [True, True, None, False]
    assert rows(col("x") <= NAN, prices) == [True, True, None, True]
    assert rows("isnan(x)", prices) == [False, True, False, False]
    assert rows("NOT isnan(x)", prices) == [True, False, True, True]


def test_both_zeros_are_equal() -> None:
    assert rows("x = 0", [0.0, -0.0]) == [True, True]
    assert rows("x IN (-0.0D, 7)", [0.0, -0.0]) == [True, True]
    assert rows("x < 0", [-0.0]) == [False]


def test_integer_column_compares_with_a_fraction_by_value() -> None:
    assert rows("x > 2.5", [2, 3, None]) == [False, True, None]
    assert rows("x = 2.5", [2, 3, None]) == [False, False, None]
    assert rows("NOT x = 2.5", [2, 3, None]) == [True, True, None]
    assert rows("x <= 2.5", [2, 3, None]) == [True, False, None]
    assert rows("x <=> 2.5", [2, None]) == [False, False]
    assert rows("x IN (2.5, 3.0)", [2, 3, None]) == [False, True, None]


def test_literal_out_of_the_type_s_range_decides_all_rows_that_have_a_value() -> None:
    assert rows("x < 300", [1, None], pa.int8()) == [True, None]
    assert rows("x > 300", [1, None], pa.int8()) == [False, None]
    assert rows("x != 300", [1, None], pa.int8()) == [True, None]
    assert rows("x > -1", [1, None], pa.uint8()) == [True, None]
    assert rows(col("x") < math.inf, [1, None]) == [True, None]


def test_decimal_literal_beyond_the_column_s_scale_is_never_equal() -> None:
    amounts = [Decimal("1.001"), Decimal("1.002"), None]
    type_ = pa.decimal128(10, 3)
    assert rows("x = 1.001", amounts, type_) == [True, False, None]
    assert rows("x = 1.0015", amounts, type_) == [False, False, None]
    assert rows("x > 1.0015", amounts, type_) == [False, True, None]
    assert rows("x < 99999999999", amounts, type_) == [True, True, None]


def test_decimal_column_compares_with_floating_literal_as_double() -> None:
    assert rows("x = 1.1D", [Decimal("1.10"), Decimal("1.11")], pa.decimal128(5, 2)) == [True, False]
    near = [Decimal("1.000000000000000001")]
    assert rows("x = 1", near, pa.decimal128(38, 18)) == [False]
    assert rows("x = '1'", near, pa.decimal128(38, 18)) == [True]


def test_long_column_compares_with_large_floating_literal_as_double() -> None:
    assert rows("x = 9007199254740992D", [2**53, 2**53 + 1, 2**53 + 2]) == [True, True, False]


def test_single_precision_column_compares_with_decimal_literal_as_double() -> None:
    assert rows("x = 0.1", [0.1], pa.float32()) == [False]
    assert rows("x > 0.1", [0.1], pa.float32()) == [True]
    assert rows("x = 0.1F", [0.1], pa.float32()) == [True]
    assert rows("x < 1e300", [1.0, math.inf, NAN], pa.float32()) == [True, False, False]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamp_text_without_zone_is_utc(unit: str, zone: str | None) -> None:
    stamps = pa.array([0, 1, None], pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    stamps = (
        stamps.cast(pa.timestamp(unit, zone))
        if zone is None
        else stamps.cast(pa.int64()).cast(pa.timestamp(unit, zone))
    )
    assert rows("x = '1970-01-01 00:00:01'", stamps) == [False, True, None]
    assert rows("x = '1970-01-01 02:00:01+02:00'", stamps) == [False, True, None]
    assert rows("x > '1970-01-01 00:00:00.5'", stamps) == [False, True, None]
    assert rows("x <= '1970-01-01 00:00:00.5'", stamps) == [True, False, None]
    assert rows("x >= DATE '1970-01-01'", stamps) == [True, True, None]
    assert rows("x < DATE '9999-12-31'", stamps) == [True, True, None]


def test_date_column_compares_with_text_and_timestamps() -> None:
    days = [date(2024, 1, 2), date(2024, 1, 3), None]
    assert rows("x = '2024-01-02'", days) == [True, False, None]
    assert rows("x > TIMESTAMP '2024-01-02 12:00:00'", days) == [False, True, None]
    assert rows("x LIKE '2024-01-02%'", days) == [True, False, None]
    assert rows("x = '2024-01-02'", pa.array(days, pa.date64())) == [True, False, None]


def test_number_literal_casts_a_string_column() -> None:
    texts = ["5", " 5.9", "five", "", None, "99999999999999999999"]
    assert rows("x = 5", texts) == [True, True, None, None, None, None]
    assert rows("x > 5.5", texts) == [False, True, None, None, None, True]
    assert rows("NOT x = 5", texts) == [False, False, None, None, None, None]


def test_string_column_compares_with_date_timestamp_boolean_and_bytes() -> None:
    texts = ["2024-01-02", "2024-01-02 10:00:00", "yes", None]
    assert rows("x = DATE '2024-01-02'", texts) == [True, True, None, None]
    assert rows("x > TIMESTAMP '2024-01-02 09:00:00'", texts) == [False, True, None, None]
    assert rows("x = TRUE", texts) == [None, None, True, None]
    assert rows("x = X'796573'", texts) == [False, False, True, None]


def test_comparison_with_null_is_unknown_except_null_safe() -> None:
    assert rows("x = NULL", [1, None]) == [None, None]
    assert rows("NOT x < NULL", [1, None]) == [None, None]
    assert rows("x <=> NULL", [1, None]) == [False, True]
    assert rows("x IN (1, NULL)", [1, 2, None]) == [True, None, None]
    assert rows("x NOT IN (1, NULL)", [1, 2, None]) == [False, None, None]
    assert rows("x = 1", pa.nulls(2)) == [None, None]
    assert rows("x IS NULL", pa.nulls(2)) == [True, True]


@pytest.mark.parametrize(
    "type_",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
        pa.run_end_encoded(pa.int32(), pa.string()),
    ],
)
def test_every_encoding_of_text_can_be_filtered(type_: pa.DataType) -> None:
    texts = pa.array(["sf", "nyc", None])
    values = pa.compute.run_end_encode(texts) if pa.types.is_run_end_encoded(type_) else texts.cast(type_)
    assert rows("x = 'sf'", values) == [True, False, None]
    assert rows("x IN ('sf', 'la')", values) == [True, False, None]
    assert rows("x > 'o'", values) == [True, False, None]
    assert rows("startswith(x, 's')", values) == [True, False, None]
    assert rows("x LIKE '_y%'", values) == [False, True, None]


def test_booleans_bytes_times_and_unsigned_numbers_compare() -> None:
    assert rows("x < TRUE", [True, False, None]) == [False, True, None]
    assert rows("x", [True, False, None]) == [True, False, None]
    assert rows("x >= X'62'", [b"a", b"b", b"\xff"]) == [False, True, True]
    assert rows("x > X'61'", [b"ab", b"a\x00"], pa.binary(2)) == [True, True]
    assert rows("x = '10:00'", [time(10), time(11)]) == [True, False]
    assert rows("x > TIME '10:00:00.5'", [time(10), time(11)], pa.time32("s")) == [False, True]
    assert rows("x = 18446744073709551615", [2**64 - 1], pa.uint64()) == [True]
    assert rows("x = 2.5", [2.5], pa.float16()) == [True]


def test_nested_field_of_a_null_struct_is_null() -> None:
    table = pa.table({"a": [{"b": {"c": 1}}, {"b": None}, None]})
    assert evaluate(bind(parse("A.b.C = 1"), table.schema), table).to_pylist() == [True, None, None]
    assert evaluate(bind(parse("a.b IS NULL"), table.schema), table).to_pylist() == [False, True, True]


def test_like_matches_line_breaks_and_characters_of_regular_expressions() -> None:
    assert rows("x LIKE 'a%.z_'", ["a\n.z(", "a\nbz(", "a.z"]) == [True, False, False]
    assert rows(r"x LIKE '10\%%'", ["10%", "10", "10%x"]) == [True, False, True]
    assert rows("x LIKE '_'", ["é", "\U0001f600", "ab"]) == [True, True, False]
    with pytest.raises(InvalidExpression, match="escape"):
        rows("x LIKE 'a!b%' ESCAPE '!'", ["a"])


def test_comparison_of_constants_is_decided_when_bound() -> None:
    schema = pa.schema([("x", pa.int64())])
    for text, result in {
        "1 = 1": "TRUE",
        "1 = 2.0": "FALSE",
        "'5' < 7": "TRUE",
        "NULL = 1": "NULL",
        "NULL <=> NULL": "TRUE",
        "DATE '2024-01-02' = '2024-01-02'": "TRUE",
        "x = 1 AND 1 = 1": "x = 1",
        "100000000000000000000 > 5": "TRUE",
        "CAST('NaN' AS DOUBLE) > 1e300": "TRUE",
    }.items():
        assert str(bind(parse(text), schema)) == result


def test_chain_of_ten_thousand_equalities_becomes_one_lookup() -> None:
    tree = parse(" OR ".join(f"x = {number}" for number in range(10_000)))
    assert rows(tree, [5, 10_000, None]) == [True, False, None]
    mixed = parse(" OR ".join(f"x > {number} AND x < {number}" for number in range(10_000, 11_000)))
    assert rows(mixed, [5]) == [False]


def test_exact_name_wins_and_other_case_is_found_unless_ambiguous() -> None:
    schema = pa.schema([("Fare", pa.int8()), ("fare", pa.int64()), ("City", pa.string())])
    assert bind(parse("fare = 300"), schema) == bind(parse("fare = 300.0"), schema)
    assert str(bind(parse("CITY = 'sf'"), schema)) == "City = 'sf'"
    with pytest.raises(InvalidExpression, match="ambiguous"):
        bind(parse("FARE = 1"), schema)


def test_unknown_column_names_close_matches_and_all_columns() -> None:
    schema = pa.schema([("fare", pa.int64()), ("rider", pa.struct([("age", pa.int8())]))])
    with pytest.raises(ColumnNotFound, match=r"no column fair; Did you mean fare\? the columns are: fare, rider"):
        bind(parse("fair = 1"), schema)
    with pytest.raises(ColumnNotFound, match="struct rider has the fields: age"):
        bind(parse("rider.name = 'x'"), schema)
    with pytest.raises(InvalidExpression, match="fare is int64, not a struct"):
        bind(parse("fare.x = 1"), schema)


@pytest.mark.parametrize(
    ("filter_", "type_"),
    [
        ("x = 'abc'", pa.int64()),
        ("x = '5.5'", pa.int64()),
        ("x = DATE '2024-01-02'", pa.int64()),
        ("x = 5", pa.timestamp("us")),
        ("x = 5", pa.date32()),
        ("x = 'soon'", pa.date32()),
        ("x = 5", pa.bool_()),
        ("x = TRUE", pa.int64()),
        ("x = 5", pa.list_(pa.int64())),
        ("x = 'a'", pa.struct([("y", pa.string())])),
        ("x = TIME '10:00'", pa.string()),
    ],
)
def test_types_that_cannot_be_compared_are_named(filter_: str, type_: pa.DataType) -> None:
    with pytest.raises(InvalidExpression) as caught:
        bind(parse(filter_), pa.schema([("x", type_)]))
    assert "cannot compare x of type" in str(caught.value)
    assert str(type_) in str(caught.value)


def test_columns_that_cannot_be_compared_are_named() -> None:
    schema = pa.schema([("x", pa.int64()), ("day", pa.date32())])
    with pytest.raises(InvalidExpression, match="cannot compare x of type int64 with day of type date32"):
        bind(parse("x = day"), schema)
    with pytest.raises(InvalidExpression, match="not boolean"):
        bind(parse("x"), schema)
    with pytest.raises(InvalidExpression, match="only text"):
        bind(col("y").like("a%"), pa.schema([("y", pa.float64())]))


def test_unbound_tree_and_missing_column_are_refused() -> None:
    batch = pa.record_batch({"x": [1]})
    with pytest.raises(InvalidExpression, match="bind"):
        evaluate(parse("x = 1"), batch)
    with pytest.raises(ColumnNotFound, match="no column x"):
        evaluate(bind(parse("x = 1"), batch.schema), pa.record_batch({"y": [1]}))


def test_data_may_be_narrower_or_encoded_otherwise_than_the_bound_schema() -> None:
    bound = bind(parse("x IN (1, 300) AND s = 'a'"), pa.schema([("x", pa.int64()), ("s", pa.string())]))
    batch = pa.record_batch({"x": pa.array([1, 2], pa.int8()), "s": pa.array(["a", "a"]).dictionary_encode()})
    assert evaluate(bound, batch).to_pylist() == [True, False]
    with pytest.raises(InvalidExpression, match="bound as int64 and is string"):
        evaluate(bound, pa.record_batch({"x": ["1"], "s": ["a"]}))


def test_text_that_is_no_number_is_null_beside_a_column_of_numbers() -> None:
    table = pa.table({"s": ["five", "5"], "n": pa.array([None, 5], pa.int64())})
    assert evaluate(bind(parse("s <=> n"), table.schema), table).to_pylist() == [True, True]


def test_moment_literals_from_python_keep_their_zone() -> None:
    stamps = pa.array([0], pa.timestamp("us", "UTC"))
    assert rows(col("x") == datetime(1970, 1, 1, tzinfo=timezone.utc), stamps) == [True]
    assert rows(col("x") == datetime(1970, 1, 1), stamps) == [True]
