"""Spark's predicates: what of them is understood, and how far each is relied on."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.spark.sidecar.predicates import PartitionValues, classify
from headwater.spec.expressions import bind, filter_batch

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("f", pa.float32()),
        ("x", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("clock", pa.time64("us")),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))])),
        ("tags", pa.list_(pa.string())),
        ("city", pa.string()),
        ("year", pa.int32()),
        ("ratio", pa.float64()),
    ]
)
PARTITIONS = PartitionValues(
    pa.table(
        {
            "city": pa.array(["sf", "nyc", None]),
            "year": pa.array([2024, 2025, 2025], pa.int32()),
            "ratio": pa.array([0.5, 0.5, 1.0]),
        }
    )
)


def col(*path: str) -> dict[str, Any]:
    return {"col": list(path)}


def lit(value: Any, kind: str) -> dict[str, Any]:
    return {"lit": value, "type": kind}


def op(name: str, *args: Any, **more: Any) -> dict[str, Any]:
    return {"op": name, "args": list(args), **more}


def kind_of(predicate: Any) -> str:
    return classify(predicate, SCHEMA, PARTITIONS).kind


def matching(predicate: Any, column: str, values: list[Any]) -> list[Any]:
    """The values of a column that a predicate keeps."""
    expression = classify(predicate, SCHEMA, PARTITIONS).expression
    assert expression is not None
    schema = pa.schema([SCHEMA.field(column)])
    table = pa.table({column: pa.array(values, SCHEMA.field(column).type)})
    found: list[Any] = filter_batch(bind(expression, schema), table).column(column).to_pylist()
    return found


@pytest.mark.parametrize(
    "predicate",
    [
        op("=", col("city"), lit("sf", "string")),
        op("=", lit("sf", "string"), col("city")),
        op("IN", col("year"), lit(2024, "integer"), lit(2025, "integer")),
        op("IS_NULL", col("city")),
        op("IS_NOT_NULL", col("city")),
        op("STARTS_WITH", col("city"), lit("s", "string")),
        op("NOT", op("CONTAINS", col("city"), lit("y", "string"))),
        op("AND", op(">", col("year"), lit(2020, "integer")), op("<=>", col("city"), lit(None, "string"))),
        op("OR", op("=", col("year"), lit(2024, "integer")), op("ENDS_WITH", col("city"), lit("c", "string"))),
        op("=", op("CAST", col("year"), type="long"), lit(2024, "long")),
    ],
)
def test_predicates_on_partition_columns_are_pushed_in_full(predicate: Any) -> None:
    assert kind_of(predicate) == "full"


@pytest.mark.parametrize(
    "predicate",
    [
        op("=", col("id"), lit(5, "long")),
        op("=", op("CAST", col("n"), type="long"), lit(5, "long")),
        op(">", op("CAST", col("n"), type="double"), lit(5.5, "double")),
        op(">", op("CAST", col("n"), type="decimal(12,2)"), lit("5.50", "decimal(12,2)")),
        op(">", op("CAST", col("price"), type="decimal(12,4)"), lit("5.5000", "decimal(12,4)")),
        op("=", col("s", "a"), lit(1, "integer")),
        op("=", col("s", "b", "c"), lit("x", "string")),
        op("IS_NULL", col("s")),
        op("IS_NOT_NULL", col("tags")),
        op("=", col("at"), lit(0, "timestamp")),
        op("=", col("local"), lit(0, "timestamp_ntz")),
        op("=", col("day"), lit(0, "date")),
        op("=", col("raw"), lit("YWI=", "binary")),
        op("=", col("id"), col("id")),
        col("flag"),
        op("NOT", col("flag")),
        op("=", col("ratio"), lit(0.5, "double")),
        op("OR", op("=", col("city"), lit("sf", "string")), op("=", col("id"), lit(5, "long"))),
    ],
)
def test_predicates_on_other_columns_are_pushed_in_part(predicate: Any) -> None:
    assert kind_of(predicate) == "partial"


@pytest.mark.parametrize(
    "predicate",
    [
        None,
        op("=", col("nobody"), lit(5, "long")),
        op("=", op("CAST", col("id"), type="double"), lit(5.0, "double")),
        op("=", op("CAST", col("id"), type="integer"), lit(5, "integer")),
        op("=", op("CAST", col("id"), type="string"), lit("5", "string")),
        op("=", op("CAST", col("day"), type="timestamp"), lit(0, "timestamp")),
        op("=", op("CAST", col("name"), type="date"), lit(0, "date")),
        op("=", col("clock"), lit(0, "long")),
        op("=", col("at"), lit(0, "timestamp_ntz")),
        op("=", col("name"), lit("x", "string collate UNICODE_CI")),
        op("=", col("tags"), lit("x", "string")),
        op("=", col("at"), lit(2**63 - 1, "timestamp")),
        op("=", lit(1, "integer"), lit(1, "integer")),
        op("RLIKE", col("name"), lit("x", "string")),
        op("OR", op("=", col("id"), lit(5, "long")), op("RLIKE", col("name"), lit("x", "string"))),
        op("NOT", op("AND", op("=", col("id"), lit(5, "long")), op("RLIKE", col("name"), lit("x", "string")))),
        {"op": "="},
        {"op": "=", "args": [col("id")]},
        {"col": []},
        5,
    ],
)
def test_what_is_not_certain_is_not_pushed(predicate: Any) -> None:
    assert kind_of(predicate) == "none"


def test_of_an_and_the_clear_part_is_pushed() -> None:
    unclear = op("RLIKE", col("name"), lit("x", "string"))
    found = classify(op("AND", op("=", col("city"), lit("sf", "string")), unclear), SCHEMA, PARTITIONS)
    assert found.kind == "partial"
    assert str(found.expression) == "city = 'sf'"


def test_a_table_without_partitions_has_no_full_predicates() -> None:
    nothing = PartitionValues(pa.table({}))
    assert classify(op("=", col("city"), lit("sf", "string")), SCHEMA, nothing).kind == "partial"
    assert classify(op("ALWAYS_TRUE"), SCHEMA, nothing).kind == "partial"


NAN = math.nan


@pytest.mark.parametrize(
    ("predicate", "column", "values", "kept"),
    [
        # What a float is as a double, not what it was written as.
        (op("=", op("CAST", col("f"), type="double"), lit(0.1, "double")), "f", [0.1, 0.5], []),
        (op(">", op("CAST", col("f"), type="double"), lit(0.1, "double")), "f", [0.1, 0.05], [float(np.float32(0.1))]),
        (op("=", op("CAST", col("f"), type="double"), lit(0.5, "double")), "f", [0.1, 0.5], [0.5]),
        (op(">", col("x"), lit(1.0, "double")), "x", [0.5, 2.0, None, math.inf], [2.0, math.inf]),
        (op("=", col("x"), lit(-0.0, "double")), "x", [0.0, 1.0], [0.0]),
        (op(">", op("CAST", col("n"), type="double"), lit(5.5, "double")), "n", [5, 6, None], [6]),
        (op("<>", col("name"), lit("a", "string")), "name", ["a", "b", None], ["b"]),
        (op("<=>", col("name"), lit(None, "string")), "name", ["a", None], [None]),
        (op("=", col("name"), lit(None, "string")), "name", ["a", None], []),
        (op("NOT", op("IN", col("n"), lit(1, "integer"), lit(None, "integer"))), "n", [1, 2, None], []),
        (op("IN", col("n"), lit(1, "integer"), lit(None, "integer")), "n", [1, 2, None], [1]),
        (op("=", col("day"), lit(19723, "date")), "day", [date(2024, 1, 1), date(2024, 1, 2)], [date(2024, 1, 1)]),
        (
            op(">=", col("at"), lit(1_000_000, "timestamp")),
            "at",
            [datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc), datetime(1970, 1, 1, tzinfo=timezone.utc)],
            [datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)],
        ),
        (
            op("<", col("price"), lit("5.00", "decimal(9,2)")),
            "price",
            [Decimal("4.99"), Decimal("5")],
            [Decimal("4.99")],
        ),
        (op("=", col("raw"), lit("YWI=", "binary")), "raw", [b"ab", b"a"], [b"ab"]),
        (op("STARTS_WITH", col("name"), lit("", "string")), "name", ["a", None], ["a"]),
        (col("flag"), "flag", [True, False, None], [True]),
    ],
)
def test_rows_are_kept_as_spark_keeps_them(predicate: Any, column: str, values: list[Any], kept: list[Any]) -> None:
    assert matching(predicate, column, values) == kept


def test_nan_is_the_greatest_number() -> None:
    found = matching(op(">", col("x"), lit(math.inf, "double")), "x", [1.0, NAN])
    assert len(found) == 1
    assert math.isnan(found[0])
    assert len(matching(op("=", col("x"), lit("NaN", "double")), "x", [1.0, NAN])) == 1
