"""A scan holds no more than its budget: fewer slices at once, and logs merged in shares."""

from __future__ import annotations

import pytest
from tests.fixtures.suites import table

import headwater
from headwater.errors import InvalidArgument
from headwater.hudi import slice_reader
from headwater.hudi.merge import log_rows
from headwater.pipeline import affordable_workers, parse_memory
from headwater.plan import ScanTask
from headwater.spec import FileGroupId, FileRef, FileSlice, PartitionDescriptor

MERGED = [
    "mrg_event_mor_v6_120",
    "mrg_event_mor_v9_120",
    "mrg_commit_mor_v9_120",
    "partial_merge_mor_v9_120",
    "pay_partialupdate_mor_v9_120",
    "log_compaction_mor_v9_120",
    "log_parquet_mor_v8_120",
    "log_positions_mor_v8_120",
    "dups_update_mor_v9_120",
    "nometa_mor_v9_120",
]


@pytest.mark.parametrize("name", MERGED)
def test_a_log_merged_in_many_shares_gives_the_same_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = headwater.open(table("generated", name).path())
    whole = found.scan().to_arrow().to_pylist()
    monkeypatch.setattr(slice_reader, "_DECODED", 10**6)
    monkeypatch.setattr(log_rows, "_PART", 200)
    shared = found.scan(memory="64MB").to_arrow().to_pylist()
    assert sorted(map(str, shared)) == sorted(map(str, whole))


def tasks(count: int, log_bytes: int) -> list[ScanTask]:
    log = (FileRef("f.log", log_bytes),)
    slice_ = FileSlice(FileGroupId("", "f"), "1", FileRef("f.parquet", 1), log)
    return [ScanTask(PartitionDescriptor(""), slice_)] * count


def test_fewer_slices_are_read_at_once_where_logs_are_large() -> None:
    assert affordable_workers(tasks(8, 10**6), 4, parse_memory("1GB")) == 4
    assert affordable_workers(tasks(8, 10**8), 4, parse_memory("1GB")) == 2
    assert affordable_workers(tasks(8, 10**10), 4, parse_memory("1GB")) == 1
    assert affordable_workers(tasks(1, 10), 4, parse_memory("1GB")) == 1


@pytest.mark.parametrize("text", ["", "1 GBB", "many", "-5MB", "1e9"])
def test_a_budget_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="memory="):
        parse_memory(text)
