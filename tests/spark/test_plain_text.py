"""Text and bytes in plain pages, which the connector reads itself in scans without filters."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.session import load, rows, spark
from tests.spark.stored_pages import pages_of

import headwater

ROWS = 9_500
"""More than two batches of Spark's reader."""
SCHEMA = pa.schema([
    ("id", pa.string()),
    ("ts", pa.int64()),
    ("full", pa.string()),
    ("gaps", pa.string()),
    ("runs", pa.string()),
    ("none", pa.string()),
    ("few", pa.string()),
    ("raw", pa.binary()),
    ("number", pa.float64()),
    pa.field("sure", pa.string(), nullable=False),
])  # fmt: skip
SMALL = {"data_page_size": 700, "write_batch_size": 50}
PAGES: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "small pages": {"use_dictionary": False, **SMALL},
    "version 2": {"use_dictionary": False, "data_page_version": "2.0"},
    "version 2, small pages": {"use_dictionary": False, "data_page_version": "2.0", **SMALL},
    "no compression": {"use_dictionary": False, "compression": "none"},
    "dictionary": {"use_dictionary": True},
    "dictionary, then plain": {"use_dictionary": True, "dictionary_pagesize_limit": 600, "write_batch_size": 64},
    "one dictionary": {"use_dictionary": ["few"]},
    "prefixes": {
        "use_dictionary": False,
        "column_encoding": {"full": "DELTA_BYTE_ARRAY", "raw": "DELTA_LENGTH_BYTE_ARRAY"},
    },
}


def given(seed: int = 7) -> pa.Table:
    """Values of many lengths, empty ones, letters of several bytes; nulls here and there, in runs, and nothing else."""
    chance = random.Random(seed)

    def text(longest: int) -> str:
        return "".join(chance.choices("abcdefgh é😀", k=chance.randrange(longest + 1)))

    long = ["x" * 40_000 if row == 4_321 else text(30) for row in range(ROWS)]
    gaps = [None if chance.random() < 0.3 else text(9) for _ in range(ROWS)]
    runs = [None if row // 900 % 2 else text(5) for row in range(ROWS)]
    columns = [
        pa.array([f"k{row:05d}" for row in range(ROWS)]),
        pa.array([1] * ROWS),
        pa.array(long),
        pa.array(gaps),
        pa.array(runs),
        pa.nulls(ROWS, pa.string()),
        pa.array([f"v{row % 3}" for row in range(ROWS)]),
        pa.array([None if row % 11 == 0 else chance.randbytes(row % 13) for row in range(ROWS)], pa.binary()),
        pa.array([row / 4 for row in range(ROWS)]),
        pa.array([text(3) for _ in range(ROWS)]),
    ]
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture(scope="module", params=PAGES)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy-on-write and a merge-on-read table whose base files have such pages, in groups of 3,000 rows."""
    folder = tmp_path_factory.mktemp("text")
    with pages_of(PAGES[request.param], rows=3_000):
        for kind in ("cow", "mor"):
            table = headwater.create(folder / kind, schema=SCHEMA, key="id", ordering="ts", kind=kind)
            table.bulk_insert(given())
            (file,) = (folder / kind).glob("*.parquet")
            assert pq.read_metadata(file).num_row_groups == 4
    changed = given(seed=8).take(pa.array(range(3, ROWS, 9)))
    headwater.open(folder / "mor").upsert(changed.set_column(1, "ts", pa.array([2] * changed.num_rows)))
    return folder / "cow", folder / "mor"


CHOSEN = [SCHEMA.names, ["id"], ["id", "gaps", "few"], ["number", "raw", "id", "sure"], ["none", "runs", "id"]]


@pytest.mark.parametrize("columns", CHOSEN, ids="-".join)
@pytest.mark.parametrize("split", ["128m", "60k"])
def test_every_value_is_read(stored: tuple[Path, Path], columns: list[str], split: str) -> None:
    for path in stored:
        expected = headwater.open(path).scan(columns=columns).to_arrow()
        found = rows(load(spark(), str(path), **{"split-size": split}).select(*columns))
        assert found.sort_by("id").to_pydict() == expected.sort_by("id").to_pydict()
        if path.name == "cow":
            assert found.sort_by("id").to_pydict() == given().select(columns).to_pydict()


@pytest.mark.parametrize(
    "setting", ["spark.sql.columnVector.offheap.enabled", "spark.sql.parquet.columnarReaderBatchSize"]
)
def test_vectors_off_the_heap_and_of_another_size(stored: tuple[Path, Path], setting: str) -> None:
    session = spark()
    session.conf.set(setting, "true" if "offheap" in setting else "100")
    try:
        for path in stored:
            expected = headwater.open(path).scan(columns=SCHEMA.names).to_arrow()
            found = rows(load(session, str(path)).select(*SCHEMA.names))
            assert found.sort_by("id").to_pydict() == expected.sort_by("id").to_pydict()
    finally:
        session.conf.unset(setting)


def test_a_filter_and_a_limit(stored: tuple[Path, Path]) -> None:
    for path in stored:
        everything = headwater.open(path).scan(columns=["id", "gaps"]).to_arrow().to_pylist()
        wanted = sorted(row["id"] for row in everything if row["gaps"] is not None and row["gaps"] < "b")
        frame = load(spark(), str(path))
        assert rows(frame.where("gaps < 'b'").select("id")).sort_by("id").column("id").to_pylist() == wanted
        assert rows(frame.select("id", "gaps").limit(4_200)).num_rows == 4_200


@pytest.mark.parametrize("split", ["128m", "60k"])
@pytest.mark.parametrize("column", ["id", "ts", "gaps", "runs", "none", "number"])
def test_rows_that_have_a_value(stored: tuple[Path, Path], column: str, split: str) -> None:
    columns = sorted({"id", "full", column})
    for path in stored:
        everything = headwater.open(path).scan(columns=columns).to_arrow()
        wanted = everything.filter(everything.column(column).is_valid()).sort_by("id")
        frame = load(spark(), str(path), **{"split-size": split}).where(f"{column} IS NOT NULL").select(*columns)
        assert rows(frame).sort_by("id").to_pydict() == wanted.to_pydict()


def test_a_page_that_lies_about_a_length_is_an_error_not_other_rows(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("text", pa.string())])
    held = pa.table([[f"k{i}" for i in range(100)], [1] * 100, ["here it is"] * 100], schema=schema)
    table = headwater.create(tmp_path / "t", schema=schema, key="id", ordering="ts", kind="cow")
    with pages_of({"use_dictionary": False, "compression": "none"}):
        table.bulk_insert(held)
    (file,) = (tmp_path / "t").glob("*.parquet")
    content = bytearray(file.read_bytes())
    value = len("here it is").to_bytes(4, "little") + b"here it is"
    at = content.rindex(value * 3)
    for length in (2**31 - 1, 2**32 - 1, 5_000):
        content[at : at + 4] = length.to_bytes(4, "little")
        file.write_bytes(content)
        with pytest.raises(Exception, match=r"CorruptFile.*column text ends in the middle of a value"):
            load(spark(), str(tmp_path / "t")).select("text").collect()
