"""`table.index`: indexes made, dropped and made anew by their names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import headwater
from headwater.errors import InvalidArgument, UnsupportedTable
from headwater.hudi.metadata_table.dropping import set_partitions
from headwater.hudi.properties import load_config

ROWS = pa.table({"id": ["a", "b", "c"], "city": ["sf", "la", "sf"], "price": [1.0, None, 3.0], "ts": [1, 1, 1]})


@pytest.fixture(params=[6, 8, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> headwater.Table:
    made = headwater.create(
        tmp_path / "t", schema=ROWS.schema, key="id", ordering="ts", partition_by="city", version=request.param
    )
    made.insert(ROWS)
    return made


def wanted(table: headwater.Table) -> list[str]:
    return ["column_stats", "bloom_filters", "record_index", *(["partition_stats"] if table.version >= 8 else [])]


def test_indexes_are_made_kept_and_dropped(table: headwater.Table) -> None:
    table.index.create(*wanted(table))
    assert set(table.index.names) == {"files", *wanted(table)}
    for step in range(25):
        table.upsert(
            pa.table({"id": ["a", f"n{step}"], "city": ["sf", "ny"], "price": [float(step), 0.0], "ts": [step] * 2})
        )
        assert not table.warnings
    assert table.scan().count() == 28
    assert table.index.verify(deep=True).findings == ()
    table.index.rebuild()
    assert set(table.index.names) == {"files", *wanted(table)}
    assert table.index.verify(deep=True).findings == ()
    table.index.drop("record_index")
    assert set(table.index.names) == {"files", *wanted(table)} - {"record_index"}
    table.upsert(ROWS.slice(0, 1))
    assert table.index.verify(deep=True).findings == ()
    table.index.drop()
    assert table.index.names == ()
    assert table.scan().count() == 28


def test_index_that_cannot_be_is_refused_and_nothing_is_changed(table: headwater.Table) -> None:
    with pytest.raises(InvalidArgument, match="no index is called"):
        table.index.create("secondary")
    with pytest.raises(InvalidArgument, match="partition"):
        table.index.create("partition_stats")
    assert table.index.names == ()


def test_key_that_stands_twice_has_no_place_in_a_record_index(tmp_path: Path) -> None:
    table = headwater.create(tmp_path / "t", schema=ROWS.schema, key="id", ordering="ts", partition_by="city")
    table.bulk_insert(ROWS)
    table.bulk_insert(ROWS)
    with pytest.raises(InvalidArgument, match="stands somewhere else too"):
        table.index.create("record_index")
    assert "record_index" not in load_config(table.hudi.storage).metadata_partitions
    assert headwater.open(tmp_path / "t").scan().count() == 6


def test_index_of_another_kind_stops_a_write_before_it_goes_stale(table: headwater.Table) -> None:
    table.index.create("column_stats")
    config = load_config(table.hudi.storage)
    set_partitions(table.hudi.storage, config, [*config.metadata_partitions, "secondary_index_x"])
    opened = headwater.open(table.hudi.storage.root)
    with pytest.raises(UnsupportedTable, match="secondary_index_x"):
        opened.upsert(ROWS)
    assert headwater.open(table.hudi.storage.root).scan().count() == 3
