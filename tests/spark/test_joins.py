"""Joins and groups by partition columns: no shuffle, where one asks for that; partitions left out at run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from tests.spark.session import executed_plan, load, rows, scan_metrics, spark, using

import headwater

GROUPED = {"preserve-data-grouping": "true"}
JOINING = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
SPLIT = "spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled"
CITIES = ["Oslo", "Rome", "São Paulo", "a b", "Bern"]


@contextmanager
def joining(**more: str) -> Iterator[None]:
    """A session whose joins of partitioned tables may go without a shuffle, and not by a broadcast."""
    confs = {**JOINING, **more}
    for key, value in confs.items():
        spark().conf.set(key, value)
    try:
        yield
    finally:
        for key in confs:
            spark().conf.unset(key)


def fill(path: Path, kind: str, cities: list[str], start: int) -> str:
    schema = pa.schema(
        [("id", pa.int64()), ("city", pa.string()), ("zone", pa.int32()), ("ts", pa.int64()), ("x", pa.int64())]
    )
    table = headwater.create(path, schema=schema, key="id", ordering="ts", partition_by=["city", "zone"], kind=kind)
    records = [
        {"id": start + i, "city": cities[i % len(cities)], "zone": i % 2, "ts": 1, "x": i % 50} for i in range(2_000)
    ]
    table.bulk_insert(pa.Table.from_pylist(records, schema))
    table.upsert(pa.Table.from_pylist([{**record, "ts": 2, "x": -1} for record in records[::7]], schema))
    return str(path)


@pytest.fixture(scope="module", params=["cow", "mor"])
def sides(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two tables that have some partitions in common; each has some that the other lacks."""
    folder = tmp_path_factory.mktemp("joins")
    return fill(folder / "left", request.param, CITIES[:4], 0), fill(folder / "right", request.param, CITIES[1:], 1_000)


def plain(path: str) -> DataFrame:
    """The rows, held by Spark."""
    found = headwater.open(path).scan(columns=["id", "city", "zone", "ts", "x"]).to_arrow()
    records = [tuple(row.values()) for row in found.to_pylist()]
    return spark().createDataFrame(records, "id BIGINT, city STRING, zone INT, ts BIGINT, x BIGINT")


def joined(left: DataFrame, right: DataFrame, how: str) -> DataFrame:
    """On the partitions and one more column, so that there are not too many rows."""
    left = left.where("x < 5").select("city", "zone", "x", "id")
    right = right.where("x < 5")
    if how in ("left_semi", "left_anti"):
        return left.join(right.where("zone = 1"), ["city", "zone", "x"], how)
    return left.join(right.select("city", "zone", "x", right["id"].alias("other")), ["city", "zone", "x"], how)


def counted(frame: DataFrame) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in rows(frame).to_pylist())


def shuffles(frame: DataFrame) -> int:
    return str(executed_plan(frame).toString()).count("Exchange hashpartitioning")


@pytest.mark.parametrize("split", ["false", "true"])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "left_semi", "left_anti"])
def test_partitioned_tables_are_joined_without_a_shuffle(sides: tuple[str, str], how: str, split: str) -> None:
    session = spark()
    with joining(**{SPLIT: split}):
        expected = counted(joined(plain(sides[0]), plain(sides[1]), how))
        # Small splits, so that a partition of the table is more than one of Spark's.
        left = load(session, sides[0], **GROUPED, **{"split-size": "20k", "file-open-cost": "10"})
        frame = joined(left, load(session, sides[1], **GROUPED), how)
        assert shuffles(frame) == 0
        assert counted(frame) == expected
        ungrouped = joined(load(session, sides[0]), load(session, sides[1]), how)
        assert shuffles(ungrouped) == 2, "grouping costs parallelism, so it is asked for"
        assert counted(ungrouped) == expected


@pytest.mark.parametrize("name", [*GROUPED, "preserveDataGrouping"])
def test_groups_of_partitions_are_counted_without_a_shuffle(sides: tuple[str, str], name: str) -> None:
    with joining():
        frame = load(spark(), sides[0], **{name: "true"}).groupBy("city", "zone").agg({"x": "sum"})
        assert shuffles(frame) == 0
        assert counted(frame) == counted(plain(sides[0]).groupBy("city", "zone").agg({"x": "sum"}))


@pytest.mark.parametrize("way", ["dsv2", "merge"])
@pytest.mark.parametrize("options", [{}, GROUPED], ids=["plain", "grouped"])
def test_partitions_that_a_join_rules_out_are_not_read(
    sides: tuple[str, str], way: str, options: dict[str, str]
) -> None:
    chosen = spark().createDataFrame([("Rome", 1), ("nowhere", 0)], "city STRING, size INT")
    with using(way) as session, joining():
        frame = load(session, sides[0], **options).join(chosen.hint("broadcast").where("size = 1"), "city")
        text = str(executed_plan(frame).toString())
        assert "dynamicpruning" in text, text
        assert counted(frame.select("id", "x")) == counted(plain(sides[0]).where("city = 'Rome'").select("id", "x"))
        read = scan_metrics(frame)["numOutputRows"]
        assert 500 <= read <= 502, "the rows of Rome, and those of the other side"


MOMENTS = [f"2026-01-0{day} 00:00:00" for day in (1, 2, 3)]
UNTOLD = {
    "time": (pa.timestamp("us", tz="UTC"), "TIMESTAMP", [datetime.fromisoformat(f"{text}+00:00") for text in MOMENTS]),
    "text": (pa.string(), "STRING", ["", "a", "b"]),
    "slashes": (pa.string(), "STRING", ["2026/01/01", "2026/01/02", "x"]),
    "double": (pa.float64(), "DOUBLE", [-0.0, 1.5, float("nan")]),
}
"""Types and values of partition columns that paths do not tell, or not as Spark compares them."""


@pytest.mark.parametrize("what", UNTOLD)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_no_row_is_left_out_by_a_partition_value_that_its_path_does_not_tell(
    tmp_path: Path, kind: str, what: str
) -> None:
    type_, sql_type, values = UNTOLD[what]
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("part", type_), ("n", pa.int32())])
    table = headwater.create(
        tmp_path / "t", schema=schema, key="id", ordering="ts", partition_by=["part", "n"], kind=kind
    )
    records = [{"id": i, "ts": 1, "part": values[i % 3], "n": i % 2} for i in range(60)]
    table.insert(pa.Table.from_pylist(records, schema))
    table.upsert(pa.Table.from_pylist([{**records[0], "ts": 2}], schema))
    session = spark()
    ids = [one["id"] for one in records if one["id"] % 3 != 2 and one["n"] == 1]
    names = f"part {sql_type}, n INT, size INT"
    small = session.createDataFrame([(values[0], 1, 1), (values[1], 1, 1), (values[2], 1, 0)], names).coalesce(1)
    for options in ({}, GROUPED):
        with joining():
            read = load(session, str(tmp_path / "t"), **options)
            for columns in (["part"], ["part", "n"]):
                found = read.where("n = 1").join(small.where("size = 1").hint("broadcast"), columns)
                assert sorted(found.select("id").toPandas()["id"]) == ids, (options, columns)
                again = read.join(load(session, str(tmp_path / "t"), **options).select(*columns).distinct(), columns)
                assert again.count() == len(records), (options, columns)
