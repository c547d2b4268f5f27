"""Signs of life of a writer: a file per instant that is touched as long as it works (facts 13.6).

Hudi looks at the file's age only. Ours names the number of the writer's lock besides: once a later writer holds the
lock, the earlier one is dead, however young its last beat is.
"""

from __future__ import annotations

import json
import time

from headwater.errors import StorageError
from headwater.hudi.properties import META_FOLDER
from headwater.hudi.write.lock import TableLock
from headwater.storage import FileEntry, Storage

FOLDER = f"{META_FOLDER}/.heartbeat"
INTERVAL = 60.0
TOLERATED_MISSES = 2
"""Hudi's own figures: a writer that missed two beats of 60 s is dead."""


class Heartbeat:
    """Beats with the lock: each time that the claim is renewed, the file is touched."""

    def __init__(self, storage: Storage, instant: str, lock: TableLock) -> None:
        self._storage, self._lock = storage, lock
        self.path = f"{FOLDER}/{instant}"

    def start(self) -> None:
        """The first beat. A crash leaves the file, which grows old."""
        self._beat()
        self._lock.beats.append(self._beat)

    def _beat(self) -> None:
        self._storage.replace(self.path, json.dumps({"lock": self._lock.number, "owner": self._lock.owner}).encode())

    def end(self) -> None:
        """Remove the file; no beat is to come after this. A crash leaves it; the next writer sweeps it."""
        if self._beat in self._lock.beats:
            self._lock.beats.remove(self._beat)
        self._storage.delete(self.path)


def heartbeats(storage: Storage) -> dict[str, FileEntry]:
    """Instant → its heartbeat's file.

    >>> import tempfile
    >>> heartbeats(Storage.at(tempfile.mkdtemp()))
    {}
    """
    return {entry.name: entry for entry in storage.list(FOLDER) if not entry.is_directory}


def is_dead(storage: Storage, beat: FileEntry | None, lock: TableLock) -> bool:
    """Whether the writer of a pending instant is gone, as seen by the holder of the lock.

    No beat: Hudi writes none where it expects to be the only writer, and then the next writer rolls back.
    """
    if beat is None:
        return True
    try:
        found = json.loads(storage.read_bytes(beat.path)) if beat.size else {}
    except (StorageError, ValueError):
        found = {}
    number = found.get("lock") if isinstance(found, dict) else None
    if isinstance(number, int) and number < lock.number:
        return True
    # Of Hudi, or from before somebody deleted the locks, whose numbers then began anew.
    return time.time() * 1000 - beat.modified_at > INTERVAL * TOLERATED_MISSES * 1000
