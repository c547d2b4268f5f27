"""Files that the cleaner took, as it wrote down: a read that lacks one of them must not give the rest of the rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from headwater.hudi.timeline import HudiTimeline, load_timeline
from headwater.hudi.view import ListedFile
from headwater.spec.model import Instant, InstantState

CLEAN = "clean"

Files = dict[str, set[str]]
"""Partition → names of files."""


def taken_by_versions(timeline: HudiTimeline) -> Files:
    """What was cleaned by the number of file versions: such cleans name no instant from which on nothing is missing."""
    cleans = [instant for instant in timeline.completed() if instant.action == CLEAN]
    if not cleans or timeline.read(cleans[-1]).get("earliestCommitToRetain"):
        return {}
    records: list[Mapping[str, Any]] = [timeline.read(clean) for clean in cleans]
    if timeline.start is not None:
        records += [archived.metadata() for archived in timeline.history if archived.action == CLEAN]
    return _named(record for record in records if not record.get("earliestCommitToRetain"))


def taken_since(timeline: HudiTimeline, listed: Mapping[str, Sequence[ListedFile]]) -> Files:
    """What was cleaned since a timeline was loaded. The table itself is asked only where files tell of newer writes."""
    newest = max((instant.requested_at for instant in timeline.instants), default="")
    if not any(_is_newer(name, newest) for files in listed.values() for name, _ in files):
        return {}
    now = load_timeline(timeline.storage, timeline.config)
    known = {instant.requested_at for instant in timeline.completed() if instant.action == CLEAN}
    cleans = [instant for instant in now.instants if instant.action == CLEAN and instant.requested_at not in known]
    return _named(_record(now, clean) for clean in cleans)


def restored(files: Sequence[ListedFile], taken: Collection[str] | None) -> list[ListedFile]:
    """A partition's files as if the cleaner had taken none; empty where it took none that is not there."""
    there = {file.name for file in files}
    gone = [ListedFile(name, None) for name in taken or () if name not in there]
    return [*files, *gone] if gone else []


def _is_newer(name: str, newest: str) -> bool:
    """Whether a base file was written later; logs replace no file that is cleaned."""
    return not name.startswith(".") and newest < name.rpartition("_")[2].partition(".")[0] < ":"


def _record(timeline: HudiTimeline, clean: Instant) -> Mapping[str, Any]:
    """What a clean took, or as long as it runs what it takes."""
    if clean.is_completed:
        return timeline.read(clean)
    states = timeline.files.get(clean, {})
    return timeline.read(clean, InstantState.REQUESTED) if InstantState.REQUESTED in states else {}


def _named(records: Iterable[Mapping[str, Any]]) -> Files:
    found: Files = {}
    for record in records:
        for partition, taken in (record.get("partitionMetadata") or {}).items():
            for field in ("deletePathPatterns", "successDeleteFiles"):
                found.setdefault(partition, set()).update(_name(path) for path in taken.get(field) or ())
        for partition, planned in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
            found.setdefault(partition, set()).update(_name(one.get("filePath")) for one in planned or ())
        for partition, paths in (record.get("filesToBeDeletedPerPartition") or {}).items():
            found.setdefault(partition, set()).update(_name(path) for path in paths or ())
    return found


def _name(path: Any) -> str:
    return str(path or "").rsplit("/", 1)[-1]
