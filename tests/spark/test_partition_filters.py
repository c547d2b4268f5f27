"""Filters on partition columns that are more than comparisons leave out partitions, as Spark's own file sources do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from tests.spark.session import executed_plan, load, spark, using

import headwater

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("dt", pa.string()), ("n", pa.int32()), ("x", pa.int64())])
DAYS = [f"2026-0{month}-{day:02d}" for month in (1, 2) for day in (1, 15, 28)]
FILTERS = {
    "cast(dt AS date) >= date'2026-02-01'": 6,
    "dt >= date_sub(date'2026-02-16', 1)": 4,
    "substr(dt, 1, 7) = '2026-01' AND n = 1": 3,
    "cast(n AS string) = '1'": 6,
    "concat(dt, '-', n) IN ('2026-01-01-0', '2026-02-28-1')": 2,
    "month(cast(dt AS date)) = 2 OR n % 2 = 0": 9,
    "year(dt) = 2026 AND dt > '2026-02'": 6,
    "dt LIKE '%-15'": 4,
    "dt RLIKE '02-.8'": 2,
    "coalesce(dt, 'x') = 'none'": 0,
    "upper(dt) = lower(dt) AND n + 1 > 1": 6,
}
"""Each with the partitions that it leaves of twelve."""


def row(i: int, ts: int = 1) -> dict[str, Any]:
    return {"id": i, "ts": ts, "dt": DAYS[i % 6], "n": i // 6 % 2, "x": i % 7}


@pytest.fixture(scope="module", params=["cow", "mor"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("partitions") / request.param
    made = headwater.create(path, schema=SCHEMA, key="id", ordering="ts", partition_by=["dt", "n"], kind=request.param)
    made.insert(pa.Table.from_pylist([row(i) for i in range(48)], SCHEMA))
    made.upsert(pa.Table.from_pylist([row(i, 2) for i in range(0, 48, 5)], SCHEMA))
    return str(path)


def ids(frame: DataFrame) -> list[int]:
    return sorted(each["id"] for each in frame.select("id").collect())


def matching(condition: str) -> list[int]:
    """What Spark finds in rows of its own."""
    plain = spark().createDataFrame(
        [(each["id"], each["dt"], each["n"]) for each in map(row, range(48))], "id LONG, dt STRING, n INT"
    )
    return ids(plain.where(condition))


@pytest.mark.parametrize("condition", FILTERS)
def test_partitions_are_left_out_by_any_filter_that_spark_can_evaluate(table: str, condition: str) -> None:
    expected = matching(condition)
    for way in ("dsv2", "merge"):
        with using(way) as session:
            frame = load(session, table).where(condition)
            plan = str(executed_plan(frame.select("id", "x")).toString())
            assert f"slices_read: {FILTERS[condition]};" in plan, plan
            assert ids(frame) == expected
            assert ids(frame.where("x > 2")) == [i for i in expected if i % 7 > 2]


def test_rows_are_counted_by_metadata_under_such_a_filter(table: str) -> None:
    frame = load(spark(), table).where("cast(dt AS date) >= date'2026-02-01'")
    counted = frame.groupBy("n").count()
    assert "Filter" not in str(executed_plan(counted).toString())
    assert {(each["n"], each["count"]) for each in counted.collect()} == {(0, 12), (1, 12)}
    assert frame.count() == 24


def test_each_side_of_a_join_and_each_query_has_its_own_partitions(table: str) -> None:
    trips = load(spark(), table)
    early, late = trips.where("month(dt) = 1"), trips.where("month(dt) = 2")
    assert early.count() == late.count() == 24
    assert trips.count() == 48
    assert ids(early.alias("a").join(late.alias("b"), "x").select("a.id").distinct()) == ids(early)
    assert early.join(trips, "id").count() == 24
    assert early.unionByName(late).select("id").distinct().count() == 48
    assert trips.where("month(dt) = 1").where("month(dt) = 2").count() == 0
    assert trips.where("dt IN (SELECT max(dt) FROM values ('2026-01-15') AS t(dt)) AND month(dt) = 1").count() == 8


def test_columns_may_be_written_in_another_case(table: str) -> None:
    frame = load(spark(), table).where("substr(DT, 6, 2) = '02' AND cast(N AS string) = '1'")
    assert "slices_read: 3;" in str(executed_plan(frame.select("id")).toString())
    assert ids(frame) == matching("substr(dt, 6, 2) = '02' AND n = 1")


def test_the_other_side_of_a_join_is_told(table: str, tmp_path: Path) -> None:
    trips = load(spark(), table)
    trips.select("id", "dt").write.partitionBy("dt").parquet(str(tmp_path / "plain"))
    plain = spark().read.schema("id LONG, dt STRING").parquet(str(tmp_path / "plain"))
    early = trips.where("substr(dt, 7, 1) = '1'")
    text = str(executed_plan(early.join(trips.select("dt", "n"), "dt")).toString())
    assert text.count("slices_read: 6;") == 2, text
    text = str(executed_plan(early.join(plain.select("dt"), "dt")).toString())
    assert re.search(r"PartitionFilters: \[[^]]*substr\(dt#", text), text
    assert early.join(plain.select("dt"), "dt").count() == 3 * 8 * 8


def test_partition_columns_may_have_names_that_are_reserved(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("user", pa.string()), ("order", pa.string())])
    made = headwater.create(tmp_path / "t", schema=schema, key="id", partition_by=["user", "order"])
    made.insert(pa.Table.from_pylist([{"id": i, "user": f"u{i % 2}", "order": "x"} for i in range(6)], schema))
    session = spark()
    reserved = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.enforceReservedKeywords": "true"}
    for name, value in reserved.items():
        session.conf.set(name, value)
    try:
        frame = load(session, str(tmp_path / "t"), **{"preserve-data-grouping": "true"})
        assert ids(frame.where("`user` = 'u1'")) == [1, 3, 5]
        assert {tuple(each) for each in frame.groupBy("`user`", "`order`").sum("id").collect()} == {
            ("u0", "x", 6),
            ("u1", "x", 9),
        }
    finally:
        for name in reserved:
            session.conf.unset(name)


def test_a_filter_that_fails_is_told_by_the_query(table: str) -> None:
    session = spark()
    session.conf.set("spark.sql.ansi.enabled", "true")
    try:
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            load(session, table).where("cast(dt AS int) > 3").select("x").collect()
    finally:
        session.conf.unset("spark.sql.ansi.enabled")


def test_partitions_whose_path_leaves_it_open_are_read(tmp_path: Path) -> None:
    made = headwater.create(tmp_path / "t", schema=SCHEMA, key="id", ordering="ts", partition_by=["dt"])
    values = ["", "2026-01-01", "2026/02/01", "2026-03-01"]
    made.insert(pa.Table.from_pylist([{**row(i), "dt": values[i % 4]} for i in range(16)], SCHEMA))
    trips = load(spark(), str(tmp_path / "t"))
    assert trips.where("length(dt) = 0").count() == 4
    assert trips.where("substr(dt, 5, 1) = '/'").count() == 4
    assert trips.where("try_cast(substr(dt, 6, 2) AS int) = 3").count() == 4
    plan = str(executed_plan(trips.where("substr(dt, 1, 7) = '2026-01'").select("x")).toString())
    assert "partially pushed: [dt IS NOT NULL, (SUBSTRING(dt, 1, 7)) = '2026-01'], not pushed: []" in plan, plan


def test_queries_with_options_of_their_own_read_their_own_partitions(table: str) -> None:
    first = headwater.open(table).hudi.timeline.commits[0].requested_at
    trips = spark().read.format("headwater").option("as-of", first).load(table)
    assert {each["ts"] for each in trips.where("month(dt) = 1").select("ts").collect()} == {1}
    assert trips.where("month(dt) = 1").count() == 24
