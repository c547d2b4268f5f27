"""A write from its first file in the timeline to its last: requested, inflight, completed.

    with begin(table, "commit", "upsert") as write:
        write.mark(partition, names, "CREATE")
        …  # make the files
        write.complete(written, schema=…)

A reader sees the state before the completed file is made and the state after, nothing between. Whatever ends the block
otherwise is rolled back: at once where the process lives, by the next writer where it does not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Literal

import pyarrow as pa

from headwater.errors import AlreadyThere, HeadwaterError, InvalidArgument, LockLost, OutcomeUnknown, StorageError
from headwater.hudi.avro_schema import to_arrow
from headwater.hudi.file_names import PARTITION_MARKER
from headwater.hudi.properties import META_FOLDER
from headwater.hudi.schema import META_SCHEMA
from headwater.hudi.table import HudiTable
from headwater.hudi.timeline.instants import ROLLBACK, WRITE_ACTIONS
from headwater.hudi.timeline.timeline import load_timeline
from headwater.hudi.write import heartbeat, lock, markers
from headwater.hudi.write.clock import next_time
from headwater.hudi.write.commit_metadata import completed_bytes, inflight_bytes, requested_bytes
from headwater.hudi.write.metadata_hook import METADATA_TABLE, MetadataHook
from headwater.hudi.write.model import WrittenFile
from headwater.hudi.write.properties_file import render_java_properties
from headwater.hudi.write.rollback import (
    delete_all,
    roll_back,
    roll_back_dead_writers,
    stays_in_log,
    sweep_unnamed,
)
from headwater.hudi.write.timeline_files import completed_path, pending_path, settle
from headwater.spec.model import Instant, InstantState
from headwater.storage import Storage

Action = Literal["commit", "deltacommit", "replacecommit"]
ConflictCheck = Callable[["Transaction"], None]
"""Called with the lock held, right before a commit: raises where another writer's commit rules this one out. With one
writer at a time there is nothing to check."""

_LOG = logging.getLogger("headwater")


def begin(
    table: HudiTable,
    action: Action,
    operation: str,
    *,
    wait: float = lock.WAIT,
    validity: float = lock.VALIDITY,
    metadata: MetadataHook = METADATA_TABLE,
    check: ConflictCheck | None = None,
) -> Transaction:
    """Start a write: take the lock, roll back what dead writers left, put a new instant into the timeline.

    `Transaction.table` is the table as it is then: plan the write on that, not on `table`, which may be old by now.
    `wait` is how many seconds to wait for another writer; `operation` is Hudi's name (`upsert`, `insert`,
    `bulk_insert`, `delete`, `insert_overwrite`, `insert_overwrite_table`, `delete_partition`).

    A crash leaves a pending instant, a heartbeat and a claim to the lock; the next writer takes over once the process
    is seen to be gone or the claim has run out.

    >>> import tempfile
    >>> from headwater.hudi.write.create import create_table
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> schema = pa.schema([("id", pa.string())])
    >>> create_table(storage, name="t", schema=schema, record_key=["id"])
    >>> with begin(HudiTable.open(storage), "commit", "insert") as write:
    ...     done = write.complete([], schema=write.table.config.create_schema)
    >>> HudiTable.open(storage).timeline.commits == (done,)
    True
    """
    if action not in WRITE_ACTIONS:
        raise InvalidArgument(f"action={action!r}: a write is one of {', '.join(sorted(WRITE_ACTIONS))}")
    storage = table.storage
    held = lock.acquire(storage, wait=wait, validity=validity)
    try:
        fresh = table.reopened()
        fresh = roll_back_dead_writers(fresh, held, metadata)
        _sweep(fresh, held)
        fresh = metadata.prepare(fresh)
        transaction = Transaction(fresh, action, operation, held, metadata, check)
        transaction._start()
    except Exception:
        held.let_go()
        raise
    except BaseException:
        held.forget()
        raise
    return transaction


class Transaction:
    """A write in progress. Made by `begin`."""

    def __init__(
        self,
        table: HudiTable,
        action: Action,
        operation: str,
        held: lock.TableLock,
        metadata: MetadataHook,
        check: ConflictCheck | None,
    ) -> None:
        self.table = table
        self.action: Action = action
        self.operation = operation.upper()
        self.instant = ""
        self.completed: Instant | None = None
        self._lock = held
        self._metadata = metadata
        self._check = check
        self._heartbeat: heartbeat.Heartbeat | None = None
        self._marked: set[str] = set()
        self._partitions: set[str] = set()
        self._completing = False
        self._marked_elsewhere = False

    @property
    def storage(self) -> Storage:
        return self.table.storage

    def _start(self) -> None:
        """Heartbeat first, so that no pending instant of ours is ever without one."""
        instant = ""
        for _ in range(10):
            instant = next_time(self.table.timeline, instant)
            beat = heartbeat.Heartbeat(self.storage, instant, self._lock)
            beat.start()
            try:
                settle(self.storage, self._path(instant, InstantState.REQUESTED), requested_bytes(self.action))
            except AlreadyThere:
                # A writer that does not know our lock took the same millisecond.
                beat.end()
                continue
            break
        else:
            raise StorageError(
                f"{self.storage.uri}: no free instant found; another writer takes them all: try again later"
            )
        self.instant, self._heartbeat = instant, beat
        settle(
            self.storage, self._path(instant, InstantState.INFLIGHT), inflight_bytes(self.table.config, self.operation)
        )

    def _path(self, instant: str, state: InstantState) -> str:
        return pending_path(self.table.config, instant, self.action, state)

    def mark(self, partition: str, names: str | Sequence[str], kind: markers.MarkerKind) -> None:
        """Note data files before they are made, so that a rollback finds them; a new partition gets its own file too.

        CREATE for a base file of a new group, MERGE for a new version of one, APPEND for a log file. A crash leaves
        markers of files that are not there, and perhaps a partition's file without data: neither shows in any read.
        """
        texts = [names] if isinstance(names, str) else [*names]
        markers.write_markers(self.storage, self.table.config, self.instant, partition, texts, kind)
        self._marked.update(f"{partition}/{name}" if partition else name for name in texts)
        if partition not in self._partitions:
            self._make_partition(partition)
            self._partitions.add(partition)

    def leave_marking_to_tasks(self) -> None:
        """Other processes mark files of this write (`markers.write_markers`), each before it makes them.

        Their markers are read back when the write is completed or undone: what attempts that failed, or came second,
        have made is removed.
        """
        self._marked_elsewhere = True

    def _read_back_markers(self, written: Sequence[WrittenFile] = ()) -> None:
        if not self._marked_elsewhere:
            return
        self._marked.update(marker.path for marker in markers.read_markers(self.storage, self.instant) or ())
        for partition in sorted({file.partition for file in written} - self._partitions):
            self._make_partition(partition)
            self._partitions.add(partition)

    def _make_partition(self, partition: str) -> None:
        path = f"{partition}/{PARTITION_MARKER}" if partition else PARTITION_MARKER
        if self.storage.find(path) is not None or self.storage.find(f"{path}.parquet") is not None:
            return
        depth = len(partition.split("/")) if partition else 0
        values = {"commitTime": self.instant, "partitionDepth": str(depth)}
        try:
            self.storage.create(path, render_java_properties(values, "partition metadata"))
        except AlreadyThere:
            return

    def complete(
        self,
        written: Sequence[WrittenFile],
        *,
        schema: str | None,
        replaced: Mapping[str, Sequence[str]] | None = None,
        extra: Mapping[str, str] | None = None,
        moves: Iterable[pa.RecordBatch] = (),
    ) -> Instant:
        """Commit: marked files that are not in `written` go, the metadata table is told, the completed file is made.

        `schema` is the Avro schema of the table's rows as JSON, `replaced` file ids by partition that no longer count
        (of a replace commit), `extra` more for the commit's own metadata, `moves` where record keys went
        (`RECORD_MOVES`).

        A crash before the completed file is made leaves a pending write, which the next writer rolls back; a crash
        after it leaves a commit, and markers and a heartbeat that the next writer sweeps. Where the storage does not
        tell whether the file was made, `OutcomeUnknown` is raised and nothing is rolled back: open the table to see.
        """
        if self.completed is not None or self._completing:
            raise InvalidArgument(
                f"{self.storage.uri}: instant {self.instant} was completed already; begin another write"
            )
        if replaced and self.action != "replacecommit":
            raise InvalidArgument(f"a {self.action} replaces no file groups; begin a replacecommit")
        if not schema:
            raise InvalidArgument("schema: a commit notes the table's Avro schema; give its JSON text")
        self._read_back_markers(written)
        unmarked = [file.path for file in written if file.path not in self._marked]
        if unmarked:
            raise InvalidArgument(f"files that were not marked before they were made: {', '.join(unmarked[:5])}")
        self._completing = True
        self._lock.check()
        if self._check is not None:
            self._check(self)
        kept = {file.path for file in written} | {path for file in written for path, _ in file.change_files}
        delete_all(self.storage, sorted(self._marked - kept))
        columns = pa.schema([*META_SCHEMA, *to_arrow(schema)])
        self._metadata.commit(self.table, self.instant, self.action, written, replaced or {}, moves, columns)
        data = completed_bytes(
            self.table.config,
            self.instant,
            self.action,
            self.operation,
            written,
            replaced=replaced or {},
            schema=schema,
            extra=extra or {},
        )
        self._lock.check()
        completed_at = next_time(self.table.timeline, self.instant)
        settle(self.storage, completed_path(self.table.config, self.instant, self.action, completed_at), data)
        self._refuse_a_zombie(completed_path(self.table.config, self.instant, self.action, completed_at))
        self.completed = Instant(self.instant, self.action, completed_at=completed_at)
        self._end()
        return self.completed

    def _refuse_a_zombie(self, completed: str) -> None:
        """Between the last look at the lock and the completed file lies a moment in which this process may have slept
        for hours. Whoever rolled the write back then has the last word: see `rollback`."""
        try:
            self._lock.fence()
        except LockLost:
            timeline = load_timeline(self.storage, self.table.config)
            for instant in timeline.instants:
                if instant.action != ROLLBACK or InstantState.REQUESTED not in timeline.files[instant]:
                    continue
                info = timeline.read(instant, InstantState.REQUESTED).get("instantToRollback") or {}
                if info.get("commitTime") != self.instant:
                    continue
                if instant.is_completed:
                    self.storage.delete(completed)
                    raise
                raise OutcomeUnknown(
                    f"{self.storage.uri}: instant {self.instant} is being rolled back by another writer; open the "
                    "table to see whether it counts"
                ) from None

    def _end(self) -> None:
        """The write is done: what fails here is swept by the next writer, and fails nobody."""
        try:
            if self._heartbeat is not None:
                _quietly(self._heartbeat.end)
            _quietly(partial(markers.delete_markers, self.storage, self.instant))
            self._lock.let_go()
        finally:
            self._lock.forget()

    def abort(self) -> None:
        """Undo the write. A crash leaves the rest for the next writer."""
        try:
            self._undo()
        finally:
            self._lock.forget()

    def _undo(self) -> None:
        if self._marked or self._completing or self._marked_elsewhere:
            # First of all: on a disk that is full there is no room for a rollback while the files are there.
            own = [path for path in self._marked if not stays_in_log(self.table, self.instant, path.rpartition("/")[2])]
            delete_all(self.storage, sorted(own))
            table = self.table.reopened()
            mine = [i for i in table.timeline.instants if (i.requested_at, i.action) == (self.instant, self.action)]
            for instant in mine:
                if not instant.is_completed:
                    roll_back(table, instant, self._metadata)
        else:
            # Nothing was made under this instant: it goes without a trace.
            for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
                self.storage.delete(self._path(self.instant, state))
        if self._heartbeat is not None:
            self._heartbeat.end()
        self._lock.release()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.completed is not None:
            return
        if isinstance(error, LockLost | OutcomeUnknown):
            # Somebody else decides, or the storage does: whatever we did now could undo a commit.
            self._lock.forget()
            return
        try:
            self.abort()
        except HeadwaterError as failure:
            _LOG.warning("%s: rolling back %s: %s; the next writer does it", self.storage.uri, self.instant, failure)
            if error is None:
                raise


def _sweep(table: HudiTable, held: lock.TableLock) -> None:
    """Remove what crashes left and nobody needs: markers, heartbeats and unnamed files of instants that have ended."""
    storage = table.storage
    pending = {instant.requested_at for instant in table.timeline.instants if not instant.is_completed}
    for entry in storage.list(markers.FOLDER):
        if entry.is_directory and entry.name.isdigit() and entry.name not in pending:
            _quietly(partial(markers.delete_markers, storage, entry.name))
    for name, beat in heartbeat.heartbeats(storage).items():
        if name not in pending and heartbeat.is_dead(storage, beat, held):
            _quietly(partial(storage.delete, beat.path))
    _sweep_unnamed(table)


def _sweep_unnamed(table: HudiTable) -> None:
    """What a crash left of files that were about to get their names: on disks, where making one takes two steps."""
    storage, config = table.storage, table.config
    if not storage.is_local:
        return
    folders = {META_FOLDER, config.timeline_folder, lock.FOLDER, heartbeat.FOLDER, f"{META_FOLDER}/.index_defs"}
    if config.metadata_partitions:
        own = f"{META_FOLDER}/metadata"
        folders |= {f"{own}/{folder}" for folder in (META_FOLDER, config.timeline_folder, *config.metadata_partitions)}
    for folder in sorted(folders):
        sweep_unnamed(storage, folder)


def _quietly(call: Callable[[], None]) -> None:
    try:
        call()
    except HeadwaterError as error:
        _LOG.warning("%s", error)
