"""Literals that are easily made others on the way to a file: rows must be those that Spark finds by itself."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.functions import lit
from tests.spark.session import load, spark, using

import headwater

UTC = dt.timezone.utc
MOMENTS = [
    dt.datetime(1582, 10, 11, tzinfo=UTC),  # a day that the calendar of java.sql does not have
    dt.datetime(1, 1, 1, 1, tzinfo=UTC),
    dt.datetime(1883, 11, 18, 19, 56, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    dt.datetime(2026, 1, 1, tzinfo=UTC),
]
FLOATS = [0.1, 0.7, 2.5, -0.3]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("part", pa.int32()),
        ("f", pa.float32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
    ]
)
COMPARISONS = ("=", "<", "<=", ">", ">=", "<>")


def row(i: int, ts: int = 1) -> dict[str, object]:
    at = MOMENTS[i % 5]
    f, part = FLOATS[i % 4], i % 10  # alike rows lie together, so that statistics rule files out
    return {"id": i, "ts": ts, "part": part, "f": f, "at": at, "local": at.replace(tzinfo=None), "day": at.date()}


@pytest.fixture(scope="module", params=["cow", "mor"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("exact") / request.param
    made = headwater.create(path, schema=SCHEMA, key="id", ordering="ts", partition_by="part", kind=request.param)
    made.insert(pa.Table.from_pylist([row(i) for i in range(40)], SCHEMA))
    made.index.create("column_stats")
    if request.param == "mor":
        made.upsert(pa.Table.from_pylist([row(i, 2) for i in range(0, 40, 3)], SCHEMA))
    return str(path)


def conditions() -> list[str]:
    found = [f"f {op} float({value})" for op in COMPARISONS for value in FLOATS[:2]]
    found += ["f IN (float(0.1), float(0.7))", "NOT (f = float(0.1) OR f > float(0.7))", "f <=> float(0.7)"]
    for moment in MOMENTS:
        text = moment.strftime("%m-%d %H:%M:%S.%f")
        year = f"{moment.year:04d}"
        for op in ("=", "<"):
            found.append(f"at {op} timestamp'{year}-{text}'")
            found.append(f"local {op} timestamp_ntz'{year}-{text}'")
            found.append(f"day {op} date'{year}-{text[:5]}'")
    return found


def counts(frame: DataFrame, asked: list[str]) -> dict[str, int]:
    """How many rows match each condition, each of them in a scan of its own."""
    found = {}
    for start in range(0, len(asked), 10):
        some = asked[start : start + 10]
        scans = [frame.where(one).select("id", lit(number).alias("n")) for number, one in enumerate(some)]
        matching = Counter(each["n"] for each in reduce(DataFrame.union, scans).collect())
        found |= {one: matching[number] for number, one in enumerate(some)}
    return found


@pytest.mark.parametrize("way", ["dsv2", "merge"])
def test_filters_on_floats_and_old_times_find_what_spark_finds(table: str, way: str) -> None:
    with using(way) as session:
        plain = load(session, table).select(*SCHEMA.names).cache()
        expected = counts(plain, conditions())
        plain.unpersist()
        found = counts(load(session, table), conditions())
    assert {c: n for c, n in found.items() if n != expected[c]} == {}
    assert expected["f = float(0.1)"] == 10
    assert expected["day = date'1582-10-11'"] == 8


def test_rows_of_a_float_are_deleted_by_their_value(tmp_path: Path) -> None:
    path = tmp_path / "t"
    made = headwater.create(path, schema=SCHEMA, key="id", ordering="ts", partition_by="part")
    made.insert(pa.Table.from_pylist([row(i) for i in range(8)], SCHEMA))
    spark().sql(f"DELETE FROM headwater.`{path}` WHERE f = float(0.1)")
    assert sorted(headwater.open(path).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 5, 6, 7]


@pytest.mark.parametrize(
    "condition", ["at < {}", "at <= {}", "at <> {}", "at NOT IN ({})", "NOT at <=> {}", "at >= {}"]
)
def test_times_in_milliseconds_are_compared_with_finer_ones(tmp_path: Path, condition: str) -> None:
    path = tmp_path / "t"
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    made = headwater.create(path, schema=schema, key="id", ordering="ts")
    made.insert(pa.Table.from_pylist([{"id": i, "ts": 1, "at": MOMENTS[4]} for i in range(10)], schema))
    (file,) = path.glob("*.parquet")
    rows = pq.read_table(file)
    place = rows.schema.get_field_index("at")
    pq.write_table(rows.set_column(place, "at", rows["at"].cast(pa.timestamp("ms", "UTC"))), file)
    frame = load(spark(), str(path), metadata="false")
    expected = 0 if ">=" in condition else 10
    assert frame.where(condition.format("timestamp'2026-01-01 00:00:00.0005'")).count() == expected
    assert frame.where("at = timestamp'2026-01-01 00:00:00'").count() == 10


def test_tables_that_are_partitioned_by_a_field_of_a_struct_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("a", pa.struct([("b", pa.string())]))])
    made = headwater.create(path, schema=schema, key="id", ordering="ts", partition_by=["a.b"], kind="mor")
    made.insert(pa.Table.from_pylist([{"id": i, "ts": 1, "a": {"b": f"p{i % 3}"}} for i in range(9)], schema))
    made.upsert(pa.Table.from_pylist([{"id": 1, "ts": 2, "a": {"b": "p1"}}], schema))
    for way in ("dsv2", "merge"):
        with using(way) as session:
            frame = load(session, str(path))
            assert sorted(frame.where("a.b = 'p1'").select("id").toPandas()["id"]) == [1, 4, 7]
            assert frame.where("ts = 2").select("id", "a.b").collect() == [(1, "p1")]
            assert frame.count() == 9


def test_scans_under_other_settings_of_the_session_are_other_scans(tmp_path: Path) -> None:
    path = tmp_path / "t"
    made = headwater.create(path, schema=SCHEMA, key="id", ordering="ts", kind="mor")
    made.insert(pa.Table.from_pylist([row(i) for i in range(30)], SCHEMA))
    made.upsert(pa.Table.from_pylist([row(i, 2) for i in range(6)], SCHEMA))
    session = spark()
    session.conf.set("spark.headwater.read.mode", "read_optimized")
    try:
        before = load(session, str(path))
        assert {(r["ts"], r["count"]) for r in before.groupBy("ts").count().cache().collect()} == {(1, 30)}
    finally:
        session.conf.unset("spark.headwater.read.mode")
    now = load(session, str(path)).groupBy("ts").count()
    assert {(r["ts"], r["count"]) for r in now.collect()} == {(1, 24), (2, 6)}
    both = before.groupBy("ts").count().union(now)
    assert sorted((r["ts"], r["count"]) for r in both.collect()) == [(1, 24), (1, 30), (2, 6)]
    session.catalog.clearCache()
