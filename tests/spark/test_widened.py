"""Columns that were widened or added since a base file was written: the same rows and the same matches in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from tests import mislabelled
from tests.spark.session import PATHS, load, rows, spark, using
from tests.spark.stored_pages import pages_of

import headwater

ROWS = 60_000
OLDER = pa.schema([
    ("id", pa.string()), ("ts", pa.int64()), ("few", pa.int32()), ("many", pa.int32()), ("ratio", pa.float32()),
    ("sure", pa.int32()),
])  # fmt: skip
NEWER = pa.schema([
    ("id", pa.string()), ("ts", pa.int64()), ("few", pa.int64()), ("many", pa.int64()), ("ratio", pa.float64()),
    ("sure", pa.int64()), ("added", pa.string()),
])  # fmt: skip
SQL = {pa.string(): "STRING", pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}
FILTERS = [
    "few = 3",
    "few = 5000000003",
    "few > 3000000000",
    "few >= -3000000000 AND few < 2",
    "few IN (1, 5000000003)",
    "few IS NULL",
    "few <=> NULL",
    "NOT (few < 5000000000)",
    "many = 77",
    "many BETWEEN 50 AND 90",
    "many < -2147483649 OR many > 59990",
    "many <> 4294967373",  # 77 in its lower 32 bits
    "many = 4294967373",
    "ratio = 0.1",
    "ratio > 1e300",
    "sure < -5000000000 OR sure = 999",
    "added IS NULL AND few = 2",
    "added = 'new'",
]


def older() -> pa.Table:
    """Few distinct values, as a dictionary in the file, and many of them, plain; nulls in each but the last."""
    number = np.arange(ROWS)
    columns = {
        "id": pa.array([f"k{one:06d}" for one in number]),
        "ts": pa.array(np.ones(ROWS, np.int64)),
        "few": pa.array((number % 7).astype(np.int32), mask=number % 11 == 0),
        "many": pa.array(number.astype(np.int32), mask=number % 13 == 0),
        "ratio": pa.array((number % 10 / 10).astype(np.float32), mask=number % 17 == 0),
        "sure": pa.array((number % 1000).astype(np.int32)),
    }
    return pa.table(columns, schema=OLDER)


def newer() -> pa.Table:
    """Every ninth row again, with values that the older types do not hold."""
    number = np.arange(0, ROWS, 9)
    columns = {
        "id": pa.array([f"k{one:06d}" for one in number]),
        "ts": pa.array(np.full(len(number), 2)),
        "few": pa.array(5_000_000_000 + number % 7),
        "many": pa.array(number, mask=number % 2 == 0),
        "ratio": pa.array(number / 10),
        "sure": pa.array(-number - 5_000_000_000),
        "added": pa.array(["new"] * len(number)),
    }
    return pa.table(columns, schema=NEWER)


@pytest.fixture(scope="module", params=["cow", "mor"])
def widened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose base file is of the older schema; copy-on-write: another one of the newer schema beside it."""
    path = tmp_path_factory.mktemp("widened") / str(request.param)
    table = headwater.create(path, schema=OLDER, key="id", ordering="ts", kind=request.param)
    with mock.patch("headwater.hudi.write.parquet_sink._dictionary_columns", return_value=["few", "ratio", "sure"]):
        table.bulk_insert(older())
    (file,) = path.glob("*.parquet")
    chunks = [pq.read_metadata(file).row_group(0).column(at) for at in range(5, 11)]
    assert [chunk.has_dictionary_page for chunk in chunks] == [False, False, True, False, True, True]
    changed = newer()
    if request.param == "cow":  # new keys, so that the older file stays as it is
        changed = changed.set_column(0, "id", pa.array([f"n{one}" for one in range(changed.num_rows)]))
        table.bulk_insert(changed)
    else:
        table.upsert(changed)
    return path


@pytest.fixture(scope="module")
def in_memory(widened: Path) -> Iterator[DataFrame]:
    """All rows, held by Spark: filters on them reach no file."""
    held = [tuple(row.values()) for row in headwater.open(widened).scan(columns=NEWER.names).to_arrow().to_pylist()]
    frame = spark().createDataFrame(held, ", ".join(f"{field.name} {SQL[field.type]}" for field in NEWER)).cache()
    yield frame
    frame.unpersist()


@pytest.mark.parametrize("reader", ["native", "merge"])
def test_every_row_is_read_in_the_newer_types(widened: Path, reader: str) -> None:
    found = rows(load(spark(), str(widened), reader=reader).select(*NEWER.names))
    expected = headwater.open(widened).scan(columns=NEWER.names).to_arrow()
    assert found.schema.types == NEWER.types
    assert found.num_rows == ROWS + (newer().num_rows if widened.name == "cow" else 0)
    assert found.sort_by("id").to_pydict() == expected.sort_by("id").to_pydict()


@pytest.mark.parametrize("reader", ["native", "merge"])
@pytest.mark.parametrize("condition", FILTERS)
def test_a_filter_matches_what_it_matches_in_memory(
    widened: Path, in_memory: DataFrame, condition: str, reader: str
) -> None:
    found = rows(load(spark(), str(widened), reader=reader).where(condition).select("id", "few"))
    expected = rows(in_memory.where(condition).select("id", "few"))
    assert found.sort_by("id").to_pydict() == expected.sort_by("id").to_pydict()


GROUP = 5_000
PAGES: dict[str, dict[str, Any]] = {
    "dictionary": {"use_dictionary": True},
    "dictionary, then plain": {"use_dictionary": True, "dictionary_pagesize_limit": 600, "write_batch_size": 64},
    "small pages of version 2": {"use_dictionary": True, "data_page_version": "2.0", "data_page_size": 500},
}


