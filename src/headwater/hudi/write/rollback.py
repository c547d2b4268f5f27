"""Undoing a write: of a dead writer, or the newest commit on request, as Hudi's own rollback instants (facts 15.5).

Data files go, except log files of version 6, to which Hudi may have appended for others too: there a command block
takes the write's blocks back. The order of steps makes every crash harmless: the plan stands in the timeline before
anything is undone, a commit leaves the timeline before its files go, and the dead instant stays pending until all is
undone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from headwater.errors import InstantNotFound, InvalidArgument, TableLocked, UnsupportedTable
from headwater.hudi.file_names import parse_base_file, parse_log_file
from headwater.hudi.listing import FolderListing
from headwater.hudi.log.format import BlockType, Header, write_block
from headwater.hudi.properties import META_FOLDER
from headwater.hudi.table import HudiTable
from headwater.hudi.timeline.instants import (
    CLEAN,
    COMPLETES_AS,
    REPLACE_COMMIT,
    ROLLBACK,
    SAVEPOINT,
    WRITE_ACTIONS,
    parse_timeline_file,
)
from headwater.hudi.write import heartbeat, lock, markers
from headwater.hudi.write.action_schemas import encode
from headwater.hudi.write.clock import next_time
from headwater.hudi.write.metadata_hook import METADATA_TABLE, MetadataHook
from headwater.hudi.write.model import WrittenFile
from headwater.hudi.write.result import RollbackResult
from headwater.hudi.write.timeline_files import completed_path, pending_path, settle
from headwater.spec.model import Instant, InstantState
from headwater.storage import Storage
from headwater.storage.writing import LEFT_BEHIND

_ROLLBACK_TOKEN = "1-0-1"
_REWRITES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "BUCKET_RESCALE"})


@dataclass(frozen=True, slots=True)
class UndoneFile:
    """A data file that a rollback takes back: deleted, or where `by_block` by a command block in its slice's log."""

    partition: str
    name: str
    by_block: bool = False

    @property
    def path(self) -> str:
        return f"{self.partition}/{self.name}" if self.partition else self.name


def rollback(
    table: HudiTable, instant: str, *, wait: float = lock.WAIT, metadata: MetadataHook = METADATA_TABLE
) -> RollbackResult:
    """Undo the newest commit, or a write that never completed.

    A crash leaves the table as before, or with the commit gone from its timeline and the rollback pending; the next
    writer ends it.
    """
    with lock.locked(table.storage, wait=wait) as held:
        fresh = finish_rollbacks(table.reopened(), metadata)
        target = next((i for i in fresh.timeline.instants if i.requested_at == instant and _is_write(i)), None)
        if target is None:
            raise InstantNotFound(
                f"{table.storage.uri}: no write at {instant} in the active timeline; nothing is rolled back"
            )
        if not target.is_completed:
            _refuse_the_living(fresh, target, held)
        _refuse_what_others_build_on(fresh, target)
        return roll_back(fresh, target, metadata)


def roll_back_dead_writers(
    table: HudiTable, held: lock.TableLock, metadata: MetadataHook = METADATA_TABLE
) -> HudiTable:
    """End pending rollbacks and undo what dead writers left; the table as it is then. The caller holds the lock.

    Raises `TableLocked` where a writer of Hudi shows signs of life. A crash leaves some of it for the next writer.
    """
    table = finish_rollbacks(table, metadata)
    dead = [i for i in table.timeline.instants if not i.is_completed and _is_write(i) and not _is_clustering(table, i)]
    if dead:
        beats = heartbeat.heartbeats(table.storage)
        for instant in dead:
            _refuse_the_living(table, instant, held, beats)
        for instant in reversed(dead):
            roll_back(table, instant, metadata)
            table = table.reopened()
    return table


def _refuse_the_living(
    table: HudiTable,
    instant: Instant,
    held: lock.TableLock,
    beats: dict[str, Any] | None = None,
) -> None:
    beats = heartbeat.heartbeats(table.storage) if beats is None else beats
    if not heartbeat.is_dead(table.storage, beats.get(instant.requested_at), held):
        raise TableLocked(
            f"{table.storage.uri}: a writer is at work on instant {instant.requested_at} (its heartbeat is fresh); "
            "wait for it to end, or two minutes if it died"
        )


def _is_write(instant: Instant) -> bool:
    return instant.action in WRITE_ACTIONS


def _is_clustering(table: HudiTable, instant: Instant) -> bool:
    """Version 6 plans clustering under the name of a replace commit: such a plan waits to be run, nobody died."""
    if instant.action != REPLACE_COMMIT:
        return False
    if InstantState.REQUESTED not in table.timeline.files[instant]:
        return False
    requested = table.timeline.read(instant, InstantState.REQUESTED)
    return requested.get("clusteringPlan") is not None


