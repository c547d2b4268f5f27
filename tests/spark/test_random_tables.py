"""Tables of hostile values, queried by every path: Spark gives what it gives on rows that it holds itself.

NaN and both zeros, infinities, characters beyond 16 bits, texts that share long beginnings, dates before 1970,
decimals of both widths, columns that are null throughout. Tables and queries come from a seed;
HEADWATER_FILTER_SEED=<number> makes others, HEADWATER_SQL_TABLES=<number> and HEADWATER_SQL_QUERIES=<number> more.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.fixtures.random_filters import FilterMaker
from tests.spark.session import PATHS, load, rows, spark, using

import headwater

SEED = int(os.environ.get("HEADWATER_FILTER_SEED", "20260101"))
TABLES = int(os.environ.get("HEADWATER_SQL_TABLES", "2"))
QUERIES = int(os.environ.get("HEADWATER_SQL_QUERIES", "5"))
SCHEMA = pa.schema([
    ("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("any", pa.float64()), ("rising", pa.float64()),
    ("single", pa.float32()), ("zero", pa.float64()), ("text", pa.string()), ("bytes", pa.binary()),
    ("few", pa.int64()), ("narrow", pa.decimal128(9, 3)), ("wide", pa.decimal128(30, 10)), ("day", pa.date32()),
    ("at", pa.timestamp("us", "UTC")), ("flag", pa.bool_()), ("empty", pa.int64()),
    ("inside", pa.struct([("x", pa.float64()), ("a", pa.int64()), ("t", pa.string())])),
    ("many", pa.list_(pa.int32())),
])  # fmt: skip
OLDER = pa.schema([
    field.with_type({"few": pa.int32(), "inside": pa.struct([("x", pa.float64())])}.get(field.name, field.type))
    for field in SCHEMA
    if field.name not in ("text", "flag")
])  # fmt: skip
"""What some tables begin with: fewer columns, fewer fields in a struct, a narrower number."""
SQL = {
    "single": "FLOAT",
    "narrow": "DECIMAL(9,3)",
    "wide": "DECIMAL(30,10)",
    "day": "DATE",
    "at": "TIMESTAMP",
    "flag": "BOOLEAN",
    "bytes": "BINARY",
    "inside": "STRUCT<x: DOUBLE, a: BIGINT, t: STRING>",
    "many": "ARRAY<INT>",
    **dict.fromkeys(("id", "p", "text"), "STRING"),
    **dict.fromkeys(("ts", "few", "empty"), "BIGINT"),
    **dict.fromkeys(("any", "rising", "zero"), "DOUBLE"),
}
NUMBERS = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.5, -1.5, 5e-324, 1e300, 2.0**53]
TEXTS = ["", " ", "a", "A", "é", "\ufffd", "\U0001f600", "\U0001f600z", "x" * 300 + "1", "x" * 300 + "2", "%_\\", "a'b"]
DAYS = [date(1, 1, 2), date(1582, 10, 4), date(1582, 10, 15), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 30)]
DECIMALS = [Decimal("0.000"), Decimal("-0.001"), Decimal("999999.999"), Decimal("-999999.999"), Decimal("12.500")]


class Hostile:
    """Rows of a seed: a column is either all over its values, sorted, or one value only."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.moods = {name: self.draw.choice(["mixed", "mixed", "sorted", "one", "sparse"]) for name in SCHEMA.names}

    def rows(self, keys: list[int], ts: int, schema: pa.Schema = SCHEMA) -> pa.Table:
        columns = {
            "id": [f"k{key:07d}" for key in keys],
            "p": [f"p{key % 3}" for key in keys],
            "ts": [ts] * len(keys),
            "rising": [float("nan") if key % 100 > 97 else float(key) for key in keys],
            "empty": [None] * len(keys),
        }
        for name in SCHEMA.names:
            if name not in columns:
                columns[name] = self.column(name, len(keys))
        if schema is SCHEMA:
            columns["few"] = [one and one * self.draw.choice([1, 2**31]) for one in columns["few"]]
        else:
            columns["inside"] = [one and {"x": one["x"]} for one in columns["inside"]]
        return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)

    def column(self, name: str, count: int) -> list[Any]:
        mood = self.moods[name]
        if mood == "one":
            return [self.value(name)] * count
        found = [self.value(name) for _ in range(count)]
        if mood == "sorted" and name not in ("inside", "many"):
            found.sort(key=repr)
        holes = {"mixed": 0.1, "sorted": 0.0, "sparse": 0.9}[mood]
        return [None if self.draw.random() < holes else value for value in found]

    def value(self, name: str) -> Any:
        draw = self.draw
        match name:
            case "any":
                return draw.choice([*NUMBERS, draw.uniform(-10, 10)])
            case "single":
                return draw.choice([float("nan"), 0.0, -0.0, 0.1, 2.5, float("inf"), float(draw.randint(0, 5))])
            case "zero":
                return draw.choice([0.0, -0.0] if self.moods[name] == "mixed" else [-0.0])
            case "text":
                return draw.choice([*TEXTS, f"t{draw.randint(0, 1000)}"])
            case "bytes":
                return draw.choice([b"", b"\x00", b"\x7f", b"\x80", b"\xff" * 70, bytes([draw.randint(0, 255)])])
            case "few":
                return draw.choice([0, 1, -1, 2**31 - 1, -(2**31), draw.randint(-5, 5)])
            case "narrow":
                return draw.choice([*DECIMALS, Decimal(draw.randint(-9999, 9999)).scaleb(-3)])
            case "wide":
                return draw.choice([*DECIMALS, Decimal(draw.randint(-(10**29), 10**29)).scaleb(-10)])
            case "day":
                return draw.choice([*DAYS, date(2024, 1, 1) + timedelta(draw.randint(0, 99))])
            case "at":
                start = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
                return start + timedelta(microseconds=draw.choice([0, 1, 2, draw.randint(0, 10**12)]))
            case "flag":
                return draw.choice([True, False])
            case "many":
                return [draw.choice([None, 1, 2]) for _ in range(draw.randint(0, 3))]
            case "inside":
                return {
                    "a": draw.choice([None, draw.randint(0, 9)]),
                    "x": draw.choice([None, *NUMBERS]),
                    "t": draw.choice([None, *TEXTS]),
                }
        raise AssertionError(name)


