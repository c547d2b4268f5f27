"""NaN and the two zeros: Spark's order of them is not the one that files are skipped by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from tests.spark.session import PATHS, load, rows, spark, using

import headwater

ROWS = 30_000
SCHEMA = pa.schema([
    ("id", pa.string()), ("ts", pa.int64()), ("any", pa.float64()), ("rising", pa.float64()), ("single", pa.float32()),
    ("minus", pa.float64()), ("plus", pa.float32()), ("inside", pa.struct([("x", pa.float64())])),
])  # fmt: skip
SQL = (
    "id STRING, ts BIGINT, any DOUBLE, rising DOUBLE, single FLOAT, minus DOUBLE, plus FLOAT, inside STRUCT<x: DOUBLE>"
)
NAN = "double('NaN')"
FILTERS = [
    f"any = {NAN}",
    f"any <=> {NAN}",
    f"any <> {NAN}",
    f"any IN (1.0D, {NAN})",
    f"any NOT IN (1.0D, {NAN})",
    f"any < {NAN} AND any > 4.9D",
    "isnan(any)",
    "NOT (any <= 7)",
    "any > double('Infinity')",
    "any >= 5 OR rising < 3",
    "rising > 6000",
    "rising > 6000 AND rising < 6100",
    "NOT (rising < 29000)",
    "rising = 77",
    "single > float(2.5)",
    f"single >= float({NAN})",
    "single <> float(2.5)",
    "minus = 0D",
    "minus >= 0D",
    "minus <= 0D AND any = 1",
    "minus < 0D OR minus > 0D",
    "minus <> 0D",
    "minus IN (0D, 4D)",
    "plus = float(-0.0)",
    "plus <= float(-0.0)",
    "plus <=> float(-0.0)",
    "inside.x > 3",
    f"inside.x = {NAN}",
    "inside.x <> 1",
    "inside.x IS NULL OR inside.x > 1e300",
]


def written(at: np.ndarray, ts: int) -> pa.Table:
    """NaN among few values, at the end of rising ones, and as the only value that a filter leaves."""
    few = np.where(at % 17 == 0, np.nan, (at % 6).astype(np.float64))
    rising = np.where(at > ROWS * 0.9, np.nan, at.astype(np.float64))
    inside = [None if one % 23 == 0 else {"x": float("nan") if one % 31 == 0 else one % 3} for one in at.tolist()]
    columns = {
        "id": pa.array([f"k{one:06d}" for one in at]),
        "ts": pa.array(np.full(len(at), ts)),
        "any": pa.array(few, mask=at % 19 == 0),
        "rising": pa.array(rising),
        "single": pa.array(np.where(at % 13 == 0, np.nan, at % 3).astype(np.float32)),
        "minus": pa.array(np.full(len(at), -0.0)),
        "plus": pa.array(np.where(at % 2 == 0, np.nan, 0.0).astype(np.float32)),
        "inside": pa.array(inside, SCHEMA.field("inside").type),
    }
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture(scope="module", params=["cow", "mor"])
def floating(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("floating") / str(request.param)
    table = headwater.create(path, schema=SCHEMA, key="id", ordering="ts", kind=request.param)
    table.bulk_insert(written(np.arange(ROWS), 1))
    if request.param == "mor":
        table.upsert(written(np.arange(0, ROWS, 9), 2))
    return path


@pytest.fixture(scope="module")
def in_memory(floating: Path) -> Iterator[DataFrame]:
    """All rows, held by Spark: filters on them reach no file."""
    held = [tuple(row.values()) for row in headwater.open(floating).scan(columns=SCHEMA.names).to_arrow().to_pylist()]
    frame = spark().createDataFrame(held, SQL).cache()
    yield frame
    frame.unpersist()


@pytest.mark.parametrize("way", PATHS)
@pytest.mark.parametrize("condition", FILTERS)
def test_a_filter_matches_what_it_matches_in_memory(
    floating: Path, in_memory: DataFrame, way: str, condition: str
) -> None:
    expected = rows(in_memory.where(condition).select("id").orderBy("id"))
    with using(way) as session:
        for split in ({}, {"split-size": "100000"}) if way == "dsv2" else ({},):
            found = rows(load(session, str(floating), **split).where(condition).select("id").orderBy("id"))
            assert found.to_pydict() == expected.to_pydict()


def test_statistics_in_copied_pages_are_those_of_who_wrote_them(tmp_path: Path) -> None:
    """Clustering by Hudi that copies pages: the file is by parquet-mr, which counts NaN, its statistics are not."""
    path = tmp_path / "t"
    table = headwater.create(path, schema=SCHEMA, key="id", ordering="ts", kind="cow")
    table.bulk_insert(written(np.arange(1000), 1))
    (file,) = path.glob("*.parquet")
    writer = pq.read_metadata(file).created_by
    stored = pq.read_table(file).replace_schema_metadata(
        {"original.created.by": f"{writer}\nparquet-mr version 1.13.1"}
    )
    pq.write_table(stored, file, row_group_size=100, write_page_index=True)
    content = file.read_bytes()
    told = content.rindex(writer.encode())
    file.write_bytes(content[:told] + b"parquet-mr version 1.13.1".ljust(len(writer)) + content[told + len(writer) :])
    assert pq.read_metadata(file).created_by.startswith("parquet-mr")
    found = rows(load(spark(), str(path)).where("any > 5 AND rising >= 0").select("id"))
    assert found.num_rows == np.count_nonzero((np.arange(1000) % 17 == 0) & (np.arange(1000) % 19 != 0))
