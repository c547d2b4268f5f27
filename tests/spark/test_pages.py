"""Which pages of a base file are read: those that filters leave, and the first ones where a query has a limit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.session import load, rows, spark
from tests.spark.stored_pages import pages_of

import headwater

ROWS = 30_000
GROUP = 20_000
"""Rows of the first row group: more than twice what a query with a small limit reads first."""
SCHEMA = pa.schema([
    ("id", pa.string()),
    ("ts", pa.int64()),
    ("number", pa.int64()),
    ("text", pa.string()),
    ("few", pa.string()),
    ("price", pa.decimal128(12, 2)),
    ("gaps", pa.float64()),
])  # fmt: skip
PAGES = {"write_page_index": True, "data_page_size": 700, "write_batch_size": 50, "use_dictionary": ["few"]}


def given(version: int = 1) -> pa.Table:
    columns = [
        pa.array([f"k{row:05d}" for row in range(ROWS)]),
        pa.array([version] * ROWS),
        pa.array(range(ROWS)),
        pa.array([f"{version} says {row}" for row in range(ROWS)]),
        pa.array([f"v{row % 3}" for row in range(ROWS)]),
        pa.array([Decimal(row * version) / 4 for row in range(ROWS)], pa.decimal128(12, 2)),
        pa.array([None if row % 7 == 0 else row / 2 for row in range(ROWS)]),
    ]
    return pa.table(columns, schema=SCHEMA)


def make(path: Path, kind: str) -> headwater.Table:
    """A table of one base file with many small pages, of whose values the file has an index."""
    table = headwater.create(path, schema=SCHEMA, key="id", ordering="ts", kind=kind)
    with pages_of(PAGES, rows=GROUP):
        table.bulk_insert(given())
    assert pq.read_metadata(base_file(path)).num_row_groups == 2
    return headwater.open(path)


def base_file(path: Path) -> Path:
    (file,) = path.glob("*.parquet")
    return file


def changed(rows_: range) -> pa.Table:
    return given(version=2).take(pa.array(rows_))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy-on-write table, and a merge-on-read table with every ninth row updated and every eleventh deleted."""
    folder = tmp_path_factory.mktemp("pages")
    make(folder / "cow", "cow")
    table = make(folder / "mor", "mor")
    table.upsert(changed(range(3, ROWS, 9)))
    headwater.open(folder / "mor").delete(given().take(pa.array(range(5, ROWS, 11))).select(["id"]))
    for kind in ("cow", "mor"):
        pq.write_table(headwater.open(folder / kind).scan(columns=SCHEMA.names).to_arrow(), folder / f"{kind}.parquet")
    return folder / "cow", folder / "mor"


FILTERS = [
    "number < 40",
    "number >= 29990",
    "number BETWEEN 19950 AND 20050",
    "number > 25000",
    "number < 4100 OR number > 28000 OR number BETWEEN 12000 AND 12003",
    "number < 0",
    "number >= 0",
    "number = 23456",
    "price < 100.25",
    "few = 'v1' AND number < 9000",
    "text LIKE '1 says 29%'",
    "gaps IS NULL AND number < 100",
    "gaps > 14000",
    "id = 'k00777'",
    "id > 'k2' AND text >= '2'",
    # Of each of these Parquet can be asked a part alone.
    "number < 0 OR text != few",
    "few = text OR number = 23456",
    "number < 10 OR number = ts OR number > 29990",
    "gaps IS NULL OR number != ts",
    "number = 5 OR (number > 29000 AND number != ts)",
    "(number > 29000 AND few < text) OR number = 5",
    "NOT (number >= 10 AND few < text)",
    "NOT (number < 29000 OR few < text)",
    "number < 3 OR CAST(gaps AS BIGINT) = 700",
    "CAST(number AS STRING) = '777' OR number < 3",
    "number < 3 OR lower(few) = 'v1'",
    "number < 3 OR length(text) = 9",
    "number < 3 OR number + 1 = 778",
]


@pytest.mark.parametrize("split", ["128m", "100k"])
@pytest.mark.parametrize("condition", FILTERS)
def test_rows_are_right_whichever_pages_a_filter_leaves(stored: tuple[Path, Path], condition: str, split: str) -> None:
    for path in stored:
        frame = load(spark(), str(path), **{"split-size": split}).where(condition).select(*SCHEMA.names)
        everything = spark().read.parquet(str(path.with_suffix(".parquet")))
        assert sorted(map(tuple, frame.collect())) == sorted(map(tuple, everything.where(condition).collect()))


