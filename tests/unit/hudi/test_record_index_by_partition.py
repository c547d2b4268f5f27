"""A record index whose file groups belong to partitions of the data table: a key may stand in several of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests import written

import headwater
from headwater.errors import CorruptFile

TABLES = written.every("rli_part_")
KEYS = [*(f"k{number}" for number in range(24)), *(f"z{number}" for number in range(3)), "none"]


@pytest.mark.parametrize("name", TABLES)
def test_index_finds_what_a_search_finds(name: str, tmp_path: Path) -> None:
    path = written.unpack(name, tmp_path)
    table = headwater.open(path)
    assert table.hudi.metadata is not None
    assert table.hudi.metadata.index_is_partitioned
    by_index, by_search = (
        written.in_order(opened.record_index.tag(pa.array(KEYS)).drop(["position"]).to_pylist())
        for opened in (table, headwater.open(path, metadata=False))
    )
    assert by_index == by_search
    places = table.record_index.tag(pa.array(["k1", "none"]))
    assert sorted(places.column("partition").to_pylist(), key=str) == [None, "part=a b", "part=x-0001"]


@pytest.mark.parametrize("name", TABLES)
def test_lookup_reads_the_slices_of_the_key_in_every_partition(name: str, tmp_path: Path) -> None:
    table = headwater.open(written.unpack(name, tmp_path))
    rows = written.expected(name)["snapshot"]
    assert written.in_order(table.lookup(KEYS).to_pylist()) == written.in_order(rows)
    assert len(table.record_index.slices(pa.array(["k1"]))) == 2
    assert table.lookup(["k9"]).num_rows == 0, "it was deleted"


@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "listing"])
@pytest.mark.parametrize("name", TABLES)
def test_filters_on_the_key_give_what_hudi_gives(name: str, metadata: bool, tmp_path: Path) -> None:
    table = headwater.open(written.unpack(name, tmp_path), metadata=metadata)
    for text, rows in written.expected(name)["filters"]:
        scan = table.scan(filter=text)
        assert written.in_order(scan.to_arrow().to_pylist()) == written.in_order(rows), text
        assert ("prune by record index" in scan.explain()) == metadata


def test_filter_on_the_key_reads_only_the_slices_that_hold_it(tmp_path: Path) -> None:
    table = headwater.open(written.unpack("rli_part_mor_120", tmp_path))
    step = next(step for step in table.scan(filter="id = 'k1'").plan().steps if "record index" in step.name)
    assert (step.kept, step.note) == (2, "1 key")
    step = next(s for s in table.scan(filter="id = 'k1' AND part = 'a b'").plan().steps if "record index" in s.name)
    assert step.kept == 1


def test_file_group_that_names_no_partition_is_corrupt(tmp_path: Path) -> None:
    path = written.unpack("rli_part_mor_120", tmp_path)
    index = path / ".hoodie/metadata/record_index"
    log = next(index.glob(".record-index-part*0000-0_*"))
    log.rename(index / log.name.replace(log.name[1 : log.name.index("-0000")], "record-index"))
    with pytest.raises(CorruptFile, match="record-index-0000-0 names none; rebuild the metadata table"):
        headwater.open(path).record_index.tag(pa.array(["k1"]))
