"""Rows of a base file at positions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.hudi.base_file import BaseFile, open_base_file
from headwater.hudi.base_rows import batches_with, rows_at, without
from headwater.hudi.merge.log_rows import Share
from headwater.storage import Storage

ROWS = 60_000
TABLE = pa.table(
    {"n": range(ROWS), "text": [f"text {n}" for n in range(ROWS)], "half": pa.array(range(ROWS), pa.int32())}
)


@pytest.fixture
def base(tmp_path: Path) -> BaseFile:
    pq.write_table(TABLE, tmp_path / "f.parquet", row_group_size=25_000, data_page_size=2048)
    return open_base_file(Storage.at(tmp_path), "f.parquet")


@pytest.mark.parametrize("step", [1, 7, 9_000, 24_999])
def test_rows_at_positions_are_those_rows(base: BaseFile, step: int) -> None:
    positions = np.arange(3, ROWS, step)
    assert rows_at(base, ["text", "n"], positions).equals(TABLE.select(["text", "n"]).take(pa.array(positions)))


def test_no_positions_and_no_columns_are_no_rows_and_no_columns(base: BaseFile) -> None:
    nothing = np.zeros(0, np.int64)
    assert rows_at(base, ["n"], nothing).equals(TABLE.select(["n"]).slice(0, 0))
    assert rows_at(base, [], np.arange(5)).num_rows == 5


def test_columns_at_hand_are_not_read_again(base: BaseFile) -> None:
    doubled = pa.chunked_array([pa.array(np.arange(ROWS) * 2)])
    parts = list(batches_with({"n": doubled}, base, ["n", "text"], base.row_groups))
    found = pa.concat_tables(table for _, table in parts)
    assert found.column("n").equals(doubled)
    assert found.column("text").equals(TABLE.column("text"))


@pytest.mark.parametrize("columns", [["n"], ["half"], ["text"], ["n", "text", "half"]])
def test_rows_without_the_dropped_ones(columns: list[str]) -> None:
    dropped = np.array([0, 1, 5_000, 20_000, 20_001, 30_000, 59_999])
    start = 20_000
    batch = TABLE.select(columns).slice(start, 10_000)
    expected = TABLE.select(columns).take(pa.array(np.setdiff1d(np.arange(start, start + 10_000), dropped)))
    assert without(batch, start, dropped).equals(expected)
    assert without(batch, start, dropped[:3]).equals(batch)


def test_shares_by_position_hold_as_many_records_wherever_these_lie() -> None:
    crowded = [np.arange(1_000_000, 1_000_900), np.array([5, 1_000_100, 9_000_000])]
    every = np.concatenate(crowded)
    seen = []
    for number in range(3):
        first, end = Share(number, 3).bounds(crowded)
        mine = every[(every >= first) & (every < (end or every.max() + 1))]
        assert abs(len(mine) - len(every) // 3) <= 2
        seen += mine.tolist()
    assert sorted(seen) == sorted(every.tolist())
