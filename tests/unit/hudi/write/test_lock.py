"""One writer at a time, and locks of dead writers that free themselves."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headwater.errors import LockLost, TableLocked
from headwater.hudi.write import lock
from headwater.hudi.write.lock import FOLDER, HUDI_LOCK, acquire, locked
from headwater.storage import Storage
from headwater.storage.faults import FaultyStorage, SimulatedCrash


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.at(tmp_path)


def test_the_next_writer_gets_the_next_number_and_old_claims_go(storage: Storage) -> None:
    for number in (1, 2, 3):
        with locked(storage, wait=0) as held:
            assert held.number == number
    assert [entry.name for entry in storage.list(FOLDER)] == ["000000000003.json"]


def test_a_writer_that_waits_gets_the_lock_when_it_is_released(storage: Storage) -> None:
    first = acquire(storage)
    threading.Timer(0.2, first.release).start()
    second = acquire(storage, wait=10)
    assert second.number == 2
    second.release()


def test_of_many_writers_one_holds_the_lock_at_a_time(storage: Storage) -> None:
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(5):
            with locked(storage, wait=60):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1


def test_a_number_that_was_held_and_removed_since_the_listing_is_no_lock(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer lists claim 1, sleeps while others hold and give back 2 and 3, and then finds the number 2 free."""
    acquire(storage, wait=0).release()
    listed = lock._claims(storage)
    acquire(storage, wait=0).release()
    with locked(storage, wait=0) as held:
        assert lock._claims(storage) == [held.number] == [3]
        answers = iter([listed])
        claims = lock._claims
        monkeypatch.setattr(lock, "_claims", lambda storage: next(answers, None) or claims(storage))
        with pytest.raises(TableLocked):
            acquire(storage, wait=0)
        assert claims(storage) == [held.number]
        held.check()
    assert acquire(storage, wait=0).number == held.number + 1


def test_a_claim_of_another_machine_is_waited_for_until_it_runs_out(storage: Storage) -> None:
    claim = {"expired": False, "validUntil": round(time.time() * 1000) + 700, "owner": "x", "process": "boot/ns/1@2"}
    storage.create(f"{FOLDER}/{7:012d}.json", json.dumps(claim).encode())
    with pytest.raises(TableLocked, match="process boot/ns"):
        acquire(storage, wait=0)
    with locked(storage, wait=10) as held:
        assert held.number == 8


def test_a_killed_process_holds_no_lock(storage: Storage) -> None:
    program = (
        "import sys, time; from headwater.storage import Storage; from headwater.hudi.write.lock import acquire\n"
        "acquire(Storage.at(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    run = subprocess.Popen([sys.executable, "-c", program, storage.uri], stdout=subprocess.PIPE)
    assert run.stdout is not None
    assert run.stdout.readline() == b"held\n"
    with pytest.raises(TableLocked):
        acquire(storage, wait=0)
    run.kill()
    if sys.platform == "linux":
        # dead, and not even waited for
        with locked(storage, wait=5) as held:
            assert held.number == 2
    run.wait()


def test_a_writer_that_lost_the_lock_may_not_commit(storage: Storage) -> None:
    slow = acquire(storage, validity=60)
    slow.forget()
    fast = acquire(storage, wait=0)
    with pytest.raises(LockLost, match="another writer went on"):
        slow.check()
    with pytest.raises(LockLost):
        slow.renew()
    slow.release()
    fast.check()
    fast.release()


def test_a_lock_is_renewed_as_long_as_its_process_lives(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[float] = []
    held = acquire(storage, validity=0.3)
    held.beats.append(lambda: beats.append(time.monotonic()))
    deadline = time.monotonic() + 20
    while len(beats) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    held.check()
    monkeypatch.setattr(lock, "_HELD", {held.owner})
    held.release()
    assert len(beats) >= 8


def test_hudis_own_lock_is_respected(storage: Storage) -> None:
    claim = {"expired": False, "validUntil": round(time.time() * 1000) + 60_000, "owner": "hudi"}
    storage.replace(HUDI_LOCK, json.dumps(claim).encode())
    with pytest.raises(TableLocked, match="Apache Hudi"):
        acquire(storage, wait=0)
    storage.replace(HUDI_LOCK, json.dumps({**claim, "expired": True}).encode())
    acquire(storage, wait=0).release()


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_crash_at_any_call_leaves_a_lock_that_can_be_taken(storage: Storage, fault: str) -> None:
    with locked(storage):
        pass
    counting = FaultyStorage.over(storage)
    with locked(counting):
        pass
    for number in range(len(counting.faults.calls)):
        faulty = FaultyStorage.over(storage, at=number, fault=fault)  # type: ignore[arg-type]
        with pytest.raises(SimulatedCrash), locked(faulty):
            pass
        with locked(storage, wait=0):
            pass