def _refuse_what_others_build_on(table: HudiTable, target: Instant) -> None:
    if not target.is_completed:
        return
    where = f"{table.storage.uri}: {target}"
    pending = {*WRITE_ACTIONS, *COMPLETES_AS}
    after = [i for i in table.timeline.instants if i.requested_at > target.requested_at and i.action in pending]
    if after:
        raise InvalidArgument(f"{where} is not the newest write: {after[-1]} came after it; roll back the newest first")
    if any(i.action == SAVEPOINT and i.requested_at == target.requested_at for i in table.timeline.instants):
        raise InvalidArgument(f"{where} is kept by a savepoint; delete the savepoint first")
    if table.timeline.metadata(target).operation in _REWRITES or table.timeline.is_rewrite(target):
        raise UnsupportedTable(
            f"{where} is a {table.timeline.metadata(target).operation}, which changed no row; leave it"
        )
    cleaned = _cleaned_since(table, target)
    if cleaned is not None:
        raise InvalidArgument(f"{where}: {cleaned}, which it replaced, has been cleaned; it can no longer be undone")


def _cleaned_since(table: HudiTable, target: Instant) -> str | None:
    """A file of the state before a commit that a later clean removed."""
    cleans = [i for i in table.timeline.completed() if i.action == CLEAN and i.requested_at > target.requested_at]
    if not cleans:
        return None
    record = table.timeline.read(target)
    stats = [s for items in (record.get("partitionToWriteStats") or {}).values() for s in items or ()]
    previous = {(str(s.get("fileId")), str(s.get("prevCommit"))) for s in stats}
    replaced = {file_id for ids in (record.get("partitionToReplaceFileIds") or {}).values() for file_id in ids}
    for clean in cleans:
        for partition in (table.timeline.read(clean).get("partitionMetadata") or {}).values():
            for path in [*partition.get("successDeleteFiles", ()), *partition.get("deletePathPatterns", ())]:
                name = parse_base_file(path.rsplit("/", 1)[-1]) or parse_log_file(path.rsplit("/", 1)[-1])
                if name is not None and (name.file_id in replaced or (name.file_id, name.instant) in previous):
                    return str(path)
    return None


def plan_rollback(table: HudiTable, target: Instant) -> list[UndoneFile]:
    """The files that a rollback takes back: those that the commit names, or those that the dead writer marked.

    Without markers no file was made by us; Hudi's releases all mark too. Files that carry the instant in their names
    are looked for all the same, once the write was inflight.
    """
    instant = target.requested_at
    if target.is_completed:
        stats = table.timeline.metadata(target).write_stats
        paths = [(s.partition, s.name) for s in stats if s.path]
        paths += [(s.partition, path.rsplit("/", 1)[-1]) for s in stats for path, _ in s.cdc_files]
    else:
        marked = markers.read_markers(table.storage, instant)
        if marked is not None:
            paths = [(marker.partition, marker.name) for marker in marked]
        elif InstantState.INFLIGHT in table.timeline.files[target]:
            paths = _by_name(table, instant)
        else:
            paths = []
    return [UndoneFile(partition, name, stays_in_log(table, instant, name)) for partition, name in sorted(set(paths))]


def stays_in_log(table: HudiTable, instant: str, name: str) -> bool:
    """Whether a data file of a write is a log file that may hold blocks of others: a block takes the write back."""
    if table.config.version >= 8:
        return False
    log = parse_log_file(name)
    # A log whose slice begins with this write holds nothing of others.
    return log is not None and log.instant != instant and not log.is_cdc


def _by_name(table: HudiTable, instant: str) -> list[tuple[str, str]]:
    listing = FolderListing(table.storage, table.config)
    found = []
    for partition in listing.partitions():
        for entry in listing.files(partition):
            name = parse_base_file(entry.name) or parse_log_file(entry.name)
            if name is not None and name.instant == instant:
                found.append((partition, entry.name))
    return found


def roll_back(table: HudiTable, target: Instant, metadata: MetadataHook = METADATA_TABLE) -> RollbackResult:
    """Undo one write; the caller holds the lock and knows that it may.

    A crash leaves the plan in the timeline, and `finish_rollbacks` goes on from there.
    """
    undone = plan_rollback(table, target)
    instant = next_time(table.timeline, target.requested_at)
    settle(
        table.storage,
        pending_path(table.config, instant, ROLLBACK, InstantState.REQUESTED),
        _plan(table, target, undone),
    )
    if not target.is_completed and _completed_files(table, target):
        # A writer that was taken for dead has committed at the last moment: it wins, nothing is undone yet.
        table.storage.delete(pending_path(table.config, instant, ROLLBACK, InstantState.REQUESTED))
        raise TableLocked(f"{table.storage.uri}: {target} was slow, not dead, and has completed; open the table again")
    return _execute(table, instant, target, undone, metadata)


