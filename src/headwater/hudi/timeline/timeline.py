"""The timeline of a table: the active instants of both layouts, and the history behind them on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from headwater.errors import InstantNotFound
from headwater.hudi.properties import META_FOLDER, TableConfig
from headwater.hudi.timeline.history import ArchivedInstant, load_history
from headwater.hudi.timeline.instants import (
    CLUSTERING,
    COMPACTION,
    COMPLETES_AS,
    LOG_COMPACTION,
    REPLACE_COMMIT,
    SAVEPOINT,
    WRITE_ACTIONS,
    TimelineFile,
    combine,
    parse_timeline_file,
)
from headwater.hudi.timeline.metadata import CommitMetadata, commit_metadata, decode, decode_extra
from headwater.spec.model import Instant, InstantState
from headwater.storage import Storage

_KEEPS_KEYS_UNIQUE = frozenset(
    {
        "UPSERT",
        "UPSERT_PREPPED",
        "DELETE",
        "DELETE_PREPPED",
        "DELETE_PARTITION",
        "COMPACT",
        "LOG_COMPACT",
        "CLUSTER",
        "BUCKET_RESCALE",
        "ALTER_SCHEMA",
        "INDEX",
    }
)


def load_timeline(storage: Storage, config: TableConfig) -> HudiTimeline:
    """List the active timeline.

    An upgrade moves the files of version 6 from the meta folder into the timeline folder one by one, and may die on the
    way: whatever the version says, both folders are looked at, and an instant counts wherever it stands.
    """
    folders = {META_FOLDER, config.timeline_folder, f"{META_FOLDER}/timeline"}
    entries = [entry for folder in sorted(folders) for entry in storage.list(folder) if not entry.is_directory]
    parsed = (parse_timeline_file(entry, in_utc=config.timeline_in_utc) for entry in entries)
    instants, files = combine(file for file in parsed if file is not None)
    return HudiTimeline(storage, config, instants, files)


@dataclass(frozen=True)
class HudiTimeline:
    """Implements `spec.Timeline`. Values are read once and kept."""

    storage: Storage = field(repr=False)
    config: TableConfig = field(repr=False)
    instants: tuple[Instant, ...]
    files: dict[Instant, dict[InstantState, TimelineFile]] = field(repr=False)
    _metadata: dict[Instant, CommitMetadata] = field(default_factory=dict, repr=False)
    _extra: dict[Instant, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """For another process: the same instants, without what was read of them on the way."""
        kept = {name: self.__dict__[name] for name in ("storage", "config", "instants", "files")}
        return {**kept, "_metadata": {}, "_extra": {}}

    def completed(self) -> tuple[Instant, ...]:
        return self._completed

    @cached_property
    def _completed(self) -> tuple[Instant, ...]:
        return tuple(instant for instant in self.instants if instant.is_completed)

    @cached_property
    def commits(self) -> tuple[Instant, ...]:
        """Completed actions that wrote data files, in order of request."""
        return tuple(instant for instant in self._completed if instant.action in WRITE_ACTIONS)

    @cached_property
    def pending_compactions(self) -> frozenset[str]:
        return frozenset(i.requested_at for i in self.instants if i.action == COMPACTION and not i.is_completed)

    @cached_property
    def _completed_at(self) -> dict[str, str]:
        return {i.requested_at: i.completed_at or i.requested_at for i in self.commits}

    @cached_property
    def _pending_writes(self) -> frozenset[str]:
        pending = WRITE_ACTIONS | set(COMPLETES_AS)
        return frozenset(i.requested_at for i in self.instants if not i.is_completed and i.action in pending)

    @cached_property
    def start(self) -> str | None:
        """What was asked for before this is history: it was completed, then archived.

        Savepoints keep their commit in the active timeline while its neighbours are archived, so they do not count.
        Where each commit has one, the newest is the end of what may be archived.
        """
        kept = {i.requested_at for i in self.instants if i.action == SAVEPOINT}
        newest = self.commits[-1].requested_at if self.commits else None
        return next((i.requested_at for i in self.commits if i.requested_at not in kept), newest)

    def is_committed(self, requested_at: str) -> bool:
        """Whether files of this instant may be read: completed, or archived."""
        if requested_at in self._completed_at:
            return True
        return self.start is not None and requested_at < self.start and requested_at not in self._pending_writes

    def is_pending(self, requested_at: str) -> bool:
        """Whether a write of this instant has begun and not ended."""
        return requested_at in self._pending_writes and requested_at not in self._completed_at

    def completion_of(self, requested_at: str) -> str | None:
        """When an instant completed; looks into the history where it is archived."""
        found = self._completed_at.get(requested_at)
        if found is None and self.start is not None and requested_at < self.start:
            found = next((a.completed_at for a in self.history if a.requested_at == requested_at), None)
        return found

    def find_latest_completed_action_at(self, time: str | None = None) -> Instant | None:
        """The newest completed write that had been asked for at `time`."""
        found = [i for i in self.commits if time is None or i.requested_at <= time]
        return found[-1] if found else None

    def requested_between(self, start: str | None, end: str | None) -> Sequence[Instant]:
        """Completed writes asked for after `start`, up to and with `end`; archived ones too."""
        return [i for i in self._all_writes(start) if _within(i.requested_at, start, end)]

    def completed_between(self, start: str | None, end: str | None) -> Sequence[Instant]:
        """Completed writes that completed after `start`, up to and with `end`; archived ones too."""
        return [i for i in self._all_writes(start) if _within(i.completed_at or i.requested_at, start, end)]

    def _all_writes(self, start: str | None) -> list[Instant]:
        """Writes of the history (read only where the range can reach it) and of the active timeline."""
        archived: list[Instant] = []
        if self.start is not None and (start is None or start < self.start):
            active = {i.requested_at for i in self.commits}
            archived = [a.instant for a in self.history if a.action in WRITE_ACTIONS and a.requested_at not in active]
        return archived + list(self.commits)

    @cached_property
    def history(self) -> tuple[ArchivedInstant, ...]:
        """Archived completed actions, oldest first."""
        return load_history(self.storage, self.config)

    @cached_property
    def archived_times(self) -> frozenset[str]:
        active = {i.requested_at for i in self.commits}
        return frozenset(a.requested_at for a in self.history if a.requested_at not in active)

    def read(self, instant: Instant, state: InstantState = InstantState.COMPLETED) -> dict[str, Any]:
        """What the action wrote down about itself, decoded; empty where it wrote nothing."""
        file = self.files.get(instant, {}).get(state)
        if file is None:
            archived = next((a for a in self.history if a.requested_at == instant.requested_at), None)
            if archived is None:
                raise InstantNotFound(f"{self.storage.uri}: no {state.value} file for instant {instant}")
            return dict(archived.metadata())
        if file.size == 0:
            return {}
        return decode(self.storage.read_bytes(file.path), self.storage.describe(file.path))

    def extra(self, instant: Instant) -> Mapping[str, str]:
        """What a completed write noted beside its files, without decoding those."""
        known = self._metadata.get(instant)
        if known is not None:
            return known.extra
        found = self._extra.get(instant)
        if found is None:
            file = self.files.get(instant, {}).get(InstantState.COMPLETED)
            if file is None:
                return self.metadata(instant).extra
            data = self.storage.read_bytes(file.path) if file.size else b""
            found = self._extra[instant] = decode_extra(data, self.storage.describe(file.path))
        return found

    def metadata(self, instant: Instant) -> CommitMetadata:
        """What a completed write wrote."""
        found = self._metadata.get(instant)
        if found is None:
            found = commit_metadata(self.read(instant), f"{self.storage.uri}: instant {instant}")
            self._metadata[instant] = found
        return found

    def known_metadata(self, instant: Instant) -> CommitMetadata | None:
        """What a completed write wrote, where that was read already."""
        return self._metadata.get(instant)

    @cached_property
    def replaced_groups(self) -> dict[tuple[str, str], str]:
        """(partition, file id) → the newest completed instant that replaced it."""
        found: dict[tuple[str, str], str] = {}
        for instant in self.commits:
            if instant.action == REPLACE_COMMIT:
                for partition, ids in self.metadata(instant).replaced.items():
                    found.update({(partition, file_id): instant.requested_at for file_id in ids})
        return found

    @cached_property
    def keys_are_unique(self) -> bool:
        """Whether no write can have stored a record key twice.

        Upserts look for the key first; inserts and bulk inserts do not, and real tables do hold keys twice.
        """
        writes = [self.metadata(instant).operation for instant in self.commits]
        if self.start is not None:
            writes += [
                str(archived.metadata().get("operationType") or "UNKNOWN")
                for archived in self.history
                if archived.action in WRITE_ACTIONS
            ]
        return all(operation in _KEEPS_KEYS_UNIQUE for operation in writes)

    @cached_property
    def has_deletes(self) -> bool:
        """Whether some write deleted records, as far as commits tell."""
        if any(stat.num_deletes for instant in self.commits for stat in self.metadata(instant).write_stats):
            return True
        if self.start is None:
            return False
        archived = [one for one in self.history if one.action in WRITE_ACTIONS]
        return any(
            stat.num_deletes for one in archived for stat in commit_metadata(one.metadata(), one.where).write_stats
        )

    def pending(self, action: str) -> list[Instant]:
        return [i for i in self.instants if i.action == action and not i.is_completed]

    def is_rewrite(self, instant: Instant) -> bool:
        """Whether a completed write was a compaction or a clustering: it changed no row."""
        states = self.files.get(instant, {}).values()
        if any(f.action in (COMPACTION, LOG_COMPACTION) for f in states):
            return True
        if instant.action == REPLACE_COMMIT or any(f.action == CLUSTERING for f in states):
            return self.metadata(instant).operation in ("CLUSTER", "BUCKET_RESCALE")
        return False


def _within(time: str, start: str | None, end: str | None) -> bool:
    return (start is None or time > start) and (end is None or time <= end)
