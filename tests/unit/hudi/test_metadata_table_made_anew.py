"""A metadata table that was made of a table's files knows the writes before it, though its timeline names none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import written

import headwater
from headwater.hudi.metadata_table.reader import MetadataTable


def metadata_table(path: Path) -> MetadataTable:
    found = MetadataTable.open(headwater.open(path).hudi.timeline)
    assert found is not None
    return found


@pytest.mark.parametrize("name", written.every("mdt_"))
def test_metadata_table_made_after_the_newest_write_is_used(name: str, tmp_path: Path) -> None:
    path = written.unpack(name, tmp_path)
    table = headwater.open(path)
    newest = table.hudi.timeline.commits[-1]
    found = metadata_table(path)
    assert newest.requested_at not in {instant.requested_at for instant in found.timeline.completed()}
    assert found.is_current
    assert table.hudi.metadata is not None
    assert not table.warnings


@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "listing"])
@pytest.mark.parametrize("name", written.every("mdt_"))
def test_rows_are_those_that_hudi_reads(name: str, metadata: bool, tmp_path: Path) -> None:
    table = headwater.open(written.unpack(name, tmp_path), metadata=metadata)
    expected = written.expected(name)
    assert written.in_order(table.scan().to_arrow().to_pylist()) == written.in_order(expected["snapshot"])
    for text, rows in expected["filters"]:
        assert written.in_order(table.scan(filter=text).to_arrow().to_pylist()) == written.in_order(rows)


def test_metadata_table_that_a_later_write_left_out_is_not_used(tmp_path: Path) -> None:
    path = written.unpack("mdt_init_mor_120", tmp_path)
    timeline = path / ".hoodie" / "timeline"
    last = max(timeline.glob("*_*.deltacommit"))
    (timeline / "20991231235959000_20991231235959999.deltacommit").write_bytes(last.read_bytes())
    assert not metadata_table(path).is_current
    table = headwater.open(path)
    assert table.hudi.metadata is None
    assert "does not know the newest commit" in table.warnings[0]


def test_metadata_table_that_has_the_writes_before_but_not_the_newest_is_not_used(tmp_path: Path) -> None:
    """Times of files say little, where they are all that tells when something completed: a copy changes them."""
    path = written.unpack("mdt_init_mor_120", tmp_path)
    first, _last = sorted((path / ".hoodie/timeline").glob("*_*.deltacommit"))
    mine = next((path / ".hoodie/metadata/.hoodie/timeline").glob("0*_*.deltacommit"))
    mine.with_name(first.name).write_bytes(mine.read_bytes())
    assert not metadata_table(path).is_current