def spoil(file: Path, column: str, group: int, *, after: float) -> None:
    """Write zeros over a column chunk of a row group, behind a share of it."""
    metadata = pq.read_metadata(file)
    chunk = metadata.row_group(group).column(metadata.schema.names.index(column))
    start, size = chunk.data_page_offset, chunk.total_compressed_size
    content = bytearray(file.read_bytes())
    first, end = start + int(size * after), start + size
    content[first:end] = bytes(end - first)
    file.write_bytes(content)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_pages_that_a_filter_rules_out_are_not_read(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path / "t", kind)
    if kind == "mor":
        table.upsert(changed(range(10)))
    for column in ("number", "text", "price"):
        spoil(base_file(tmp_path / "t"), column, 0, after=0.5)
    frame = load(spark(), str(tmp_path / "t")).select("id", "number", "text", "price")
    assert rows(frame.where("number < 1000")).num_rows == 1000
    assert rows(frame.where("number >= 20000")).num_rows == 10_000
    with pytest.raises(Exception, match="CorruptFile"):
        rows(frame.where("number < 19000"))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_of_a_limit_only_the_first_pages_are_read(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path / "t", kind)
    if kind == "mor":
        table.upsert(changed(range(1000, 1010)))
    for column in ("number", "text", "price"):
        spoil(base_file(tmp_path / "t"), column, 0, after=0.7)
    frame = load(spark(), str(tmp_path / "t")).select("id", "number", "text", "price", "few")
    found = rows(frame.limit(10)).to_pylist()
    expected = {row["id"]: row for row in given().select(["id", "number", "text", "price", "few"]).to_pylist()}
    assert found == [expected[row["id"]] for row in found]
    assert len({row["id"] for row in found}) == 10
    with pytest.raises(Exception, match="CorruptFile"):
        rows(frame.limit(19_000))


@pytest.mark.parametrize("limit", [0, 1, 10, 2_500, 4_200, 9_000, 22_000, 30_000, 50_000])
def test_a_limit_gives_so_many_different_rows_of_the_table(stored: tuple[Path, Path], limit: int) -> None:
    for path in stored:
        everything = {row["id"]: row for row in headwater.open(path).scan(columns=SCHEMA.names).to_arrow().to_pylist()}
        found = rows(load(spark(), str(path)).select(*SCHEMA.names).limit(limit)).to_pylist()
        assert len(found) == min(limit, len(everything)) == len({row["id"] for row in found})
        assert found == [everything[row["id"]] for row in found]


def test_a_limit_reads_on_where_the_first_rows_were_deleted(tmp_path: Path) -> None:
    """Of the first pages a row in a thousand is left, which must not come twice; the updated ones come last."""
    table = make(tmp_path / "t", "mor")
    table.delete(given().take(pa.array([row for row in range(15_000) if row % 1_000])).select(["id"]))
    headwater.open(tmp_path / "t").upsert(changed(range(16_000, ROWS)))
    frame = load(spark(), str(tmp_path / "t")).select("id", "text", "price")
    expected = headwater.open(tmp_path / "t").scan(columns=["id", "text", "price"]).to_arrow()
    assert expected.num_rows == 15_015
    by_id = {row["id"]: row for row in expected.to_pylist()}
    for limit in (3, 10, 1_000, 1_500, 15_014):
        found = rows(frame.limit(limit)).to_pylist()
        assert len({row["id"] for row in found}) == len(found) == limit
        assert found == [by_id[row["id"]] for row in found]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_dates_of_the_older_calendar_are_read_as_spark_reads_them(tmp_path: Path, kind: str) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("day", pa.date32())])
    table = headwater.create(tmp_path / "t", schema=schema, key="id", ordering="ts", kind=kind)
    days = [dt.date(1400 + 40 * i, 3, 1) for i in range(16)]
    table.bulk_insert(pa.table([[f"k{i:02d}" for i in range(16)], [1] * 16, days], schema=schema))
    file = base_file(tmp_path / "t")
    stored = pq.read_table(file)
    told = {
        **(stored.schema.metadata or {}),
        b"org.apache.spark.version": b"3.5.0",
        b"org.apache.spark.legacyDateTime": b"",
    }
    pq.write_table(stored.replace_schema_metadata(told), file)
    if kind == "mor":
        changed_ = pa.table([["k15"], [2], [days[15]]], schema=schema)
        headwater.open(tmp_path / "t").upsert(changed_)
    expected = spark().read.parquet(str(file)).select("id", "day").orderBy("id").collect()
    assert [row.day for row in expected] != days, "Spark converts them"
    assert load(spark(), str(tmp_path / "t")).select("id", "day").orderBy("id").collect() == expected
