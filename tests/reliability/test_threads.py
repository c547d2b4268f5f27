"""Reading with several threads: errors arrive as themselves, and nothing is left running."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.reliability.tables import unpack

import headwater
from headwater.errors import CorruptFile, HeadwaterError, MissingFile
from headwater.pipeline import run
from headwater.plan import ScanTask

TABLE = "mrg_event_mor_v9_120"
BATCH = pa.record_batch({"n": list(range(1000))})


def task(number: int) -> ScanTask:
    """The pipeline hands tasks through and looks into none."""
    return number  # type: ignore[return-value]


def numbered(task: Any) -> Iterator[pa.RecordBatch]:
    for at in range(20):
        yield pa.record_batch({"task": [task] * 10, "at": [at] * 10})


def readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("headwater-read")]


def no_reader_is_left() -> bool:
    until = time.monotonic() + 5
    while readers() and time.monotonic() < until:
        time.sleep(0.01)
    return not readers()


def start(
    read: Callable[[ScanTask], Iterator[pa.RecordBatch]], tasks: int = 8, budget: int = 10**8, threads: int = 4
) -> Any:
    return run([task(number) for number in range(tasks)], read, threads=threads, budget=budget)


@pytest.mark.parametrize("threads", [1, 2, 4, 16])
@pytest.mark.parametrize("budget", [1, 10**8])
def test_batches_come_in_the_order_of_the_tasks(threads: int, budget: int) -> None:
    found = pa.Table.from_batches(start(numbered, budget=budget, threads=threads))
    expected = [(number, at) for number in range(8) for at in range(20) for _ in range(10)]
    assert list(zip(found["task"].to_pylist(), found["at"].to_pylist(), strict=True)) == expected
    assert no_reader_is_left()


class Unexpected(Exception):
    pass


@pytest.mark.parametrize("kind", [CorruptFile, Unexpected, MemoryError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("at", [0, 3, 7])
def test_error_in_a_worker_reaches_the_caller_as_itself(kind: type[BaseException], threads: int, at: int) -> None:
    error = kind("the very one")

    def read(number: Any) -> Iterator[pa.RecordBatch]:
        yield BATCH
        if number == at:
            raise error

    with pytest.raises(kind) as caught:
        list(start(read, threads=threads))
    assert caught.value is error
    assert no_reader_is_left()


def test_batches_before_the_error_come_first() -> None:
    def read(number: Any) -> Iterator[pa.RecordBatch]:
        if number == 5:
            raise CorruptFile("f")
        yield BATCH

    batches = start(read)
    assert [next(batches) for _ in range(5)] == [BATCH] * 5
    with pytest.raises(CorruptFile):
        next(batches)


@pytest.mark.parametrize("budget", [1, 10**9])
def test_iterator_that_is_closed_leaves_no_thread(budget: int) -> None:
    batches = start(numbered, budget=budget)
    next(batches)
    batches.close()
    assert no_reader_is_left()


def test_iterator_that_is_forgotten_leaves_no_thread() -> None:
    batches = start(numbered, budget=1)
    next(batches)
    del batches
    assert no_reader_is_left()


def test_iterator_that_is_never_begun_starts_no_thread() -> None:
    batches = start(numbered)
    assert not readers()
    batches.close()


def test_error_of_the_consumer_leaves_no_thread() -> None:
    def consume() -> None:
        for _ in start(numbered, budget=1):
            raise Unexpected

    with pytest.raises(Unexpected):
        consume()
    assert no_reader_is_left()


def test_readers_of_a_closed_scan_close_their_files() -> None:
    closed = []

    def read(number: Any) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield BATCH
        finally:
            closed.append(number)

    batches = start(read, budget=1)
    next(batches)
    batches.close()
    assert no_reader_is_left()
    assert 0 in closed


def test_no_more_is_held_than_the_budget() -> None:
    """Workers wait for the consumer: what they have made and he has not taken stays within the budget."""
    made = 0
    lock = threading.Lock()

    def read(number: Any) -> Iterator[pa.RecordBatch]:
        nonlocal made
        for _ in range(50):
            with lock:
                made += BATCH.nbytes
            yield BATCH

    budget = 40 * BATCH.nbytes
    taken = 0
    for batch in start(read, tasks=12, budget=budget):
        taken += batch.nbytes
        with lock:
            ahead = made - taken
        # Each worker may have one batch in hand beside what is queued.
        assert ahead <= budget + 5 * BATCH.nbytes
    assert taken == 12 * 50 * BATCH.nbytes


# Through the public API


def test_limit_leaves_no_thread(tmp_path: Path) -> None:
    table = headwater.open(unpack(TABLE, tmp_path))
    assert table.scan(limit=1, threads=4).to_arrow().num_rows == 1
    assert no_reader_is_left()
    assert table.scan(limit=0, threads=4).to_arrow().num_rows == 0
    assert no_reader_is_left()


def test_scan_that_is_abandoned_leaves_no_thread(tmp_path: Path) -> None:
    batches = headwater.open(unpack(TABLE, tmp_path)).scan(threads=4).to_batches()
    assert next(batches).num_rows
    batches.close()  # type: ignore[attr-defined]
    assert no_reader_is_left()


def test_stream_that_is_abandoned_leaves_no_thread(tmp_path: Path) -> None:
    reader = headwater.open(unpack(TABLE, tmp_path)).scan(threads=4).to_reader()
    assert reader.read_next_batch().num_rows
    reader.close()
    del reader
    assert no_reader_is_left()


@pytest.mark.parametrize("threads", [1, 4])
def test_damaged_slice_is_the_same_error_with_every_number_of_threads(tmp_path: Path, threads: int) -> None:
    path = unpack(TABLE, tmp_path)
    file = sorted(path.glob("city=sf/*.parquet"))[0]
    file.write_bytes(b"garbage")
    with pytest.raises(CorruptFile, match=str(file)):
        headwater.open(path).scan(threads=threads).to_arrow()
    assert no_reader_is_left()


@pytest.mark.parametrize("threads", [1, 4])
def test_file_that_is_cleaned_behind_the_reader_is_missing(tmp_path: Path, threads: int) -> None:
    path = unpack(TABLE, tmp_path)
    table = headwater.open(path)
    expected = table.scan().to_arrow().num_rows
    assert expected
    opened = headwater.open(path)
    opened.scan().plan()
    for file in path.glob("city=sf/*.parquet"):
        file.unlink()
    with pytest.raises(MissingFile, match=r"city=sf/.*may have been cleaned.*refresh") as caught:
        opened.scan(threads=threads).to_arrow()
    assert isinstance(caught.value, FileNotFoundError)
    assert no_reader_is_left()


def test_many_readers_of_one_table_agree(tmp_path: Path) -> None:
    """A table is a value: threads may share it, also while its cached parts are first made."""
    path = unpack(TABLE, tmp_path)
    expected = headwater.open(path).scan().to_arrow()
    table = headwater.open(path)
    found: list[object] = []

    def read() -> None:
        try:
            found.append(table.scan(threads=2).to_arrow().equals(expected))
        except HeadwaterError as error:
            found.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [True] * 8


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
@pytest.mark.parametrize("threads", [1, 4])
def test_interrupt_ends_a_scan_at_once(threads: int) -> None:
    """Ctrl-C in the middle: KeyboardInterrupt reaches the caller, the workers stop, the process ends."""
    program = textwrap.dedent(
        f"""
        import threading, time
        import pyarrow as pa
        from headwater.pipeline import run

        def read(task):
            while True:
                time.sleep(0.01)
                yield pa.record_batch({{"n": [1]}})

        try:
            for batch in run([1, 2, 3, 4], read, threads={threads}, budget=10**6):
                print("reading", flush=True)
        except KeyboardInterrupt:
            print("interrupted", [t.name for t in threading.enumerate() if t.name.startswith("headwater")], flush=True)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "reading\n"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert out.splitlines()[-1] == "interrupted []", err
    assert child.returncode == 0
