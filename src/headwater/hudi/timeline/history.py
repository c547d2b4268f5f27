"""Actions that left the active timeline: the archive of releases before 1.0 and the LSM history after (facts 3)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import CorruptFile, HeadwaterError
from headwater.hudi.log import BlockType, read_data_block, scan_blocks
from headwater.hudi.properties import META_FOLDER, TableConfig
from headwater.hudi.timeline.bare_avro import decode_bare
from headwater.hudi.timeline.metadata import AVRO_MAGIC, decode
from headwater.spec.model import Instant
from headwater.storage import Storage

_MANIFEST = re.compile(r"^manifest_(\d+)$")
_ARCHIVE = re.compile(r"^\.commits_\.archive\.(\d+)(?:_.*)?$")
_HISTORY = pa.schema(
    [("instantTime", pa.string()), ("completionTime", pa.string()), ("action", pa.string()), ("metadata", pa.binary())]
)
_ARCHIVED_FIELDS = (
    "hoodieCommitMetadata",
    "hoodieReplaceCommitMetadata",
    "hoodieCleanMetadata",
    "hoodieRollbackMetadata",
    "hoodieSavePointMetadata",
    "hoodieIndexCommitMetadata",
)


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """A completed action of the history."""

    requested_at: str
    action: str
    completed_at: str
    record: Mapping[str, Any] | bytes | None = field(default=None, repr=False, compare=False)
    where: str = field(default="", repr=False, compare=False)

    def metadata(self) -> Mapping[str, Any]:
        """What the action wrote down about itself; decoded only when asked for."""
        if isinstance(self.record, bytes):
            if self.record[:4] == AVRO_MAGIC:
                return decode(self.record, self.where)
            return decode_bare(self.record, self.action, self.where)
        return self.record or {}

    @property
    def instant(self) -> Instant:
        return Instant(self.requested_at, self.action, completed_at=self.completed_at)


def load_history(storage: Storage, config: TableConfig) -> tuple[ArchivedInstant, ...]:
    """All archived completed actions, oldest first, each once.

    An upgraded table keeps its old archive beside the new history, a downgraded one the other way round: both are
    read, and the layout that the table is in now wins where both have an instant.
    """
    by_key: dict[tuple[str, str], ArchivedInstant] = {}
    if config.layout == 1:
        found = _lsm(storage, f"{META_FOLDER}/timeline/history") + _archive(storage, config.archive_folder)
    else:
        found = _archive(storage, config.archive_folder) + _lsm(storage, config.history_folder)
    by_key.update({(archived.requested_at, archived.action): archived for archived in found})
    return tuple(sorted(by_key.values(), key=lambda a: (a.requested_at, a.action)))


def _lsm(storage: Storage, folder: str) -> list[ArchivedInstant]:
    found: list[ArchivedInstant] = []
    for name in _manifest_files(storage, folder):
        path = f"{folder}/{name}"
        try:
            file = pq.ParquetFile(pa.BufferReader(storage.read_buffer(path)), page_checksum_verification=True)
            table = file.read(use_threads=False)
            if table.num_rows != file.metadata.num_rows:
                raise ValueError(f"{table.num_rows} rows where its footer says {file.metadata.num_rows}")
            rows = table.select(_HISTORY.names).cast(_HISTORY).to_pylist()
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            if isinstance(error, HeadwaterError):
                raise
            raise CorruptFile(f"{storage.describe(path)}: is no history file ({error}); restore it") from error
        for row in rows:
            requested_at = row["instantTime"] or ""
            where = f"{storage.describe(path)}: instant {requested_at}"
            completed_at = row["completionTime"] or requested_at
            action, record = row["action"] or "", row["metadata"] or None
            found.append(ArchivedInstant(requested_at, action, completed_at, record, where))
    return found


def _manifest_files(storage: Storage, folder: str) -> list[str]:
    """Data files of the newest manifest; `_version_` names it, and when that is unreadable the highest number does."""
    names = {entry.name: entry for entry in storage.list(folder)}
    manifests = {int(m[1]): name for name in names if (m := _MANIFEST.match(name))}
    if not manifests:
        return []
    newest = max(manifests)
    if "_version_" in names:
        text = storage.read_bytes(f"{folder}/_version_").decode("utf-8", "replace").strip()
        if _MANIFEST.match(f"manifest_{text}") and f"manifest_{text}" in names:
            newest = int(text)
    path = f"{folder}/{manifests[newest]}"
    try:
        listed = json.loads(storage.read_bytes(path).decode("utf-8"))
        return [str(item["fileName"]) for item in listed["files"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFile(f"{storage.describe(path)}: is no history manifest ({error}); restore it") from error


def _archive(storage: Storage, folder: str) -> list[ArchivedInstant]:
    files = [(int(m[1]), entry) for entry in storage.list(folder) if (m := _ARCHIVE.match(entry.name))]
    found: list[ArchivedInstant] = []
    for _, entry in sorted(files, key=lambda pair: pair[0]):
        for block in scan_blocks(storage, entry.path):
            if block.type is BlockType.CORRUPT:
                raise CorruptFile(
                    f"{block.file}: the {block.length} bytes at byte {block.offset} are no log block, and the actions "
                    "archived there are lost; restore the file, or read later instants only"
                )
            if block.type is BlockType.AVRO_DATA:
                try:
                    rows = read_data_block(block).to_pylist(maps_as_pydicts="strict")
                except (KeyError, ValueError, OverflowError) as error:
                    if isinstance(error, HeadwaterError):
                        raise
                    raise CorruptFile(f"{block.describe()}: holds no archived actions ({error}); restore it") from error
                found += [a for row in rows if (a := _archived(row)) is not None]
    return found


def _archived(record: Mapping[str, Any]) -> ArchivedInstant | None:
    """Each state of an action has an entry of its own; only the completed one counts."""
    requested_at, action = str(record.get("commitTime") or ""), str(record.get("actionType") or "")
    state = record.get("actionState")
    if not requested_at or not action or (state is not None and state != "COMPLETED"):
        return None
    metadata = next((record[name] for name in _ARCHIVED_FIELDS if record.get(name) is not None), None)
    action = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}.get(action, action)
    completed_at = str(record.get("stateTransitionTime") or requested_at)
    return ArchivedInstant(requested_at, action, max(completed_at, requested_at), metadata)
