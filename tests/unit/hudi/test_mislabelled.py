"""Milliseconds that files call microseconds are read as Apache Hudi 1.2 reads them (reader-spec R20)."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from tests import mislabelled

import headwater
from headwater.hudi.evolution import convert


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("metadata", [True, False])
def test_times_are_those_that_the_table_tells(tmp_path: Path, kind: str, version: int, metadata: bool) -> None:
    years = mislabelled.make(tmp_path / "t", kind, version)
    table = headwater.open(tmp_path / "t", metadata=metadata)
    times = {key: mislabelled.time_in(year) for key, year in years.items()}
    rows = table.scan(columns=["id", "at", "s", "l", "n"]).to_arrow().to_pylist()
    assert {row["id"]: row["at"] for row in rows} == times
    assert {row["id"]: row["s"]["w"] for row in rows} == times
    assert {row["id"]: row["l"] for row in rows} == {key: [time] for key, time in times.items()}
    assert {row["n"] for row in rows} == {datetime.datetime(2020, 1, 1)}
    for column in ("at", "s.w"):
        assert table.scan(filter=f"{column} > '2024-01-01'").count() == 2
        assert table.scan(filter=f"{column} < '2024-01-01'").count() == 2
        assert table.scan(filter=f"{column} < '1980-01-01'").count() == 0


def test_rows_that_are_written_keep_their_time(tmp_path: Path) -> None:
    mislabelled.make(tmp_path / "t", "cow", 9)
    table = headwater.open(tmp_path / "t")
    row = {"id": "b", "ts": 2025, "at": mislabelled.time_in(2025), "s": None, "l": None, "n": None}
    table.upsert([row])
    years = {row["id"]: row["at"].year for row in table.scan().to_arrow().to_pylist()}
    assert years == {"a": 2024, "b": 2025, "c": 2023, "d": 2024}


def test_a_users_microseconds_are_no_milliseconds() -> None:
    time = mislabelled.time_in(2024)
    given = pa.chunked_array([pa.array([time], pa.timestamp("us", "UTC"))])
    assert convert(given, pa.timestamp("ms", "UTC")).to_pylist() == [time]
