"""Running a plan: slices are read side by side, handed out in order, and never more is held than the budget allows."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from headwater.errors import InvalidArgument
from headwater.plan import ScanTask
from headwater.spec.model import FileSlice

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SMALLEST_BUDGET = 16 * 10**6
# Batches of a base file on their way, and what a log takes while it is decoded, in multiples of its size.
_SLICE_IN_FLIGHT = 64 * 10**6
_DECODED_LOG = 3


def parse_memory(memory: str | int | None) -> int:
    """A budget in bytes.

    >>> parse_memory("1GB"), parse_memory("64 MiB")
    (1000000000, 67108864)
    """
    return 10**9 if memory is None else max(parse_size("memory", memory), _SMALLEST_BUDGET)


def parse_size(name: str, size: str | int) -> int:
    """Bytes, given as a number or as a text for an argument of this name.

    >>> parse_size("cache", "64MB"), parse_size("cache", 0)
    (64000000, 0)
    """
    match = re.fullmatch(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([KMGT]?I?B?)", str(size).strip().upper())
    if match is None or match[2] not in _UNITS:
        raise InvalidArgument(f'{name}={size!r} is no size; give bytes or a text such as "512MB" or "2GB"')
    return int(float(match[1]) * _UNITS[match[2]])


def affordable_workers(tasks: Sequence[ScanTask], threads: int, budget: int) -> int:
    """How many slices to read side by side: fewer threads than allowed where the budget holds fewer slices."""
    logs = [
        sum(file.size or 0 for file in task.slice.delta_files) for task in tasks if isinstance(task.slice, FileSlice)
    ]
    each = _SLICE_IN_FLIGHT + _DECODED_LOG * max(logs, default=0)
    return max(1, min(threads, budget // each, len(tasks)))


class _Stopped(Exception):
    """The consumer wants no more."""


class _Lane:
    """The batches of one slice on their way from its reader to the consumer."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0
        self._items: queue.SimpleQueue[pa.RecordBatch | BaseException | None] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._stopped = False

    def put(self, batch: pa.RecordBatch) -> None:
        size = batch.nbytes
        with self._room:
            self._room.wait_for(lambda: self._stopped or self._held == 0 or self._held + size <= self._most)
            if self._stopped:
                raise _Stopped
            self._held += size
        self._items.put(batch)

    def close(self, error: BaseException | None = None) -> None:
        self._items.put(error)

    def stop(self) -> None:
        with self._room:
            self._stopped = True
            self._room.notify_all()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            item = self._items.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            with self._room:
                self._held -= item.nbytes
                self._room.notify_all()
            yield item


def run(
    tasks: Sequence[ScanTask],
    read: Callable[[ScanTask], Iterator[pa.RecordBatch]],
    *,
    threads: int,
    budget: int,
) -> Iterator[pa.RecordBatch]:
    """The batches of all tasks, in the order of the tasks."""
    if threads <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield from read(task)
        return
    # A reader that is done before the one ahead of it goes on with the next slice: twice as many lanes as readers.
    started = 2 * threads
    lanes = [_Lane(budget // (2 * started)) for _ in tasks]
    turn = iter(range(len(tasks)))
    lock = threading.Lock()
    # A worker may start a slice only when the consumer is near it: lanes far ahead would hold memory for nothing.
    ahead = threading.Semaphore(started)
    stopping = threading.Event()

    def work() -> None:
        while True:
            ahead.acquire()
            with lock:
                index = next(turn, None)
            if index is None or stopping.is_set():
                return
            lane = lanes[index]
            try:
                for batch in read(tasks[index]):
                    lane.put(batch)
                lane.close()
            except _Stopped:
                return
            except BaseException as error:
                # handed to the consumer, who raises it
                lane.close(error)

    workers = [threading.Thread(target=work, name=f"headwater-read-{i}", daemon=True) for i in range(threads)]
    for worker in workers:
        worker.start()
    try:
        for lane in lanes:
            yield from lane
            ahead.release()
    finally:
        stopping.set()
        for lane in lanes:
            lane.stop()
        for _ in workers:
            ahead.release()
        for worker in workers:
            worker.join()
