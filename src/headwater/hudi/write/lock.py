"""One writer at a time, without a server: claims that are created on condition, expire, and are counted.

A claim is a file `.hoodie/.locks/headwater/<number>.json`; the highest number holds the lock, unless its claim was
released, ran out, or belongs to a process of this machine that is gone. Taking the lock is creating the next number,
which storage lets only one writer do. The number fences: whoever finds a higher one than his own has lost the lock and
may not commit. The fields are those of Hudi's storage based lock (facts 13.5), whose own file is respected too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from headwater.errors import (
    AlreadyThere,
    HeadwaterError,
    LockLost,
    MissingFile,
    OutcomeUnknown,
    StorageError,
    TableLocked,
)
from headwater.hudi.properties import META_FOLDER
from headwater.hudi.write.timeline_files import settle
from headwater.storage import Storage

FOLDER = f"{META_FOLDER}/.locks/headwater"
HUDI_LOCK = f"{META_FOLDER}/.locks/table_lock.json"
VALIDITY = 120.0
"""Seconds that a claim is good for without being renewed."""
WAIT = 60.0
"""Seconds that a writer waits for another one before it gives up."""
_CLOCK_DRIFT = 0.5
_MARGIN = 0.25
"""The part of its validity in which a claim is no longer good enough to commit by: others may see it end before us."""

_INTERVAL = 30.0

_LOG = logging.getLogger("headwater")
_NUMBER = re.compile(r"^(\d{12})\.json$")
# Claims that writers of this process hold: one that is not here and yet names this process is of a writer that died.
_HELD: set[str] = set()


@dataclass
class TableLock:
    """A held lock, renewed by a thread of its own as long as the process lives; `check` before a commit."""

    storage: Storage
    number: int
    owner: str
    validity: float
    good_until: float
    """By this process's own monotonic clock."""
    lost: bool = False
    beats: list[Callable[[], None]] = field(default_factory=list)
    """What else is to be done each time that the claim is renewed."""
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)

    def start_renewing(self) -> None:
        """Renew the claim from now on, until it is released or forgotten."""
        self._thread = threading.Thread(target=self._renew_on, name=f"headwater-lock-{self.number}", daemon=True)
        self._thread.start()

    def _renew_on(self) -> None:
        while not self._ended.wait(min(_INTERVAL, self.validity / 3)):
            try:
                self.renew()
                for beat in tuple(self.beats):
                    beat()
            except LockLost as error:
                _LOG.warning("%s", error)
                return
            except HeadwaterError as error:
                # The next time may work; if none does, the claim runs out and the commit is refused.
                _LOG.warning("renewing the lock of %s: %s", self.storage.uri, error)

    @property
    def path(self) -> str:
        return _claim_path(self.number)

    def renew(self) -> None:
        """Make the claim good for another while. A crash leaves the claim as it was, or renewed."""
        self.fence()
        due = time.monotonic() + self.validity
        self.storage.replace(self.path, _claim(self.owner, self.validity))
        self.good_until = due

    def check(self) -> None:
        """Raises `LockLost` unless the lock is held, and for long enough to commit."""
        if time.monotonic() > self.good_until - self.validity * _MARGIN:
            self.renew()
        self.fence()

    def fence(self) -> None:
        """Raises `LockLost` where another writer has taken the lock."""
        newest = max(_claims(self.storage), default=0)
        if self.lost or newest > self.number:
            self.lost = True
            raise LockLost(
                f"{self.storage.uri}: this writer's lock ran out ({self.validity:.0f} s without a sign of life) and "
                "another writer went on; nothing of this write counts: start it again"
            )

    def forget(self) -> None:
        """What a dead process does: leave the claim as it is. Other writers of this process may then take over."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        _HELD.discard(self.owner)

    def let_go(self) -> None:
        """Give the lock back once the work is done or has failed; where that fails too, the claim runs out."""
        try:
            self.release()
        except HeadwaterError as error:
            _LOG.warning("%s", error)

    def release(self) -> None:
        """Give the lock back. A crash leaves the claim, which runs out by itself."""
        self.forget()
        if not self.lost:
            self.storage.replace(self.path, _claim(self.owner, 0.0, expired=True))


def acquire(storage: Storage, *, wait: float = WAIT, validity: float = VALIDITY) -> TableLock:
    """Take the table's lock, waiting for another writer to end or to be found dead.

    A crash leaves a claim: on this machine the next writer sees that its process is gone, elsewhere it runs out.

    >>> import tempfile
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> lock = acquire(storage)
    >>> acquire(storage, wait=0)
    Traceback (most recent call last):
    headwater.errors.TableLocked: ...
    >>> lock.release(); acquire(storage, wait=0).number
    2
    """
    owner = uuid.uuid4().hex
    give_up_at = time.monotonic() + wait
    pause = 0.05
    while True:
        claims = _claims(storage)
        newest = max(claims, default=0)
        holder = _holder(storage, newest, validity)
        if holder is None:
            due = time.monotonic() + validity
            _HELD.add(owner)
            try:
                settle(storage, _claim_path(newest + 1), _claim(owner, validity))
                if max(_claims(storage), default=0) > newest + 1:
                    # The number was free because it was held, given back and removed since the listing: too late.
                    _HELD.discard(owner)
                    storage.delete(_claim_path(newest + 1))
                    continue
                for number in claims:
                    with contextlib.suppress(StorageError):
                        storage.delete(_claim_path(number))
            except AlreadyThere:
                _HELD.discard(owner)
                continue
            except OutcomeUnknown as error:
                _HELD.discard(owner)
                raise StorageError(
                    f"{storage.uri}: the table's lock cannot be taken ({error.__cause__}); nothing was written: check "
                    "that the storage can be reached and that you may write there, then try again"
                ) from error
            except BaseException:
                _HELD.discard(owner)
                raise
            held = TableLock(storage, newest + 1, owner, validity, due)
            held.start_renewing()
            return held
        if time.monotonic() >= give_up_at:
            raise TableLocked(
                f"{storage.uri}: {holder}; wait for it to end, or for its lock to run out if it died, and write again"
            )
        time.sleep(min(pause, max(give_up_at - time.monotonic(), 0)))
        pause = min(pause * 2, 1.0)


@contextlib.contextmanager
def locked(storage: Storage, *, wait: float = WAIT, validity: float = VALIDITY) -> Iterator[TableLock]:
    """Hold the lock for a while. A crash leaves a claim: see `acquire`.

    >>> import tempfile
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> with locked(storage) as held:
    ...     held.check()
    """
    held = acquire(storage, wait=wait, validity=validity)
    try:
        yield held
    except Exception:
        held.let_go()
        raise
    except BaseException:
        held.forget()
        raise
    held.let_go()


def _claims(storage: Storage) -> list[int]:
    found = (_NUMBER.match(entry.name) for entry in storage.list(FOLDER))
    return sorted(int(match[1]) for match in found if match)


def _claim_path(number: int) -> str:
    return f"{FOLDER}/{number:012d}.json"


def _claim(owner: str, validity: float, *, expired: bool = False) -> bytes:
    until = round((time.time() + validity) * 1000)
    claim = {"expired": expired, "validUntil": until, "owner": owner, "process": _process()}
    return json.dumps(claim).encode()


def _holder(storage: Storage, number: int, validity: float) -> str | None:
    """Who holds the lock, in words; None where it is free."""
    hudi = _read(storage, HUDI_LOCK)
    if hudi is not None and not _has_ended(hudi):
        return f"a writer of Apache Hudi ({hudi.get('owner')}) holds the table's lock"
    if not number:
        return None
    claim = _read(storage, _claim_path(number))
    if claim is None:
        entry = storage.find(_claim_path(number))
        ended = entry is None or time.time() * 1000 > entry.modified_at + (validity + _CLOCK_DRIFT) * 1000
        return None if ended else "another writer has just taken the table's lock"
    if _has_ended(claim) or _is_dead(claim):
        return None
    return f"another writer ({claim.get('owner')}, process {claim.get('process')}) is at work on this table"


def _read(storage: Storage, path: str) -> dict[str, Any] | None:
    try:
        found = json.loads(storage.read_bytes(path))
    except MissingFile:
        return None
    except (ValueError, RecursionError) as error:
        if isinstance(error, HeadwaterError):
            raise
        return None
    return found if isinstance(found, dict) else None


def _has_ended(claim: dict[str, Any]) -> bool:
    until = claim.get("validUntil")
    if claim.get("expired") or not isinstance(until, int | float):
        return True
    return time.time() * 1000 > until + _CLOCK_DRIFT * 1000


def _is_dead(claim: dict[str, Any]) -> bool:
    """Whether the claim's process can be seen from here and is gone."""
    process = str(claim.get("process") or "")
    machine, _, rest = process.rpartition("/")
    here, _, _ = _process().rpartition("/")
    if not machine or machine != here:
        return False
    if process == _process():
        return claim.get("owner") not in _HELD
    number, _, started = rest.partition("@")
    return _started_at(number) != started


def _process() -> str:
    """This process, told from all others: machine since its boot, name space, number and start. Empty if unknown."""
    return _process_of(os.getpid())


@cache
def _process_of(pid: int) -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
    return f"{boot}/{space}/{pid}@{_started_at(str(pid))}"


def _started_at(pid: str) -> str | None:
    """When a process began, in the kernel's ticks; None where there is none."""
    if not pid.isdigit():
        return None
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    # A process that ended and that nobody has waited for is no longer at work.
    return None if fields[0] in ("Z", "X") else fields[19]