def finish_rollbacks(table: HudiTable, metadata: MetadataHook = METADATA_TABLE) -> HudiTable:
    """Go on with rollbacks that died half way, under their own instants; the table as it is then. See `roll_back`."""
    pending = table.timeline.pending(ROLLBACK)
    for instant in pending:
        files = table.timeline.files[instant]
        plan = table.timeline.read(instant, InstantState.REQUESTED) if InstantState.REQUESTED in files else {}
        info = plan.get("instantToRollback") or {}
        time_, action = str(info.get("commitTime") or ""), str(info.get("action") or "")
        target = next((i for i in table.timeline.instants if i.requested_at == time_ and _is_write(i)), None)
        if not time_ or (InstantState.INFLIGHT not in files and target is not None and target.is_completed):
            # Nothing of it was done, and what it was to undo stands.
            for file in files.values():
                table.storage.delete(file.path)
            continue
        target = target or Instant(time_, COMPLETES_AS.get(action, action), InstantState.INFLIGHT)
        _execute(table, instant.requested_at, target, _read_plan(plan), metadata)
    return table.reopened() if pending else table


def _execute(
    table: HudiTable, instant: str, target: Instant, undone: Sequence[UndoneFile], metadata: MetadataHook
) -> RollbackResult:
    storage, config = table.storage, table.config
    started = time.monotonic()
    inflight = pending_path(config, instant, ROLLBACK, InstantState.INFLIGHT)
    if storage.find(inflight) is None:
        settle(storage, inflight, b"")
    # From here on the commit does not count; files are deleted only afterwards.
    for path in _completed_files(table, target):
        storage.delete(path)
    blocks: dict[str, WrittenFile] = {}
    sizes: dict[str, int] = {}
    delete_all(storage, [file.path for file in undone if not file.by_block])
    # What an ALTER TABLE that died noted of its columns: once the timeline is archived past it, nothing would tell it
    # from one that counts.
    noted = storage.list(f"{META_FOLDER}/.schema")
    delete_all(storage, [entry.path for entry in noted if entry.name.startswith(target.requested_at)])
    if storage.is_local:
        for partition in sorted({file.partition for file in undone}):
            sweep_unnamed(storage, partition)
    for file in undone:
        entry = storage.find(file.path) if file.by_block else None
        if entry is not None:
            sizes[file.path] = entry.size
            blocks[file.path] = _take_back(table, instant, target.requested_at, file)
    # The dead log file stays, taken back by the block behind it: whoever lists files finds both.
    kept = {path: _block_file(*path.rpartition("/")[::2], size) for path, size in sizes.items()}
    there = {**kept, **{file.path: file for file in blocks.values()}}
    # Opened anew: the commit that is undone no longer shows.
    now = table.reopened()
    metadata.rollback(now, instant, target.requested_at, [*there.values()])
    # A zombie may have completed the write in the meantime: its files are gone.
    for path in _completed_files(table, target):
        storage.delete(path)
    states = table.timeline.files.get(target, {})
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        if state in states:
            storage.delete(states[state].path)
    completed_at = next_time(table.timeline, instant)
    record = _metadata(table, instant, target, undone, blocks, sizes, round((time.monotonic() - started) * 1000))
    settle(storage, completed_path(config, instant, ROLLBACK, completed_at), encode(record, "HoodieRollbackMetadata"))
    markers.delete_markers(storage, target.requested_at)
    storage.delete(f"{heartbeat.FOLDER}/{target.requested_at}")
    return RollbackResult(
        Instant(instant, ROLLBACK, completed_at=completed_at),
        target,
        tuple(file.path for file in undone if not file.by_block),
        tuple(blocks),
    )


def delete_all(storage: Storage, paths: Sequence[str]) -> None:
    """Delete files, side by side where each is a request. A crash leaves some of them.

    >>> import tempfile
    >>> delete_all(Storage.at(tempfile.mkdtemp()), ["a", "b"])
    """
    if storage.is_local or len(paths) < 2:
        for path in paths:
            storage.delete(path)
        return
    with ThreadPoolExecutor(min(len(paths), 16)) as pool:
        list(pool.map(storage.delete, paths))


def sweep_unnamed(storage: Storage, folder: str) -> None:
    """Remove what a crash left of files of a folder that were about to get their names; see `Storage.create`.

    >>> import tempfile
    >>> sweep_unnamed(Storage.at(tempfile.mkdtemp()), "")
    """
    for entry in storage.list(folder):
        if not entry.is_directory and LEFT_BEHIND.match(entry.name):
            storage.delete(entry.path)