def of_many_dictionaries() -> pa.Table:
    """Every row group has values of its own, in an order of their own; one has none at all."""
    number = np.arange(6 * GROUP)
    group = number // GROUP
    values = (group * 1000 - (number * 31) % (7 + 300 * group)).astype(np.int32)
    columns = {
        "id": pa.array([f"k{one:06d}" for one in number]),
        "ts": pa.array(np.ones(len(number), np.int64)),
        "few": pa.array(values, mask=(number % 11 == 0) | (group == 3)),
        "many": pa.array(-values, mask=(group == 0) | (number % GROUP < 4_500)),
        "ratio": pa.array((values / 10).astype(np.float32), mask=(number % 17 == 0) | (group == 3)),
        "sure": pa.array(values),
    }
    return pa.table(columns, schema=OLDER)


@pytest.mark.parametrize("pages", PAGES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_dictionary_gives_its_own_values(tmp_path: Path, pages: str, kind: str) -> None:
    table = headwater.create(tmp_path, schema=OLDER, key="id", ordering="ts", kind=kind)
    with pages_of(PAGES[pages], rows=GROUP):
        table.bulk_insert(of_many_dictionaries())
    (file,) = tmp_path.glob("*.parquet")
    assert pq.read_metadata(file).num_row_groups == 6
    changed = newer().slice(0, 6 * GROUP // 9)  # known keys alone: others would have the base file written anew
    if kind == "cow":
        changed = changed.set_column(0, "id", pa.array([f"n{one}" for one in range(changed.num_rows)]))
        table.bulk_insert(changed)
    else:
        table.upsert(changed)
        assert list(tmp_path.glob(".*.log*"))
    expected = headwater.open(tmp_path).scan(columns=NEWER.names).to_arrow().sort_by("id")
    assert expected.schema.types == NEWER.types
    for split in ("128m", "30k"):
        found = rows(load(spark(), str(tmp_path), **{"split-size": split}).select(*NEWER.names))
        assert found.sort_by("id").to_pydict() == expected.to_pydict()
    found = rows(load(spark(), str(tmp_path)).where("few > 2000 AND ratio < 400").select("id", "few", "ratio"))
    kept = [row for row in expected.to_pylist() if (row["few"] or 0) > 2000 and row["ratio"] is not None]
    assert found.sort_by("id").to_pylist() == [
        {name: row[name] for name in ("id", "few", "ratio")} for row in kept if row["ratio"] < 400
    ]


@pytest.mark.parametrize("other", ["large", "small"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_files_of_one_commit_may_differ(tmp_path: Path, kind: str, other: str) -> None:
    """Clustering by Hudi that copies pages keeps the schema of each file; the first one does not decide for all."""
    table = headwater.create(
        tmp_path,
        schema=NEWER.append(pa.field("p", pa.string())).append(pa.field("wall", pa.timestamp("us"))),
        key="id",
        ordering="ts",
        partition_by="p",
        kind=kind,
    )
    held = older().slice(0, 500)
    held = held.append_column("added", pa.array([f"new {row}" for row in range(500)])).cast(NEWER)
    held = held.append_column("p", pa.array(["small" if row % 9 == 0 else "large" for row in range(500)]))
    held = held.append_column("wall", pa.array(range(500), pa.timestamp("us")))
    table.bulk_insert(held)
    (file,) = (tmp_path / other).glob("*.parquet")
    stored = pq.read_table(file, partitioning=None)
    for name in ("few", "ratio"):
        place = stored.schema.get_field_index(name)
        stored = stored.set_column(place, name, stored.column(name).cast(OLDER.field(name).type))
    pq.write_table(stored.drop_columns(["added"]), file, store_schema=False)
    if kind == "mor":
        changed = held.take(pa.array([4, 9]))
        table.upsert(changed.set_column(1, "ts", pa.array([5, 5])))
    session = spark()
    session.conf.set("spark.sql.files.minPartitionNum", "1")  # one task, which reads the larger file first
    try:
        for columns in (["few", "ratio", "added"], ["added", "wall"], ["few", "added", "_pos"]):
            for condition in ("true", "few >= 0", "added IS NULL", "added IN ('new 9', 'new 10')"):
                frame, merged = (
                    load(session, str(tmp_path), reader=reader).where(condition).select("id", *columns)
                    for reader in ("native", "merge")
                )
                expected = rows(merged).sort_by("id").drop_columns([name for name in columns if name == "_pos"])
                assert expected.num_rows > 0
                assert rows(frame).select(expected.column_names).sort_by("id").to_pydict() == expected.to_pydict()
    finally:
        session.conf.unset("spark.sql.files.minPartitionNum")


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("path", PATHS)
def test_milliseconds_that_a_file_calls_microseconds(tmp_path: Path, kind: str, path: str) -> None:
    years = mislabelled.make(tmp_path / "t", kind, 9)
    with using(path) as session:
        frame = load(session, str(tmp_path / "t"))
        found = frame.selectExpr("id", "year(at) AS at", "year(s.w) AS w", "year(l[0]) AS l", "year(n) AS n").collect()
        assert {row["id"]: (row["at"], row["w"], row["l"], row["n"]) for row in found} == {
            key: (year, year, year, 2020) for key, year in years.items()
        }
        assert frame.where("at > '2024-01-01'").count() == 2
        assert frame.where("s.w < '1980-01-01'").count() == 0
        assert frame.agg({"at": "max"}).collect()[0][0].year == 2024
