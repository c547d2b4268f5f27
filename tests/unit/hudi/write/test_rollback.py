"""Undoing writes: of dead writers and on request, as Hudi writes it down, through crashes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests import places

import headwater
from headwater.errors import InstantNotFound, InvalidArgument, LockLost, TableLocked
from headwater.hudi.log import scan_blocks
from headwater.hudi.log.format import BlockType
from headwater.hudi.table import HudiTable
from headwater.hudi.write import operations
from headwater.hudi.write.create import create_table
from headwater.hudi.write.heartbeat import FOLDER as HEARTBEATS
from headwater.hudi.write.rollback import rollback
from headwater.hudi.write.transaction import begin
from headwater.spec.model import InstantState
from headwater.storage import Storage
from headwater.storage.faults import FaultyStorage, SimulatedCrash

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("city", pa.string())])
CASES = [(kind, version) for kind in ("cow", "mor") for version in (6, 8, 9)]

Rows = list[tuple[str, int, str]]


def make_table(folder: Path, kind: str, version: int) -> HudiTable:
    storage = Storage.at(folder)
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


def rows(ids: str, ts: int, name: str) -> pa.Table:
    cities = ["sf" if letter < "m" else "la" for letter in ids]
    return pa.table({"id": list(ids), "ts": [ts] * len(ids), "name": [name] * len(ids), "city": cities}, schema=SCHEMA)


def upsert(storage: Storage, ids: str, ts: int, name: str) -> str:
    done = operations.upsert(HudiTable.open(storage), rows(ids, ts, name))
    assert done.instant is not None
    return done.instant.requested_at


def read(storage: Storage) -> Rows:
    found = headwater.open(storage.uri).scan(columns=["id", "ts", "name"]).to_arrow().to_pylist()
    return sorted((row["id"], row["ts"], row["name"]) for row in found)


def data_files(storage: Storage) -> list[str]:
    names = [entry.path for entry in storage.list("", recursive=True) if not entry.is_directory]
    return sorted(name for name in names if not name.startswith(".hoodie/") and ".hoodie_partition" not in name)


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}_v{case[1]}")
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    return make_table(tmp_path / "t", *request.param)


def test_the_newest_commit_is_undone(table: HudiTable) -> None:
    storage = table.storage
    upsert(storage, "abx", 1, "one")
    before, files = read(storage), data_files(storage)
    newest = upsert(storage, "ay", 2, "two")
    done = rollback(table, newest)
    assert read(storage) == before
    opened = HudiTable.open(storage)
    assert [i.action for i in opened.timeline.instants][-1] == "rollback"
    assert all(i.is_completed for i in opened.timeline.instants)
    record = opened.timeline.read(done.instant)
    assert record["commitsRollback"] == [newest]
    assert record["instantsRollback"] == [{"commitTime": newest, "action": opened.timeline.commits[0].action}]
    left = set(data_files(storage)) - set(files)
    if table.config.version == 6 and table.config.is_merge_on_read:
        assert {name.rsplit("_", 1)[-1] for name in left if ".log.2_" in name} == {"1-0-1"}
    else:
        assert left == set()
    upsert(storage, "bz", 3, "three")
    assert [row for row in read(storage) if row[2] == "three"] == [("b", 3, "three"), ("z", 3, "three")]


def test_only_the_newest_write_may_be_undone(table: HudiTable) -> None:
    first = upsert(table.storage, "a", 1, "one")
    upsert(table.storage, "b", 1, "one")
    with pytest.raises(InvalidArgument, match="not the newest"):
        rollback(table, first)
    with pytest.raises(InstantNotFound, match="no write at"):
        rollback(table, "20000101000000000")
    assert len(read(table.storage)) == 2
    # the lock is free again
    upsert(table.storage, "c", 1, "one")


def test_the_command_block_is_hudis_byte_for_byte(tmp_path: Path) -> None:
    storage = make_table(tmp_path / "t", "mor", 6).storage
    upsert(storage, "a", 1, "one")
    newest = upsert(storage, "a", 2, "two")
    done = rollback(HudiTable.open(storage), newest)
    (ours,) = [name for name in data_files(storage) if name.endswith("_1-0-1")]
    data = storage.read_bytes(ours)
    real = places.files("generated/rb_done_mor_v6_0150", lambda path: path.endswith(".log.3_1-0-1"))
    (theirs,) = real.values()
    expected = theirs.replace(b"20261115081313633", done.instant.requested_at.encode())
    assert data == expected.replace(b"20261115081311514", newest.encode())
    (block,) = scan_blocks(storage, ours)
    assert (block.type, block.target_instant) == (BlockType.COMMAND, newest)


def test_a_dead_writer_of_hudi_is_rolled_back_by_its_markers(tmp_path: Path) -> None:
    for name in ("rb_unrolled_mor_v6_120", "rb_unrolled_mor_v9_120"):
        root = places.unpack(f"generated/{name}", tmp_path)
        storage = Storage.at(root)
        before = headwater.open(root).scan().to_arrow().num_rows
        (dead,) = [i for i in HudiTable.open(storage).timeline.instants if not i.is_completed]
        with begin(HudiTable.open(storage), "deltacommit", "upsert"):
            pass
        opened = HudiTable.open(storage)
        assert all(i.is_completed for i in opened.timeline.instants)
        done = opened.timeline.instants[-1]
        assert done.action == "rollback"
        (partition,) = opened.timeline.read(done)["partitionMetadata"].values()
        by_block = 1 if "v6" in name else 0
        assert len(partition["successDeleteFiles"]) == 2 - by_block
        assert len(partition["rollbackLogFiles"]) == by_block
        assert not [name for name in data_files(storage) if dead.requested_at in name]
        assert storage.list(".hoodie/.temp") == []
        assert headwater.open(root).scan().to_arrow().num_rows == before


def test_a_slow_writer_of_hudi_is_not_taken_for_dead(tmp_path: Path) -> None:
    root = places.unpack("generated/rb_unrolled_mor_v9_120", tmp_path)
    storage = Storage.at(root)
    table = HudiTable.open(storage)
    (pending,) = [i for i in table.timeline.instants if not i.is_completed]
    beat = root / HEARTBEATS / pending.requested_at
    beat.parent.mkdir(exist_ok=True)
    beat.touch()
    with pytest.raises(TableLocked, match="heartbeat is fresh"):
        begin(table, "deltacommit", "upsert", wait=0)
    with pytest.raises(TableLocked, match="heartbeat is fresh"):
        rollback(table, pending.requested_at)
    old = time.time() - 121
    os.utime(beat, (old, old))
    with begin(table, "deltacommit", "upsert", wait=0) as write:
        assert all(i.is_completed for i in write.table.timeline.instants)
    assert not beat.exists()


def test_a_pending_rollback_of_hudi_is_ended_under_its_own_instant(tmp_path: Path) -> None:
    root = places.unpack("generated/rb_real_mor_v9_111", tmp_path)
    timeline = root / ".hoodie/timeline"
    (timeline / "20261115081808607_20261115081809256.rollback").unlink()
    storage = Storage.at(root)
    rows_before = headwater.open(root).scan().to_arrow().num_rows
    with begin(HudiTable.open(storage), "deltacommit", "upsert"):
        pass
    opened = HudiTable.open(storage)
    assert [i.is_completed for i in opened.timeline.instants if i.requested_at == "20261115081808607"] == [True]
    assert headwater.open(root).scan().to_arrow().num_rows == rows_before


def test_a_dead_write_is_rolled_back_although_others_completed_after_it(tmp_path: Path) -> None:
    for name in ("rb_unrolled_mor_v6_120", "rb_unrolled_mor_v9_120"):
        storage = Storage.at(places.unpack(f"generated/{name}", tmp_path))
        table = HudiTable.open(storage)
        (dead,) = [i for i in table.timeline.instants if not i.is_completed]
        assert dead < table.timeline.commits[-1]
        before = headwater.open(storage.uri).scan().to_arrow().num_rows
        rollback(table, dead.requested_at)
        assert dead not in HudiTable.open(storage).timeline.instants
        assert headwater.open(storage.uri).scan().to_arrow().num_rows == before


def test_a_planned_clustering_is_left_alone(tmp_path: Path) -> None:
    root = places.unpack("generated/clus_pending_cow_v6_0150", tmp_path)
    storage = Storage.at(root)
    pending = [i for i in HudiTable.open(storage).timeline.instants if not i.is_completed]
    assert pending
    with begin(HudiTable.open(storage), "commit", "upsert"):
        pass
    assert [i for i in HudiTable.open(storage).timeline.instants if not i.is_completed] == pending


def test_a_writer_that_slept_through_its_rollback_does_not_commit(table: HudiTable) -> None:
    storage = table.storage
    upsert(storage, "a", 1, "one")
    action = "deltacommit" if table.config.is_merge_on_read else "commit"
    sleeper = begin(HudiTable.open(storage), action, "upsert")  # type: ignore[arg-type]
    sleeper._lock.forget()
    upsert(storage, "b", 1, "two")
    before = read(storage)
    with pytest.raises(LockLost), sleeper:
        sleeper.complete([], schema=table.config.create_schema)
    assert read(storage) == before
    assert sleeper.instant not in {i.requested_at for i in HudiTable.open(storage).timeline.instants}


def test_a_writer_that_slept_at_the_very_last_moment_takes_its_commit_back(table: HudiTable) -> None:
    """Between the last look at the lock and the completed file another writer rolls back and commits."""
    storage = table.storage
    upsert(storage, "a", 1, "one")
    action = "deltacommit" if table.config.is_merge_on_read else "commit"
    sleeper = begin(HudiTable.open(storage), action, "upsert")  # type: ignore[arg-type]

    def sleep_after(check: Callable[[], None]) -> Iterator[None]:
        check()
        yield
        check()
        sleeper._lock.forget()
        upsert(storage, "b", 1, "two")
        yield

    steps = sleep_after(sleeper._lock.check)
    sleeper._lock.check = lambda: next(steps)  # type: ignore[method-assign]
    with pytest.raises(LockLost), sleeper:
        sleeper.complete([], schema=table.config.create_schema)
    assert [row[2] for row in read(storage)] == ["one", "two"]
    assert sleeper.instant not in {i.requested_at for i in HudiTable.open(storage).timeline.commits}


@pytest.mark.parametrize("fault", ["before", "after", "lost"])
def test_a_crash_in_a_rollback_shows_the_state_before_or_after(table: HudiTable, fault: str) -> None:
    root = Path(table.storage.root)
    upsert(table.storage, "abx", 1, "one")
    undone = read(table.storage)
    newest = upsert(table.storage, "ay", 2, "two")
    done = read(table.storage)
    kept = root.with_name("kept")
    shutil.copytree(root, kept)

    def again() -> None:
        shutil.rmtree(root)
        shutil.copytree(kept, root)

    counting = FaultyStorage.over(table.storage)
    rollback(HudiTable.open(counting), newest)
    seen = set()
    for number, call in enumerate(counting.faults.calls):
        again()
        faulty = FaultyStorage.over(table.storage, at=number, fault=fault)  # type: ignore[arg-type]
        try:
            rollback(HudiTable.open(faulty), newest)
        except (SimulatedCrash, OSError):
            pass
        else:
            assert fault == "lost", call
        state = read(table.storage)
        assert state in (undone, done), call
        upsert(table.storage, "bz", 3, "three")
        after = {row[0]: row for row in state} | {"b": ("b", 3, "three"), "z": ("z", 3, "three")}
        # What was begun is ended by the next writer, so the state may still go from done to undone, never back.
        if read(table.storage) != sorted(after.values()):
            after = {row[0]: row for row in undone} | {"b": ("b", 3, "three"), "z": ("z", 3, "three")}
            assert read(table.storage) == sorted(after.values()), call
        opened = HudiTable.open(table.storage)
        assert all(i.is_completed for i in opened.timeline.instants), call
        assert opened.storage.list(".hoodie/.temp") == []
        seen.add(tuple(state))
    assert tuple(undone) in seen


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_crash_while_a_dead_writer_is_rolled_back_is_rolled_back_too(table: HudiTable, fault: str) -> None:
    root = Path(table.storage.root)
    upsert(table.storage, "abx", 1, "one")
    before = read(table.storage)
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    counting = FaultyStorage.over(Storage.at(copy))
    operations.upsert(HudiTable.open(counting), rows("ay", 2, "two"))
    last = next(
        n for n, call in enumerate(counting.faults.calls) if call.startswith("create") and call.endswith("commit")
    )
    with pytest.raises(SimulatedCrash):
        operations.upsert(HudiTable.open(FaultyStorage.over(table.storage, at=last)), rows("ay", 2, "two"))
    (dead,) = [i for i in HudiTable.open(table.storage).timeline.instants if not i.is_completed]
    assert dead.state is InstantState.INFLIGHT
    kept = root.with_name("kept")
    shutil.copytree(root, kept)
    counting = FaultyStorage.over(table.storage)
    with begin(HudiTable.open(counting), "commit", "upsert"):
        pass
    for number, call in enumerate(counting.faults.calls):
        shutil.rmtree(root)
        shutil.copytree(kept, root)
        faulty = FaultyStorage.over(table.storage, at=number, fault=fault)  # type: ignore[arg-type]
        with pytest.raises(SimulatedCrash), begin(HudiTable.open(faulty), "commit", "upsert"):
            pass
        assert read(table.storage) == before, call
        upsert(table.storage, "c", 3, "three")
        assert read(table.storage) == sorted([*before, ("c", 3, "three")]), call
        assert not [name for name in data_files(table.storage) if f"_{dead.requested_at}." in name], call


def test_a_living_writer_is_not_rolled_back(table: HudiTable) -> None:
    storage = table.storage
    upsert(storage, "a", 1, "one")
    action = "deltacommit" if table.config.is_merge_on_read else "commit"
    with begin(HudiTable.open(storage), action, "upsert") as slow:  # type: ignore[arg-type]
        with pytest.raises(TableLocked, match="at work"):
            rollback(HudiTable.open(storage), slow.instant, wait=0)
        with pytest.raises(TableLocked, match="at work"):
            begin(HudiTable.open(storage), action, "upsert", wait=0)  # type: ignore[arg-type]
        done = slow.complete([], schema=table.config.create_schema)
    assert HudiTable.open(storage).timeline.commits[-1] == done
    assert headwater.open(storage.uri).rollback(done.requested_at).undone == done
    assert [row[2] for row in read(storage)] == ["one"]
