"""Writing files: whole, only once, and what goes wrong on purpose."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from headwater.errors import AlreadyThere, MissingDependency, OutcomeUnknown, StorageError
from headwater.hudi.write.timeline_files import settle
from headwater.storage import Storage
from headwater.storage.faults import FAULTS, Fault, FaultyStorage, SimulatedCrash


def memory(tmp_path: Path) -> Storage:
    import fsspec

    return Storage.at(f"memory://{tmp_path.name}", filesystem=fsspec.filesystem("memory", skip_instance_cache=True))


def local_by_fsspec(tmp_path: Path) -> Storage:
    import fsspec

    return Storage.at(tmp_path, filesystem=fsspec.filesystem("file"))


@pytest.fixture(params=["local", "memory", "fsspec"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "local":
        return Storage.at(tmp_path)
    return memory(tmp_path) if request.param == "memory" else local_by_fsspec(tmp_path)


def test_a_file_is_created_once(storage: Storage) -> None:
    storage.create("a/b", b"first")
    with pytest.raises(AlreadyThere) as raised:
        storage.create("a/b", b"second")
    assert isinstance(raised.value, FileExistsError)
    assert storage.read_bytes("a/b") == b"first"


def test_all_who_open_a_file_have_a_position_of_their_own(storage: Storage) -> None:
    storage.create("a/b", b"0123456789")
    with storage.open("a/b") as one, storage.open("a/b") as other:
        assert one.read(4) == b"0123"
        assert other.read(6) == b"012345"
        assert one.read() == b"456789"


def test_of_many_who_create_a_file_one_does(storage: Storage) -> None:
    made: list[int] = []

    def create(number: int) -> None:
        try:
            storage.create("x/y", str(number).encode() * 1000)
        except AlreadyThere:
            return
        made.append(number)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert storage.read_bytes("x/y") == str(made[0]).encode() * 1000


def test_replacing_leaves_nothing_else(storage: Storage) -> None:
    storage.replace("a/b", b"one")
    storage.replace("a/b", b"two")
    assert storage.read_bytes("a/b") == b"two"
    assert [entry.name for entry in storage.list("a")] == ["b"]


def test_an_output_makes_its_folders(storage: Storage) -> None:
    with storage.open_output("deep/er/file") as out:
        out.write(b"12")
        out.write(b"34")
    assert storage.read_bytes("deep/er/file") == b"1234"


def test_what_is_gone_may_be_deleted_again(storage: Storage) -> None:
    storage.create("a/b", b"")
    for _ in range(2):
        storage.delete("a/b")
        storage.delete_folder("a")
    assert storage.find("a/b") is None


def test_a_read_only_folder_says_so(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        (tmp_path / "file").write_bytes(b"")
        storage = Storage.at(tmp_path / "file")
    else:
        tmp_path.chmod(0o500)
        storage = Storage.at(tmp_path)
    for call in (storage.create, storage.replace):
        with pytest.raises(StorageError, match="check that"):
            call("a", b"")


def test_pyarrows_own_s3_needs_s3fs_to_create(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module("fsspec.registry")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    # Where it was imported before.
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    storage = Storage(pafs.S3FileSystem(anonymous=True, region="eu-west-1"), "bucket/t", "s3://bucket/t")
    with pytest.raises(MissingDependency, match="pip install s3fs"):
        storage.create("a", b"")


def test_a_filesystem_without_conditional_put_is_refused() -> None:
    import fsspec

    storage = Storage.at("ftp://x/t", filesystem=fsspec.filesystem("dir", path="/t", fs=fsspec.filesystem("memory")))
    with pytest.raises(StorageError, match="on the condition"):
        storage.create("a", b"")


def test_a_killed_process_leaves_a_whole_file_or_none(tmp_path: Path) -> None:
    program = (
        "import sys; from headwater.storage import Storage; s = Storage.at(sys.argv[1]); print('go', flush=True)\n"
        "for n in range(10**9): s.create(f'f{n}', b'x' * 100_000)"
    )
    run = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    assert run.stdout is not None
    run.stdout.readline()
    while not (tmp_path / "f20").exists():
        pass
    run.kill()
    run.wait()
    sizes = {e.size for e in Storage.at(tmp_path).list("") if e.name.startswith("f")}
    assert sizes == {100_000}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_does_what_it_says(tmp_path: Path, fault: str) -> None:
    storage = FaultyStorage.over(Storage.at(tmp_path), at=0, fault=fault)  # type: ignore[arg-type]
    dies = fault in ("before", "after", "torn")
    try:
        storage.create("a", b"1")
    except SimulatedCrash:
        assert dies
        with pytest.raises(SimulatedCrash, match="dead"):
            storage.find("a")
    except StorageError:
        assert fault in ("lost", "failed", "full")
    assert (tmp_path / "a").exists() == (fault in ("after", "lost", "slow"))


def test_a_torn_write_leaves_half_of_it(tmp_path: Path) -> None:
    storage = FaultyStorage.over(Storage.at(tmp_path), at=1, fault="torn")
    out = storage.open_output("a")
    out.write(b"12345678")
    with pytest.raises(SimulatedCrash):
        out.flush()
    assert (tmp_path / "a").read_bytes() == b"1234"


def test_small_writes_to_a_stream_are_gathered(tmp_path: Path) -> None:
    storage = FaultyStorage.over(Storage.at(tmp_path))
    table = pa.table({f"c{n}": list(range(100)) for n in range(10)})
    with storage.open_output("a.parquet") as out:
        pq.write_table(table, out)
    assert storage.faults.calls == ["open_output a.parquet", "write a.parquet", "close a.parquet"]
    assert pq.read_table(tmp_path / "a.parquet").equals(table)


@pytest.mark.parametrize("fault", ["full", "failed"])
def test_a_stream_that_fails_at_its_end_says_so(tmp_path: Path, fault: Fault) -> None:
    storage = FaultyStorage.over(Storage.at(tmp_path), at=1, fault=fault)
    out = storage.open_output("a")
    out.write(b"1234")
    with pytest.raises(OSError, match=r"on purpose|No space left"):
        out.close()


def test_faults_reach_what_pyarrow_writes_and_folders_below(tmp_path: Path) -> None:
    storage = FaultyStorage.over(Storage.at(tmp_path), at=2, fault="before")
    table = pa.table({"a": list(range(1000))})
    with pytest.raises(SimulatedCrash), storage.child("below").open_output("a.parquet") as out:
        pq.write_table(table, out)
    assert storage.faults.calls[0] == "open_output a.parquet"


def test_settling_knows_a_lost_answer_from_another_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = FaultyStorage.over(Storage.at(tmp_path), at=0, fault="lost")
    settle(lost, "mine", b"m")
    settle(lost, "empty", b"")
    failed = FaultyStorage.over(Storage.at(tmp_path), at=0, fault="failed", times=2)
    settle(failed, "later", b"l")
    assert failed.faults.calls == ["create later"] * 3
    with pytest.raises(AlreadyThere):
        settle(Storage.at(tmp_path), "mine", b"other")
    with pytest.raises(AlreadyThere):
        settle(Storage.at(tmp_path), "empty", b"")
    silent = FaultyStorage.over(Storage.at(tmp_path), at=0, fault="failed", times=100)
    with pytest.raises(StorageError, match="on purpose") as told:
        settle(silent, "never", b"n")
    assert not isinstance(told.value, OutcomeUnknown), "a disk that has no such file will not get it later"
    monkeypatch.setattr(Storage, "is_local", False)
    with pytest.raises(OutcomeUnknown):
        settle(silent, "never", b"n")


def test_what_a_torn_write_leaves_beside_a_log_file_is_not_taken_for_one(tmp_path: Path) -> None:
    """Hudi looks for the beginning of a log file's name, whatever comes after it."""
    hudis = re.compile(r"^\.([^._]+)_([^.]*)\.(log|archive)\.(\d+)")
    storage = FaultyStorage.over(Storage.at(tmp_path), at=0, fault="torn")
    name = ".f1-0_20260101000000000.log.1_0-0-0"
    with pytest.raises(SimulatedCrash):
        storage.create(name, b"12345678")
    (left,) = [entry for entry in Storage.at(tmp_path).list("") if not entry.is_directory]
    assert left.size == 4
    assert hudis.match(name)
    assert not hudis.match(left.name)