def _completed_files(table: HudiTable, target: Instant) -> list[str]:
    """Files of the timeline that say that the target is complete, as they are now."""
    found = []
    for entry in table.storage.list(table.config.timeline_folder):
        file = None if entry.is_directory else parse_timeline_file(entry, in_utc=table.config.timeline_in_utc)
        if (
            file is not None
            and file.requested_at == target.requested_at
            and file.state is InstantState.COMPLETED
            and file.action in WRITE_ACTIONS
        ):
            found.append(entry.path)
    return found


def _take_back(table: HudiTable, instant: str, target: str, file: UndoneFile) -> WrittenFile:
    """A command block in a log file of its own, behind all others of the slice. The same block twice does no harm, and
    a rollback that goes on finds its own."""
    log = parse_log_file(file.name)
    assert log is not None
    headers: dict[int, str] = {
        Header.COMMAND_BLOCK_TYPE: "0",
        Header.INSTANT_TIME: instant,
        Header.TARGET_INSTANT_TIME: target,
    }
    block = write_block(BlockType.COMMAND, headers)
    versions = [0]
    for entry in table.storage.list(file.partition):
        other = parse_log_file(entry.name)
        if other is None or (other.file_id, other.instant) != (log.file_id, log.instant):
            continue
        versions.append(other.version)
        is_alike = other.write_token == _ROLLBACK_TOKEN and entry.size == len(block)
        if is_alike and table.storage.read_bytes(entry.path) == block:
            return _block_file(file.partition, entry.name, len(block))
    name = f".{log.file_id}_{log.instant}.log.{max(versions) + 1}_{_ROLLBACK_TOKEN}"
    made = _block_file(file.partition, name, len(block))
    settle(table.storage, made.path, block)
    return made


def _block_file(partition: str, name: str, size: int) -> WrittenFile:
    """A log file that holds no rows that count."""
    log = parse_log_file(name)
    assert log is not None
    return WrittenFile(
        partition,
        log.file_id,
        name,
        size,
        0,
        previous_instant=log.instant,
        is_log=True,
        log_version=log.version,
        blocks=1,
    )


def _plan(table: HudiTable, target: Instant, undone: Sequence[UndoneFile]) -> bytes:
    requests = []
    for file in undone:
        name = parse_base_file(file.name) or parse_log_file(file.name)
        requests.append(
            {
                "partitionPath": file.partition,
                "fileId": name.file_id if name else "",
                "latestBaseInstant": name.instant if name else "",
                "filesToBeDeleted": [] if file.by_block else [table.storage.describe(file.path)],
                "logBlocksToBeDeleted": {file.name: 1} if file.by_block else {},
            }
        )
    info = {"commitTime": target.requested_at, "action": target.action}
    return encode({"instantToRollback": info, "RollbackRequests": requests, "version": 1}, "HoodieRollbackPlan")


def _read_plan(plan: dict[str, Any]) -> list[UndoneFile]:
    """Paths in a plan are whole ones, of wherever the table stood then: the partition and the name are what counts."""
    found = []
    for request in plan.get("RollbackRequests") or ():
        partition = str(request.get("partitionPath") or "")
        for path in request.get("filesToBeDeleted") or ():
            found.append(UndoneFile(partition, path.rsplit("/", 1)[-1]))
        for path in request.get("logBlocksToBeDeleted") or {}:
            found.append(UndoneFile(partition, path.rsplit("/", 1)[-1], by_block=True))
    return found


def _metadata(
    table: HudiTable,
    instant: str,
    target: Instant,
    undone: Sequence[UndoneFile],
    blocks: dict[str, WrittenFile],
    sizes: dict[str, int],
    milliseconds: int,
) -> dict[str, Any]:
    partitions: dict[str, dict[str, Any]] = {}
    for file in undone:
        entry = partitions.setdefault(
            file.partition,
            {
                "partitionPath": file.partition,
                "successDeleteFiles": [],
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            },
        )
        if not file.by_block:
            entry["successDeleteFiles"].append(table.storage.describe(file.path))
        elif file.path in blocks:
            made = blocks[file.path]
            entry["rollbackLogFiles"][table.storage.describe(made.path)] = made.size
            entry["logFilesFromFailedCommit"][table.storage.describe(file.path)] = sizes[file.path]
    return {
        "startRollbackTime": instant,
        "timeTakenInMillis": milliseconds,
        "totalFilesDeleted": sum(not file.by_block for file in undone),
        "commitsRollback": [target.requested_at],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [{"commitTime": target.requested_at, "action": target.action}],
    }
