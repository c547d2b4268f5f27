"""Slices side by side: in their order, and no reader waits for the one ahead of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa

from headwater.pipeline import run
from headwater.plan import ScanTask
from headwater.spec.model import FileGroupId, FileSlice, PartitionDescriptor


def tasks(count: int) -> list[ScanTask]:
    partition = PartitionDescriptor("", (), ())
    return [ScanTask(partition, FileSlice(FileGroupId("", str(number)), "1")) for number in range(count)]


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"x": [number]})


def test_a_reader_that_is_done_goes_on_while_the_first_slice_is_read() -> None:
    third_began = threading.Event()

    def read(task: ScanTask) -> Iterator[pa.RecordBatch]:
        assert isinstance(task.slice, FileSlice)
        number = int(task.slice.group.file_id)
        if number == 2:
            third_began.set()
        if number == 0:
            assert third_began.wait(10), "the other reader waits for this one"
        yield batch(number)

    found = list(run(tasks(4), read, threads=2, budget=10**9))
    assert [one.column("x").to_pylist() for one in found] == [[0], [1], [2], [3]]


def test_no_more_slices_are_begun_than_twice_the_readers_ahead_of_the_consumer() -> None:
    began: list[str] = []

    def read(task: ScanTask) -> Iterator[pa.RecordBatch]:
        assert isinstance(task.slice, FileSlice)
        began.append(task.slice.group.file_id)
        yield batch(0)

    stream = run(tasks(50), read, threads=2, budget=10**9)
    next(stream)
    for _ in range(50):  # none of the first one is asked for again: time does not make it more
        threading.Event().wait(0.002)
    assert len(began) <= 4
    stream.close()
