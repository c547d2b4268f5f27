"""Bootstrapped tables: rows whose own columns lie in files outside the table, next to skeletons in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import written

import headwater
from headwater.errors import CorruptFile, MissingFile
from headwater.hudi.base_file import open_base_file
from headwater.hudi.bootstrap import INSTANT, BootstrappedFile
from headwater.storage import Storage
from headwater.verify import verify

TABLES = written.every("boot_")


@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "listing"])
@pytest.mark.parametrize("name", TABLES)
def test_rows_are_those_that_hudi_reads(name: str, metadata: bool, tmp_path: Path) -> None:
    table = headwater.open(written.unpack(name, tmp_path), metadata=metadata)
    expected = written.expected(name)
    for mode in ("snapshot", "read_optimized"):
        got = table.scan(mode=mode).to_arrow().to_pylist()
        assert written.in_order(got) == written.in_order(expected[mode]), mode
    for text, rows in expected["filters"]:
        assert written.in_order(table.scan(filter=text).to_arrow().to_pylist()) == written.in_order(rows), text
    for start, end, rows in expected["incremental"]:
        got = table.incremental(start, end).to_arrow().to_pylist()
        if expected["release"] == "0.15.0" and "_mor_" in name:
            # Incremental reads of 0.15.0 leave out what lies outside the table: nulls, where 1.2.0 gives the values.
            outside = {row["_hoodie_record_key"] for row in rows if row["id"] is None}
            assert {row["_hoodie_record_key"] for row in got} == {row["_hoodie_record_key"] for row in rows}
            assert outside == {row["_hoodie_record_key"] for row in got if row["_hoodie_commit_time"] == INSTANT}
            got = [row for row in got if row["_hoodie_record_key"] not in outside]
            rows = [row for row in rows if row["id"] is not None]
        assert written.in_order(got) == written.in_order(rows), (start, end)


@pytest.mark.parametrize("name", TABLES)
def test_projections_read_what_they_ask_for(name: str, tmp_path: Path) -> None:
    table = headwater.open(written.unpack(name, tmp_path))
    whole = table.scan().to_arrow()
    for columns in (["name"], ["_hoodie_record_key"], ["_hoodie_record_key", "xs", "_hoodie_commit_time"], []):
        assert table.scan(columns=columns).to_arrow().equals(whole.select(columns))
    assert table.lookup(["7"], columns=["id", "price"]).to_pylist() == [{"id": 7, "price": 7 / 3}]
    assert table.record_index.tag(pa.array(["7", "2"])).column("file_id").null_count == 1


@pytest.mark.parametrize("name", TABLES)
def test_whole_table_is_fine(name: str, tmp_path: Path) -> None:
    report = verify(headwater.open(written.unpack(name, tmp_path)), deep=True)
    assert report.findings == ()
    assert report.checked["rows in base files"]


def skeleton_of(path: Path) -> Path:
    return sorted(path.rglob("*_00000000000001.parquet"))[0]


def source_files(path: Path) -> list[Path]:
    return sorted(path.with_name(f"{path.name}.source").rglob("*.parquet"))


def test_row_groups_of_both_files_need_not_agree(tmp_path: Path) -> None:
    path = written.unpack("boot_meta_cow_flat_120", tmp_path)
    for file in source_files(path):
        pq.write_table(pq.read_table(file), file, row_group_size=2)
    table = headwater.open(path)
    rows = written.expected("boot_meta_cow_flat_120")["snapshot"]
    assert written.in_order(table.scan().to_arrow().to_pylist()) == written.in_order(rows)
    opened = open_base_file(Storage.at(path), str(skeleton_of(path).relative_to(path)))
    assert isinstance(opened, BootstrappedFile)
    assert len(opened.row_groups) > 1
    last = opened.read(["id", "_hoodie_record_key"], opened.row_groups[-1:])
    assert [str(number) for number in last.column("id").to_pylist()] == last.column("_hoodie_record_key").to_pylist()


def test_source_that_is_gone_is_told(tmp_path: Path) -> None:
    path = written.unpack("boot_meta_cow_flat_120", tmp_path)
    shutil.rmtree(path.with_name(f"{path.name}.source"))
    with pytest.raises(MissingFile, match=r"boot_meta_cow_flat_120\.source"):
        headwater.open(path).scan(mode="snapshot", as_of="00000000000001").to_arrow()


def test_source_of_other_rows_is_corrupt(tmp_path: Path) -> None:
    path = written.unpack("boot_meta_cow_flat_120", tmp_path)
    for file in source_files(path):
        pq.write_table(pq.read_table(file).slice(1), file)
    with pytest.raises(CorruptFile, match=r"which it was bootstrapped from, has \d+; restore that file"):
        headwater.open(path).scan(as_of="00000000000001").to_arrow()


def test_index_that_does_not_know_a_skeleton_is_corrupt(tmp_path: Path) -> None:
    path = written.unpack("boot_meta_cow_flat_120", tmp_path)
    for file in (path / ".hoodie/.aux/.bootstrap/.fileids").glob("*.hfile"):
        file.unlink()
    with pytest.raises(CorruptFile, match=r"is a bootstrap's skeleton, and .* does not say which file it belongs to"):
        headwater.open(path).scan(as_of="00000000000001").to_arrow()


def test_damaged_index_is_corrupt(tmp_path: Path) -> None:
    path = written.unpack("boot_meta_cow_flat_120", tmp_path)
    for file in (path / ".hoodie/.aux/.bootstrap/.fileids").glob("*.hfile"):
        file.write_bytes(b"garbage" * 100)
    with pytest.raises(CorruptFile, match="fileids"):
        headwater.open(path).scan(as_of="00000000000001").to_arrow()


def test_source_is_found_on_the_filesystem_of_the_table(tmp_path: Path) -> None:
    name, memory = "boot_meta_mor_part_120", fsspec.filesystem("memory")
    written.unpack(name, tmp_path)
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        content = file.read_bytes().replace(str(tmp_path).encode(), b"memory://lake")
        memory.pipe(
            f"/lake/{file.relative_to(tmp_path)}", content if file.suffix == ".properties" else file.read_bytes()
        )
    shutil.rmtree(tmp_path)
    try:
        rows = headwater.open(f"memory://lake/{name}").scan().to_arrow().to_pylist()
    finally:
        memory.rm("/lake", recursive=True)
    assert written.in_order(rows) == written.in_order(written.expected(name)["snapshot"])