def make(path: Path, seed: int) -> str:
    """A table of some commits, and what it is."""
    draw = random.Random(seed)
    hostile = Hostile(seed)
    kind, version = draw.choice(["cow", "mor", "mor"]), draw.choice([6, 8, 9])
    count = draw.choice([40, 2_000, 2_000, 20_000])
    first = draw.choice([SCHEMA, OLDER])
    table = headwater.create(
        path,
        schema=first,
        key="id",
        ordering="ts",
        partition_by=draw.choice([(), "p"]),
        kind=kind,
        version=version,
    )
    table.bulk_insert(hostile.rows(list(range(count)), 1, first))
    for ts in range(2, draw.randint(2, 4)):
        changed = draw.sample(range(count), max(1, count // draw.choice([2, 10, 100])))
        table.upsert(hostile.rows(changed, ts))
    if first is OLDER:
        table.bulk_insert(hostile.rows(list(range(count, count + 9)), 4))
    gone = draw.sample(range(count), count // 50)
    if gone and draw.random() < 0.5:
        table.delete(hostile.rows(gone, 9).select(["id", "p", "ts"]))
    return f"{kind}, version {version}, {count} rows, {'evolved, ' if first is OLDER else ''}{hostile.moods}"


def counted(frame: DataFrame, label: str) -> Counter[str]:
    found = Counter(map(repr, rows(frame).to_pylist()))
    # Which zero is the smaller one is left to the order of the rows.
    return found if not label.startswith("[") else Counter([row.replace("-0.0", "0.0") for row in found.elements()])


def held(session: SparkSession, whole: pa.Table) -> DataFrame:
    columns = ", ".join(f"{name} {SQL[name]}" for name in whole.column_names)
    return session.createDataFrame([tuple(row.values()) for row in whole.to_pylist()], columns).cache()


def aggregates(draw: random.Random, condition: str | None) -> tuple[str, Any]:
    """COUNT, MIN and MAX, of which metadata, footers and slices may answer parts."""
    groups = draw.choice([[], [], ["p"], ["few"]])
    simple = [name for name in SCHEMA.names if name not in ("inside", "many")]
    names = draw.sample(simple, 3)
    functions = ["count(*) AS n"]
    functions += [f"{f}({name}) AS {f}_{name}" for name in names for f in ("count", "min", "max")]

    def query(frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        kept = frame if condition is None else frame.where(condition)
        return kept.groupBy(*groups).agg(*map(f.expr, functions))

    return f"{functions} by {groups} where {condition}", query


def within(draw: random.Random) -> tuple[str, Any]:
    """Fields of a struct alone, of rows whose struct is there or not: older files lack some of its fields."""
    fields = draw.sample(["a", "x", "t"], draw.randint(1, 2))
    condition = draw.choice(["inside IS NULL", "inside IS NOT NULL", f"inside.{fields[0]} IS NULL", "id IS NOT NULL"])

    def query(frame: DataFrame) -> DataFrame:
        return frame.where(condition).select("id", *[f"inside.{name}" for name in fields])

    return f"{fields} where {condition}", query


def first_rows(draw: random.Random, condition: str | None) -> tuple[str, Any]:
    """The first of an order that leaves no choice: the key comes last in it."""
    names = draw.sample([name for name in SCHEMA.names if name not in ("id", "inside", "many")], 2)
    order = [(name, f"{draw.choice(['asc', 'desc'])}_nulls_{draw.choice(['first', 'last'])}") for name in names]
    limit = draw.choice([1, 3, 50])

    def query(frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        kept = frame if condition is None else frame.where(condition)
        return (
            kept.select(*names, "id").orderBy(*(getattr(f.col(name), way)() for name, way in order), "id").limit(limit)
        )

    return f"{limit} by {order}, id where {condition}", query


@pytest.mark.parametrize("number", range(TABLES))
def test_queries(number: int, tmp_path: Path) -> None:
    seed = SEED * 1000 + number
    told = make(tmp_path / "table", seed)
    session, path = spark(), str(tmp_path / "table")
    whole = headwater.open(path).scan(columns=SCHEMA.names).to_arrow()
    plain = held(session, whole)
    maker = FilterMaker(whole, seed, prefer=["any", "single", "zero", "text", "p", "inside"])
    queries: list[tuple[str, Any]] = [("everything", lambda f: f.select(*SCHEMA.names))]
    for _ in range(QUERIES):
        condition, columns = str(maker.filter()), maker.columns() or SCHEMA.names
        queries.append((condition, lambda f, w=condition, s=columns: f.where(w).select(*s)))
        queries.append(aggregates(maker.random, maker.random.choice([None, condition])))
        queries.append(first_rows(maker.random, maker.random.choice([None, None, condition])))
        queries.append(within(maker.random))
    ways = [(way, {}) for way in PATHS]
    ways.append(("dsv2", {"split-size": "40000"}))
    found = []
    for label, query in queries:
        expected = counted(query(plain), label)
        for way, options in ways:
            with using(way) as reading:
                try:
                    got = counted(query(load(reading, path, **options)), label)
                except Exception as error:
                    found.append(f"{way} {options}: {label}: {type(error).__name__}: {str(error)[:300]}")
                    continue
            if got != expected:
                found.append(f"{way} {options}: {label}: {list(got - expected)[:2]}, not {list(expected - got)[:2]}")
    plain.unpersist()
    assert not found, f"{told}: {len(found)} queries differ:\n" + "\n".join(found)
