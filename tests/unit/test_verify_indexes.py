"""What `verify` says of indexes whose records were changed, and of change files. The records are real ones, altered."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest
from tests import places, written

import headwater
from headwater.hudi.hfile import BytesSource, HFileReader, HFileWriter
from headwater.hudi.log import BlockType, scan_blocks, write_block
from headwater.hudi.metadata_table.locations import count_locations
from headwater.hudi.metadata_table.records import parsed_schema
from headwater.storage import Storage
from headwater.verify import VerifyReport, verify

Change = Callable[[dict[str, Any]], None]


def fixture(name: str, into: Path) -> Path:
    return places.unpack(f"generated/{name}", into)


def check(path: Path, *, deep: bool = False) -> VerifyReport:
    return verify(headwater.open(path), deep=deep)


def alter(table: Path, index: str, change: Change) -> None:
    """Change the records of an index: their log blocks and base files are written anew."""
    folder = table / ".hoodie" / "metadata" / index
    storage = Storage.at(table / ".hoodie" / "metadata")
    for path in sorted(folder.glob(".*.log.*")):
        blocks = []
        for block in scan_blocks(storage, f"{index}/{path.name}"):
            content = bytes(block.content())
            if block.type is BlockType.HFILE_DATA:
                assert block.schema is not None
                content = _altered(content, block.schema, change)
            blocks.append(write_block(block.type, block.headers, content))
        path.write_bytes(b"".join(blocks))
    for path in folder.glob("*.hfile"):
        reader = HFileReader(BytesSource(memoryview(path.read_bytes())), path.name)
        path.write_bytes(_altered(path.read_bytes(), reader.file_info.get(b"schema") or b"", change))


def _altered(content: bytes, schema: str | bytes, change: Change) -> bytes:
    reader = HFileReader(BytesSource(memoryview(content)), "altered")
    writer = HFileWriter(codec="NONE")
    for key, value in reader.scan():
        if len(value):
            parsed = parsed_schema(schema)
            record: Any = fastavro.schemaless_reader(
                io.BytesIO(value), parsed, None, return_record_name=True, return_record_name_override=True
            )
            change(record)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, record)
            value = out.getvalue()
        writer.append(bytes(key), bytes(value))
    if isinstance(schema, bytes):
        writer.add_info(b"schema", schema)
    return writer.finish()


def narrowed(column: str, wrapper: str, value: Any) -> Change:
    """The column's greatest value becomes this one."""

    def change(record: dict[str, Any]) -> None:
        stats = record.get("ColumnStatsMetadata")
        if stats is not None and stats["columnName"] == column and stats["maxValue"] is not None:
            name = stats["maxValue"][0].rsplit(".", 1)[0] + f".{wrapper}"
            stats["maxValue"] = (name, {"value": value})

    return change


def test_partition_statistics_that_do_not_hold_those_of_the_files_are_errors(tmp_path: Path) -> None:
    path = written.unpack("expr_mor_120", tmp_path)
    assert check(path).findings == ()
    alter(path, "partition_stats", narrowed("id", "IntWrapper", 2))
    report = check(path)
    assert not report.ok
    assert {finding.where for finding in report.findings} == {
        "partition city=ny, column id",
        "partition city=sf, column id",
    }
    assert any("the partition's statistics reach from 1 to 2, those of file" in f.what for f in report.findings)


def test_statistics_of_a_log_that_do_not_hold_its_records_are_errors(tmp_path: Path) -> None:
    path = fixture("idx_stats_mor_v9_120", tmp_path)
    report = check(path)
    assert report.findings == ()
    assert report.checked["column statistics of logs"]
    alter(path, "column_stats", narrowed("_hoodie_record_key", "StringWrapper", ""))
    wrong = [finding for finding in check(path).findings if ".log." in finding.where]
    assert wrong
    assert all(f.what.startswith("the column statistics' greatest value is '', its records' '") for f in wrong)


def test_bloom_filter_that_is_not_the_files_is_an_error(tmp_path: Path) -> None:
    path = fixture("idx_mdt_all_cow_v6_0150", tmp_path)
    report = check(path, deep=True)
    assert report.findings == ()
    assert report.checked["bloom filters"]
    others: list[bytes] = []

    def exchanged(record: dict[str, Any]) -> None:
        bloom = record.get("BloomFilterMetadata")
        if bloom is not None:
            others.append(bloom["bloomFilter"])
            bloom["bloomFilter"] = others[0]

    alter(path, "bloom_filters", exchanged)
    assert others
    shallow, deep = check(path), check(path, deep=True)
    assert "the metadata table's bloom filter is not that of the file's footer" in {f.what for f in shallow.findings}
    assert any("bloom filter lacks" in finding.what for finding in deep.findings)


@pytest.mark.parametrize("name", ["cdc_data_before_cow_v9_120", "cdc_clus_cow_v6_0150"])
def test_change_files_are_looked_at(name: str, tmp_path: Path) -> None:
    path = fixture(name, tmp_path)
    report = check(path)
    assert report.ok
    assert report.checked["change files"]
    first, *_ = found = sorted(path.rglob("*.log.*.cdc")) or sorted(path.rglob("*-cdc*")) or sorted(path.rglob("*cdc"))
    first.write_bytes(first.read_bytes()[:-20])
    assert not check(path).ok
    for file in found:
        file.unlink()
    gone = [finding for finding in check(path).findings if "the file of change records is not there" in finding.what]
    assert len(gone) == len(found)


@pytest.mark.parametrize("name", written.every("rli_part_"))
def test_record_index_by_partition_is_looked_at(name: str, tmp_path: Path) -> None:
    path = written.unpack(name, tmp_path)
    report = check(path, deep=True)
    assert report.findings == ()
    assert report.checked["record locations"] == len(written.expected(name)["snapshot"])


def test_record_index_is_counted_block_by_block(tmp_path: Path) -> None:
    """Memory is that of one block, however long the index is."""
    path = fixture("idx_sec_updates_mor_v8_102", tmp_path)
    metadata = headwater.open(path).hudi.metadata
    assert metadata is not None
    current = next(group.slice.base_file for group in metadata.file_groups("record_index") if group.slice.base_file)
    base = path / ".hoodie" / "metadata" / current.path
    reader = HFileReader(BytesSource(memoryview(base.read_bytes())), base.name)
    schema = reader.file_info[b"schema"]
    _key, value = next(iter(reader.scan()))
    writer = HFileWriter(codec="GZ", block_size=1 << 14)
    for number in range(60_000):
        writer.append(f"key{number:08d}".encode(), bytes(value))
    writer.add_info(b"schema", schema)
    base.write_bytes(writer.finish())
    table = headwater.open(path)
    assert table.hudi.metadata is not None
    tracemalloc.start()
    counts = list(count_locations(table.hudi.metadata))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(found.total() for *_, found in counts) >= 60_000
    assert [(done, total) for done, total, _ in counts][-1] == (len(counts), len(counts))
    assert peak < 20 << 20
