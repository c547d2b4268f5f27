"""The shipped tables stay as they are documented, and the tour shows what it promises."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
from rich.console import Console

import headwater
from headwater.demo import DEMO_TABLES, demo_table
from headwater.demo.shipped import unpack
from headwater.demo.tour import main
from headwater.errors import InvalidArgument


@pytest.mark.parametrize("name", DEMO_TABLES)
def test_shipped_table_has_the_documented_commits(name: str) -> None:
    table = headwater.open(demo_table(name))
    assert tuple(instant.requested_at for instant in table.hudi.timeline.commits) == DEMO_TABLES[name].instants
    assert table.version == (6 if name == "legacy" else 9)


@pytest.mark.parametrize(("name", "rows"), [("trips", 11), ("orders", 7), ("stats", 13), ("legacy", 9)])
def test_shipped_table_has_the_documented_rows(name: str, rows: int) -> None:
    table = headwater.open(demo_table(name)).scan().to_arrow()
    assert table.num_rows == rows
    assert {"id", "name", "price", "ts", "city"} <= set(table.column_names)


def test_shipped_tables_are_small() -> None:
    folder = resources.files("headwater.demo") / "tables"
    assert sum(len((folder / f"{name}.zip").read_bytes()) for name in DEMO_TABLES) < 1_500_000


def test_table_is_unpacked_once() -> None:
    assert demo_table("trips") == demo_table("trips")


def test_unknown_table_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match="no demo table 'x'; there are: trips, orders, stats, legacy"):
        demo_table("x")


def test_files_keep_their_modification_times(tmp_path: Path) -> None:
    commit = Path(unpack("legacy", str(tmp_path))) / ".hoodie" / "20261115082939352.deltacommit"
    assert os.path.getmtime(commit) == 1794731380.0  # 2026-11-15 08:29:40 UTC, two seconds being a zip's step


def tour(width: int) -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    main(Console(file=out, width=width, force_terminal=False))
    out.flush()
    return out.buffer.getvalue().decode().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_tour_fits_100_columns_and_shows_every_kind_of_read() -> None:
    lines = tour(100)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 100
    for name in DEMO_TABLES:
        assert f"\n{name}  " in text
    for call in ("scan()", "scan(as_of=…)", "incremental(…)", "changes(…)"):
        assert call in text
    assert "1 of 3 partitions" in text
    assert "by the metadata table" in text
    assert "…" not in "".join(line for line in lines if line[:3].strip().isdigit()), "no cell is cut"


def test_tour_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "headwater.demo"], capture_output=True, timeout=120, check=True)
    assert b"Headwater reads Apache Hudi tables" in done.stdout
    assert done.stderr == b""
