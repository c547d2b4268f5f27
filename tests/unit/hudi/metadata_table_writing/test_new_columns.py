"""Columns that a later write adds, and logs of changes: in the indexes as with Hudi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater
from headwater.hudi.metadata_table.reader import MetadataTable
from headwater.hudi.metadata_table.records import ColumnStats
from headwater.hudi.table import HudiTable
from headwater.storage import Storage
from headwater.storage.faults import FaultyStorage, SimulatedCrash
from headwater.table import Table
from headwater.verify import verify

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string())])
KINDS = [(kind, version) for kind in ("cow", "mor") for version in (6, 8, 9)]
every_kind = pytest.mark.parametrize(("kind", "version"), KINDS)


def rows(*ids: str, **more: Any) -> pa.Table:
    cities = ["sf" if id < "m" else "la" for id in ids]
    return pa.table(
        {"id": list(ids), "ts": [1] * len(ids), "city": cities, **{k: [v] * len(ids) for k, v in more.items()}}
    )


def make(path: Path, kind: str, version: int, **more: Any) -> headwater.Table:
    table = headwater.create(path, schema=SCHEMA, key="id", partition_by="city", kind=kind, version=version, **more)
    table.insert(rows("a", "b", "x"))
    table.index.create("column_stats", *(("partition_stats",) if version >= 8 else ()))
    return table


def indexed(table: headwater.Table) -> list[str]:
    metadata = table.refresh().hudi.metadata
    assert metadata is not None
    return list(metadata.definitions["column_stats"]["sourceFields"])


def found(path: Path, filter: str) -> list[str]:
    ids = {}
    for metadata in (True, False):
        opened = headwater.open(path, metadata=metadata)
        ids[metadata] = sorted(opened.scan(columns=["id"], filter=filter).to_arrow().column("id").to_pylist())
    assert ids[True] == ids[False], filter
    return ids[True]


@every_kind
def test_a_column_that_a_write_adds_gets_statistics(kind: str, version: int, tmp_path: Path) -> None:
    table = make(tmp_path, kind, version)
    table.upsert(rows("b", "c", more=5))
    table.insert(rows("d", more=9))
    if version >= 8:
        assert indexed(table)[-1] == "more"
    assert found(tmp_path, "more = 5") == ["b", "c"]
    assert found(tmp_path, "more = 9") == ["d"]
    assert found(tmp_path, "more IS NULL") == ["a", "x"]
    assert found(tmp_path, "more IS NULL AND city = 'la'") == ["x"]
    assert found(tmp_path, "more > 100") == []
    report = verify(headwater.open(tmp_path), deep=True)
    assert report.findings == ()


@pytest.mark.parametrize("test", ["more IS NULL", "more <=> NULL", "NOT more IS NOT NULL"])
def test_rows_from_before_a_column_are_null_though_hudis_partition_statistics_count_none(
    test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi unites the statistics of the files that have the column, and counts no nulls of the others."""
    table = make(tmp_path, "mor", 9)
    table.upsert(rows("b", "c", "x", "y", more=5))
    stated = ColumnStats("", "more", 5, 5, value_count=2, null_count=0, total_size=8, total_uncompressed_size=8)
    monkeypatch.setattr(
        MetadataTable, "partition_stats", lambda self, columns, paths, index=None: {(p, "more"): stated for p in paths}
    )
    assert headwater.open(tmp_path).scan(filter=test, columns=["id"]).to_arrow().column(0).to_pylist() == ["a"]
    assert headwater.open(tmp_path).scan(filter="more = 6").explain().count("0 of 2 partitions") == 1


@pytest.mark.parametrize("version", [8, 9])
def test_columns_that_were_chosen_stay_the_only_ones(version: int, tmp_path: Path) -> None:
    table = headwater.create(tmp_path, schema=SCHEMA, key="id", partition_by="city", version=version)
    table.insert(rows("a"))
    table.index.create("column_stats", columns=["ts"])
    table.upsert(rows("b", more=5))
    assert indexed(table) == ["ts"]
    assert found(tmp_path, "more = 5") == ["b"]


@pytest.mark.parametrize("version", [8, 9])
def test_a_write_that_dies_after_it_named_a_column_does_no_harm(version: int, tmp_path: Path) -> None:
    make(tmp_path, "cow", version)
    counting = FaultyStorage.over(Storage.at(tmp_path))
    for at in range(100):
        counting = FaultyStorage.over(Storage.at(tmp_path), at=at)
        try:
            Table(HudiTable.open(counting)).upsert(rows("b", more=5))
            break
        except SimulatedCrash:
            if "more" in indexed(headwater.open(tmp_path)):
                break
    table = headwater.open(tmp_path)
    assert "more" not in table.schema.names
    table.upsert(rows("c"))
    table.upsert(rows("d", more=7, other="x"))
    table.upsert(rows("y", more=8, other="y"))
    assert indexed(table)[-2:] == ["more", "other"]
    assert found(tmp_path, "more = 7") == ["d"]
    assert found(tmp_path, "more IS NULL") == ["a", "b", "c", "x"]
    assert found(tmp_path, "other = 'y'") == ["y"]
    assert verify(headwater.open(tmp_path), deep=True).findings == ()


@every_kind
def test_logs_of_changes_are_listed(kind: str, version: int, tmp_path: Path) -> None:
    logged = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER"}
    table = make(tmp_path, kind, version, properties=logged)
    result = table.upsert(rows("a", "x"))
    made = {path for file in result.files for path, _ in file.change_files}
    metadata = table.refresh().hudi.metadata
    assert metadata is not None
    listed = {
        f"{partition}/{file.name}": file.size
        for partition, files in metadata.files_of(metadata.partitions()).items()
        for file in files
    }
    assert kind == "mor" or made
    for path in made:
        assert listed[path] == (tmp_path / path).stat().st_size
    assert verify(headwater.open(tmp_path), deep=True).findings == ()
