"""File slicing: which files make up which version of which file group (facts 7).

0.x names a log file after the slice's base instant; 1.x after the delta commit, and completion times decide the slice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.errors import UnsupportedTable
from headwater.hudi.file_names import LogFileName, parse_base_file, parse_log_file
from headwater.hudi.timeline import HudiTimeline
from headwater.spec.model import FileGroup, FileGroupId, FileRef, FileSlice, Instant

# What Hudi's metadata adds to the name of a file that keeps the one it had.
_EXTERNAL = "_hudiext"


class ListedFile(NamedTuple):
    """A file of a partition: its name and its size where known."""

    name: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far a read sees: up to an instant by the time it was asked for, or by the time it completed."""

    timeline: HudiTimeline = field(repr=False)
    requested_by: str | None = None
    completed_by: str | None = None
    exclusive: bool = False
    """Whether the bound itself is out of sight."""

    def reaches(self, instant: str) -> bool:
        return self.sees_request(instant) and self.sees_completion(instant)

    def sees_request(self, instant: str) -> bool:
        return self.requested_by is None or self._within(instant, self.requested_by)

    def sees_completion(self, instant: str) -> bool:
        if self.completed_by is None:
            return True
        return self._within(self.timeline.completion_of(instant) or instant, self.completed_by)

    def _within(self, time: str, bound: str) -> bool:
        return time < bound if self.exclusive else time <= bound

    def may_slice(self, instant: str) -> bool:
        """Whether files of an instant take part in slicing: it is committed, and completed within sight."""
        return self.timeline.is_committed(instant) and self.sees_completion(instant)


@dataclass
class _Draft:
    """A slice in the making."""

    base_instant: str
    base: FileRef | None = None
    logs: list[tuple[LogFileName, FileRef]] = field(default_factory=list)

    def frozen(self, group: FileGroupId) -> FileSlice:
        logs = tuple(ref for _, ref in sorted(self.logs, key=lambda pair: pair[0].order))
        return FileSlice(group, self.base_instant, self.base, logs)


def build_groups(partition: str, files: Iterable[ListedFile], horizon: Horizon) -> list[FileGroup]:
    """The committed slices of every file group of a partition, as far as the horizon reaches.

    Files of pending, failed and rolled-back actions are left out; groups that were replaced by then are too.
    """
    timeline = horizon.timeline
    bases: dict[str, list[tuple[str, str, FileRef]]] = {}
    logs: dict[str, list[tuple[LogFileName, FileRef]]] = {}
    prefix = f"{partition}/" if partition else ""
    for name, size in files:
        base = parse_base_file(name)
        if base is not None:
            bases.setdefault(base.file_id, []).append((base.instant, base.write_token, FileRef(prefix + name, size)))
            continue
        log = parse_log_file(name)
        if log is None and name.endswith(_EXTERNAL):
            raise UnsupportedTable(
                f"{timeline.storage.uri}: {prefix}{name} is a file that another table format's writer named (as Apache "
                "XTable registers them with Hudi), which this reader does not know: open the table in its own format"
            )
        if log is not None and not log.is_cdc:
            logs.setdefault(log.file_id, []).append((log, FileRef(prefix + name, size)))
    groups: list[FileGroup] = []
    for file_id in sorted(bases.keys() | logs.keys()):
        replaced_at = timeline.replaced_groups.get((partition, file_id))
        if replaced_at is not None and horizon.reaches(replaced_at):
            continue
        drafts = _base_slices(bases.get(file_id, ()), horizon)
        place = _add_logs_by_completion if timeline.config.version >= 8 else _add_logs_by_name
        place(drafts, logs.get(file_id, ()), horizon)
        _merge_pending(drafts, timeline)
        _cut(drafts, horizon)
        group = FileGroupId(partition, file_id)
        slices = tuple(drafts[key].frozen(group) for key in sorted(drafts))
        if slices:
            groups.append(FileGroup(group, slices, _touching(slices, timeline)))
    return groups


def _touching(slices: tuple[FileSlice, ...], timeline: HudiTimeline) -> tuple[Instant, ...]:
    """The projection of the timeline onto a group: the writes that its files are named after."""
    times = {slice_.base_instant for slice_ in slices}
    for slice_ in slices:
        times.update(log.instant for ref in slice_.delta_files if (log := parse_log_file(ref.name)) is not None)
    return tuple(instant for instant in timeline.commits if instant.requested_at in times)


def _base_slices(files: Iterable[tuple[str, str, FileRef]], horizon: Horizon) -> dict[str, _Draft]:
    drafts: dict[str, _Draft] = {}
    # A retried task leaves the same base file under another write token: the later token won.
    for instant, _, ref in sorted(files, key=lambda file: (file[0], file[1])):
        if horizon.may_slice(instant):
            drafts[instant] = _Draft(instant, ref)
    return drafts


def _add_logs_by_name(drafts: dict[str, _Draft], logs: Iterable[tuple[LogFileName, FileRef]], horizon: Horizon) -> None:
    """0.x: the log file's name holds its slice's base instant. Which of its blocks count is decided when it is read."""
    for log, ref in logs:
        if log.instant not in drafts:
            pending = log.instant in horizon.timeline.pending_compactions
            if not (pending or horizon.may_slice(log.instant)):
                continue
            drafts[log.instant] = _Draft(log.instant)
        drafts[log.instant].logs.append((log, ref))


def _add_logs_by_completion(
    drafts: dict[str, _Draft], logs: Iterable[tuple[LogFileName, FileRef]], horizon: Horizon
) -> None:
    """1.x: a log belongs to the newest slice whose base was asked for before the log's commit completed."""
    timeline = horizon.timeline
    for log, ref in sorted(logs, key=lambda pair: pair[0].order):
        if log.instant in drafts and drafts[log.instant].base is not None:
            # A slice written before the upgrade to 1.x: its logs carry the base instant.
            drafts[log.instant].logs.append((log, ref))
            continue
        if log.instant in timeline.pending_compactions:
            # So do logs of a compaction that was pending when the table was upgraded.
            drafts.setdefault(log.instant, _Draft(log.instant)).logs.append((log, ref))
            continue
        if not horizon.may_slice(log.instant):
            continue
        completed_at = timeline.completion_of(log.instant) or log.instant
        reached = [base for base in drafts if base <= (completed_at if len(completed_at) == len(base) else log.instant)]
        key = max(reached, default=log.instant)
        drafts.setdefault(key, _Draft(key)).logs.append((log, ref))


def _merge_pending(drafts: dict[str, _Draft], timeline: HudiTimeline) -> None:
    """Logs without a base file of their own stand on the slice before them.

    They were written while a compaction is pending; or with the names of 1.x, into a table that was then downgraded.
    """
    for key in sorted(drafts):
        earlier = [other for other in drafts if other < key]
        loose = key in timeline.pending_compactions or timeline.config.version < 8
        if loose and drafts[key].base is None and earlier:
            drafts[max(earlier)].logs.extend(drafts.pop(key).logs)


def _cut(drafts: dict[str, _Draft], horizon: Horizon) -> None:
    """Forget what was asked for later.

    This comes after slicing: a log that completed after a later compaction was scheduled belongs to that compaction's
    slice, also for a read that does not reach it.
    """
    for key in [key for key in drafts if not horizon.sees_request(key)]:
        del drafts[key]
    if horizon.requested_by is None:
        return
    for draft in drafts.values():
        draft.logs = [pair for pair in draft.logs if horizon.sees_request(pair[0].instant)]
