"""A storage that fails on purpose, for tests: a crash before or after a call, a torn write, a lost answer.

>>> import tempfile
>>> storage = FaultyStorage.over(Storage.at(tempfile.mkdtemp()), at=1, fault="before")
>>> storage.create("a", b"1")
>>> storage.create("b", b"2")
Traceback (most recent call last):
headwater.storage.faults.SimulatedCrash: crash before call 1: create b
>>> storage.read_bytes("a")
Traceback (most recent call last):
headwater.storage.faults.SimulatedCrash: the process is dead
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pyarrow as pa

from headwater.errors import StorageError
from headwater.storage.files import FileEntry, Storage
from headwater.storage.writing import temporary_path

Fault = Literal["before", "after", "torn", "lost", "failed", "full", "slow"]
"""`before`, `after`: the process dies around the call. `torn`: it dies with half of the bytes written, of a file that
is streamed, or on a local disk of the unnamed file beside one that is made at once; else `torn` is `before`. `lost`:
the call works and answers with an error. `failed`: it does not work and says so. `full`: the disk has no room: a stream
takes half of the bytes and nothing else is made; deleting works. `slow`: it takes `Faults.seconds`."""
FAULTS: tuple[Fault, ...] = ("before", "after", "torn", "lost", "failed", "full", "slow")

T = TypeVar("T")


class SimulatedCrash(BaseException):
    """The process died here. No handler may go on: only what a dead process cannot do either is left undone."""


@dataclass
class Faults:
    """What goes wrong, and what was called: counts every call that changes something, over all folders of a table."""

    at: int | None = None
    fault: Fault = "before"
    seconds: float = 0.0
    times: int = 1
    """How many calls in a row go wrong, from `at` on."""
    calls: list[str] = field(default_factory=list)
    dead: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def alive(self) -> None:
        if self.dead:
            raise SimulatedCrash("the process is dead")

    def take(self, what: str) -> Fault | None:
        """Count a call; what goes wrong with it."""
        with self._lock:
            self.alive()
            number = len(self.calls)
            self.calls.append(what)
            if self.at is None or not self.at <= number < self.at + self.times:
                return None
            if self.fault in ("before", "after", "torn"):
                self.dead = True
            return self.fault

    def takes_down(self, what: str, fault: Fault) -> bool:
        """Whether this call is the one that the process dies in, by such a fault."""
        return self.fault == fault and self.at == len(self.calls) - 1 and self.calls[-1] == what

    def crash(self, what: str) -> SimulatedCrash:
        return SimulatedCrash(f"crash {self.fault} call {len(self.calls) - 1}: {what}")


@dataclass(frozen=True, slots=True)
class FaultyStorage(Storage):
    """A storage of which one call goes wrong. After a crash every call says that the process is dead."""

    faults: Faults = field(default_factory=Faults)

    @classmethod
    def over(
        cls, storage: Storage, *, at: int | None = None, fault: Fault = "before", seconds: float = 0.0, times: int = 1
    ) -> FaultyStorage:
        """The same root; the call with number `at` (from 0) goes wrong; None counts calls only.

        >>> import tempfile
        >>> storage = FaultyStorage.over(Storage.at(tempfile.mkdtemp()))
        >>> storage.replace("a", b""), storage.delete("a"), storage.faults.calls
        (None, None, ['replace a', 'delete a'])
        """
        return cls(storage.filesystem, storage.root, storage.uri, Faults(at, fault, seconds, times))

    def _do(self, what: str, call: Callable[[], T]) -> T:
        fault = self.faults.take(what)
        if fault == "full" and not what.startswith("delete"):
            raise StorageError(f"{what}: {_no_room(what)}; make room and try again") from _no_room(what)
        if fault in ("before", "torn"):
            raise self.faults.crash(what)
        if fault == "failed":
            raise StorageError(f"{what}: failed on purpose")
        if fault == "slow":
            time.sleep(self.faults.seconds)
        done = call()
        if fault == "after":
            raise self.faults.crash(what)
        if fault == "lost":
            raise StorageError(f"{what}: the answer was lost on purpose")
        return done

    def _plain(self) -> Storage:
        return Storage(self.filesystem, self.root, self.uri)

    def create(self, path: str, data: bytes) -> None:
        self._make(f"create {path}", path, data, lambda: self._plain().create(path, data))

    def replace(self, path: str, data: bytes) -> None:
        self._make(f"replace {path}", path, data, lambda: self._plain().replace(path, data))

    def _make(self, what: str, path: str, data: bytes, call: Callable[[], None]) -> None:
        try:
            self._do(what, call)
        except SimulatedCrash:
            if self.faults.takes_down(what, "torn") and self.is_local:
                with self._plain().open_output(temporary_path(path)) as file:
                    file.write(data[: len(data) // 2])
            raise

    def delete(self, path: str) -> None:
        self._do(f"delete {path}", lambda: self._plain().delete(path))

    def delete_folder(self, path: str) -> None:
        self._do(f"delete_folder {path}", lambda: self._plain().delete_folder(path))

    def make_folder(self, path: str) -> None:
        self._do(f"make_folder {path}", lambda: self._plain().make_folder(path))

    def _open_unbuffered(self, path: str) -> pa.NativeFile:
        file = self._do(f"open_output {path}", lambda: self._plain()._open_unbuffered(path))
        return pa.PythonFile(_FaultyOutput(file, path, self.faults), mode="w")

    def list(self, folder: str, *, recursive: bool = False) -> list[FileEntry]:
        self.faults.alive()
        return self._plain().list(folder, recursive=recursive)

    def find(self, path: str) -> FileEntry | None:
        self.faults.alive()
        return self._plain().find(path)

    def open(self, path: str) -> pa.NativeFile:
        self.faults.alive()
        return self._plain().open(path)


def _no_room(what: str) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what)


class _FaultyOutput:
    """A stream whose writes and whose end are calls that may go wrong."""

    def __init__(self, file: pa.NativeFile, path: str, faults: Faults) -> None:
        self._file, self._path, self._faults = file, path, faults
        self.closed = False

    def write(self, data: Any) -> int:
        return self._do("write", bytes(data))

    def _do(self, verb: str, data: bytes) -> int:
        what = f"{verb} {self._path}"
        fault = self._faults.take(what)
        if fault == "torn":
            self._file.write(data[: len(data) // 2])
            self._file.close()
        if fault == "slow":
            time.sleep(self._faults.seconds)
        if fault in ("before", "torn"):
            raise self._faults.crash(what)
        if fault == "failed":
            raise StorageError(f"{what}: failed on purpose")
        if fault == "full" and verb == "write":
            self._file.write(data[: len(data) // 2])
            raise _no_room(what)
        if verb == "write":
            self._file.write(data)
        else:
            self._file.close()
        if fault == "after":
            self._file.close()
            raise self._faults.crash(what)
        if fault == "lost":
            raise StorageError(f"{what}: the answer was lost on purpose")
        return len(data)

    def flush(self) -> None:
        self._faults.alive()

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._faults.dead:
            self._file.close()
            return
        self._do("close", b"")
