"""The commit protocol: what stands in the timeline, what a crash leaves, what the next writer does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater
from headwater.errors import InvalidArgument, OutcomeUnknown, TableLocked
from headwater.hudi.schema import META_SCHEMA
from headwater.hudi.table import HudiTable
from headwater.hudi.write.create import create_table, schema_text
from headwater.hudi.write.model import WrittenFile
from headwater.hudi.write.transaction import Action, Transaction, begin
from headwater.spec.model import Instant
from headwater.storage import Storage
from headwater.storage.faults import FaultyStorage, SimulatedCrash

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string())])
VERSIONS = (6, 8, 9)


def make_table(folder: Path, version: int, kind: str = "cow") -> HudiTable:
    storage = Storage.at(folder / "t")
    create_table(
        storage,
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        partition_by=["city"],
        kind="cow" if kind == "cow" else "mor",
        version=version,
    )
    return HudiTable.open(storage)


def write_file(write: Transaction, partition: str, ids: list[str], file_id: str = "f1-0") -> WrittenFile:
    """A base file as a writer makes one, as small as it gets."""
    name = f"{file_id}_0-0-0_{write.instant}.parquet"
    write.mark(partition, name, "CREATE")
    rows = {
        "_hoodie_commit_time": [write.instant] * len(ids),
        "_hoodie_commit_seqno": [f"{write.instant}_0_{i}" for i in range(len(ids))],
        "_hoodie_record_key": ids,
        "_hoodie_partition_path": [partition] * len(ids),
        "_hoodie_file_name": [name] * len(ids),
        "id": ids,
        "ts": [1] * len(ids),
        "city": [partition] * len(ids),
    }
    table = pa.table(rows, schema=pa.schema([*META_SCHEMA, *SCHEMA]))
    path = f"{partition}/{name}"
    with write.storage.open_output(path) as out:
        pq.write_table(table, out)
    entry = write.storage.find(path)
    assert entry is not None
    return WrittenFile(partition, file_id, name, entry.size, len(ids), inserted=len(ids))


def insert(table: HudiTable, ids: list[str], *, file_id: str = "f1-0", partition: str = "sf") -> Instant:
    action: Action = "deltacommit" if table.config.is_merge_on_read else "commit"
    with begin(table, action, "insert", wait=0) as write:
        file = write_file(write, partition, ids, file_id)
        return write.complete([file], schema=schema_text(SCHEMA, "t"))


def ids_of(storage: Storage) -> list[str]:
    return sorted(headwater.open(storage.uri).scan().to_arrow().column("id").to_pylist())


@pytest.fixture(params=VERSIONS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    return make_table(tmp_path, request.param)


def test_a_completed_write_is_read(table: HudiTable) -> None:
    done = insert(table, ["a", "b"])
    assert ids_of(table.storage) == ["a", "b"]
    opened = HudiTable.open(table.storage)
    assert opened.timeline.commits == (done,)
    assert opened.timeline.metadata(done).operation == "INSERT"
    assert opened.timeline.metadata(done).write_stats[0].num_inserts == 2


def test_the_timeline_has_all_three_states_and_layout_2_the_completion_time(table: HudiTable) -> None:
    done = insert(table, ["a"])
    time, folder = done.requested_at, table.config.timeline_folder
    names = [e.name for e in table.storage.list(folder) if e.name.startswith(time)]
    completed = f"{time}.commit" if table.config.version == 6 else f"{time}_{done.completed_at}.commit"
    assert sorted(names) == sorted([completed, f"{time}.commit.requested", f"{time}.inflight"])
    content = table.storage.read_bytes(f"{folder}/{completed}")
    if table.config.version == 6:
        assert json.loads(content)["operationType"] == "INSERT"
    else:
        assert content[:4] == b"Obj\x01"


def test_nothing_is_left_but_the_commit(table: HudiTable) -> None:
    insert(table, ["a"])
    for folder in (".hoodie/.temp", ".hoodie/.heartbeat"):
        assert table.storage.list(folder) == []


def test_instants_grow_even_when_the_clock_stands(table: HudiTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)
    done = [insert(table, [str(i)], file_id=f"f{i}-0") for i in range(3)]
    times = [time for instant in done for time in (instant.requested_at, str(instant.completed_at))]
    if table.config.version != 6:
        assert times == sorted(set(times))
    assert [i.requested_at for i in done] == sorted({i.requested_at for i in done})


def test_a_failed_write_is_rolled_back_at_once(table: HudiTable) -> None:
    insert(table, ["a"])
    made = []

    def fail() -> None:
        with begin(table, "commit", "insert") as write:
            made.append(write_file(write, "sf", ["b"], "f2-0"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert table.storage.find(made[0].path) is None
    opened = HudiTable.open(table.storage)
    assert [i.action for i in opened.timeline.instants] == ["commit", "rollback"]
    assert all(i.is_completed for i in opened.timeline.instants)
    assert ids_of(table.storage) == ["a"]


def test_a_write_that_made_no_file_leaves_no_trace(table: HudiTable) -> None:
    with begin(table, "commit", "insert"):
        pass
    assert HudiTable.open(table.storage).timeline.instants == ()
    assert insert(table, ["a"]).is_completed


def test_a_marked_file_that_is_not_in_the_commit_is_removed(table: HudiTable) -> None:
    with begin(table, "commit", "insert") as write:
        kept = write_file(write, "sf", ["a"], "f1-0")
        dropped = write_file(write, "sf", ["a"], "f2-0")
        write.complete([kept], schema=schema_text(SCHEMA, "t"))
    assert table.storage.find(dropped.path) is None
    assert ids_of(table.storage) == ["a"]


def test_a_file_that_was_not_marked_is_refused(table: HudiTable) -> None:
    with pytest.raises(InvalidArgument, match="not marked"), begin(table, "commit", "insert") as write:
        write.complete([WrittenFile("sf", "f1-0", "f1-0_0-0-0_1.parquet", 1, 1)], schema=schema_text(SCHEMA, "t"))
    assert HudiTable.open(table.storage).timeline.commits == ()


def test_a_replace_commit_hides_the_groups_that_it_replaces(table: HudiTable) -> None:
    insert(table, ["a"])
    with begin(table, "replacecommit", "insert_overwrite_table") as write:
        file = write_file(write, "la", ["b"], "f2-0")
        write.complete([file], replaced={"sf": ["f1-0"]}, schema=schema_text(SCHEMA, "t"))
    assert ids_of(table.storage) == ["b"]


def test_a_second_writer_waits_and_gives_up(table: HudiTable) -> None:
    with begin(table, "commit", "insert"), pytest.raises(TableLocked, match="at work"):
        begin(table, "commit", "insert", wait=0)


def test_a_dead_writer_whose_lock_was_deleted_is_dead_once_its_heartbeat_is_old(table: HudiTable) -> None:
    for _ in range(3):
        insert(table, ["a"])
    crashed = FaultyStorage.over(table.storage)
    write = begin(HudiTable.open(crashed), "commit", "insert")
    crashed.faults.dead = True
    write._lock.forget()
    table.storage.delete_folder(".hoodie/.locks")
    with pytest.raises(TableLocked, match="heartbeat is fresh"):
        begin(table, "commit", "insert", wait=0)
    beat = Path(table.storage.root) / ".hoodie/.heartbeat" / write.instant
    os.utime(beat, (1, 1))
    insert(table, ["b"], file_id="f2-0")
    assert not beat.exists()


def test_the_partition_gets_its_own_file_once(table: HudiTable) -> None:
    first = insert(table, ["a"])
    insert(table, ["b"], file_id="f2-0")
    text = table.storage.read_bytes("sf/.hoodie_partition_metadata").decode()
    assert f"commitTime={first.requested_at}\npartitionDepth=1\n" in text


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fault", ["before", "after", "torn"])
def test_a_crash_at_any_call_shows_the_state_before_or_after(tmp_path: Path, version: int, fault: str) -> None:
    plain = make_table(tmp_path / "counted", version)
    insert(plain, ["a"])
    counting = FaultyStorage.over(plain.storage)
    insert(HudiTable.open(counting), ["b"], file_id="f2-0")
    calls = counting.faults.calls
    seen = set()
    for number in range(len(calls)):
        table = make_table(tmp_path / str(number), version)
        insert(table, ["a"])
        faulty = FaultyStorage.over(table.storage, at=number, fault=fault)  # type: ignore[arg-type]
        with pytest.raises(SimulatedCrash):
            insert(HudiTable.open(faulty), ["b"], file_id="f2-0")
        after = ids_of(table.storage)
        assert after in (["a"], ["a", "b"]), calls[number]
        seen.add(tuple(after))
        insert(HudiTable.open(table.storage), ["c"], file_id="f3-0")
        assert ids_of(table.storage) == [*after, "c"], calls[number]
        opened = HudiTable.open(table.storage)
        assert all(i.is_completed for i in opened.timeline.instants)
        assert [e.name for e in table.storage.list(".hoodie/.temp")] == []
        assert [e.name for e in table.storage.list(".hoodie/.heartbeat")] == []
        names = {e.name for e in table.storage.list("sf") if e.name.endswith(".parquet")}
        assert len(names) == len(after) + 1, calls[number]
    assert seen == {("a",), ("a", "b")}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lost_answer_at_any_call_neither_loses_nor_doubles(tmp_path: Path, version: int) -> None:
    plain = make_table(tmp_path / "counted", version)
    counting = FaultyStorage.over(plain.storage)
    insert(HudiTable.open(counting), ["b"])
    for number, call in enumerate(counting.faults.calls):
        table = make_table(tmp_path / str(number), version)
        faulty = FaultyStorage.over(table.storage, at=number, fault="lost")
        try:
            insert(HudiTable.open(faulty), ["b"])
        except OutcomeUnknown:
            raise AssertionError(f"{call}: reading back tells") from None
        except OSError:
            expected = []
        else:
            expected = ["b"]
        assert ids_of(table.storage) == expected, call
        insert(HudiTable.open(table.storage), ["c"], file_id="f3-0")
        assert ids_of(table.storage) == [*expected, "c"], call


def test_where_the_storage_does_not_answer_the_outcome_is_unknown_and_nothing_is_undone(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Storage, "is_local", False)
    counting = FaultyStorage.over(make_table(Path(table.storage.uri).parent / "counted", table.config.version).storage)
    insert(HudiTable.open(counting), ["b"])
    last = next(n for n, call in enumerate(counting.faults.calls) if call.endswith(".commit"))
    faulty = FaultyStorage.over(table.storage, at=last, fault="failed", times=100)
    with pytest.raises(OutcomeUnknown, match="not known"):
        insert(HudiTable.open(faulty), ["b"])
    assert len(HudiTable.open(table.storage).timeline.instants) == 1
    insert(HudiTable.open(table.storage), ["c"], file_id="f3-0")
    assert ids_of(table.storage) == ["c"]
