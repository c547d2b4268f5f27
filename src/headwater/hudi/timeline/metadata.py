"""What an action wrote down about itself: JSON or Avro, told by the bytes (facts 2.4–2.6)."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro

from headwater.errors import CorruptFile

AVRO_MAGIC = b"Obj\x01"


@dataclass(frozen=True, slots=True)
class WriteStat:
    """One file that an action wrote."""

    partition: str
    file_id: str
    path: str
    num_writes: int = 0
    num_deletes: int = 0
    num_updates: int = 0
    num_inserts: int = 0
    size: int = 0
    cdc_files: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """What a commit, delta commit or replace commit wrote."""

    operation: str = "UNKNOWN"
    write_stats: tuple[WriteStat, ...] = ()
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Partition → file ids whose rows this action replaced."""
    extra: Mapping[str, str] = field(default_factory=dict)
    compacted: bool = False

    @property
    def schema_json(self) -> str | None:
        return self.extra.get("schema") or None

    @property
    def rewrites_only(self) -> bool:
        """Compaction and clustering move rows about and change none."""
        return self.operation in ("COMPACT", "LOG_COMPACT", "CLUSTER", "BUCKET_RESCALE") or self.compacted


def decode(data: bytes, where: str) -> dict[str, Any]:
    """The one record of a timeline file; empty where the file is."""
    if not data:
        return {}
    try:
        if data[:4] == AVRO_MAGIC:
            record = next(iter(fastavro.reader(io.BytesIO(data))), None)
        else:
            record = json.loads(data.decode("utf-8"))
    except Exception as error:
        # fastavro raises whatever its parsing stumbles on: all of it means the same here
        raise CorruptFile(
            f"{where}: cannot be read as Avro or JSON ({type(error).__name__}: {str(error)[:200]}); "
            "the table's history is damaged: restore this file from a backup"
        ) from error
    if record is None:
        return {}
    if not isinstance(record, dict):
        raise CorruptFile(f"{where}: holds a {type(record).__name__}, not a record; restore it from a backup")
    return record


_EXTRA_ONLY = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.hudi.avro.model.HoodieCommitMetadata",
        "aliases": ["org.apache.hudi.avro.model.HoodieReplaceCommitMetadata"],
        "fields": [{"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}], "default": None}],
    }
)


def decode_extra(data: bytes, where: str) -> dict[str, str]:
    """What a commit notes beside its files. The files, which may be many thousand, are passed over."""
    if data[:4] == AVRO_MAGIC:
        try:
            record = next(iter(fastavro.reader(io.BytesIO(data), reader_schema=_EXTRA_ONLY)), None) or {}
        except Exception:
            # whatever is wrong with it, decoding all of it finds out and says
            record = decode(data, where)
    else:
        record = decode(data, where)
    extra = record.get("extraMetadata") if isinstance(record, dict) else None
    if extra is not None and not isinstance(extra, dict):
        raise CorruptFile(f"{where}: is not commit metadata (extraMetadata is no map); restore it from a backup")
    return {str(key): value for key, value in (extra or {}).items() if isinstance(value, str)}


def commit_metadata(record: Mapping[str, Any], where: str) -> CommitMetadata:
    """Typed commit metadata from a decoded record of either encoding."""
    try:
        stats = []
        for partition, items in (record.get("partitionToWriteStats") or {}).items():
            stats += [_write_stat(partition, item) for item in items or ()]
        replaced = {
            partition: _texts(ids or []) for partition, ids in (record.get("partitionToReplaceFileIds") or {}).items()
        }
        extra = {str(k): v for k, v in (record.get("extraMetadata") or {}).items() if isinstance(v, str)}
        operation = str(record.get("operationType") or "UNKNOWN").upper()
        return CommitMetadata(operation, tuple(stats), replaced, extra, bool(record.get("compacted")))
    except (AttributeError, TypeError, ValueError, KeyError, OverflowError) as error:
        raise CorruptFile(f"{where}: is not commit metadata ({error}); restore it from a backup") from error


def _texts(items: Any) -> tuple[str, ...]:
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise TypeError(f"{str(items)[:80]!r} is no list of texts")
    return tuple(items)


def _long(value: Any) -> int:
    number = int(value or 0)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"a number of {number.bit_length()} bits")
    return number


def _write_stat(partition: str, stat: Mapping[str, Any]) -> WriteStat:
    cdc = stat.get("cdcStats") or {}
    return WriteStat(
        partition=partition,
        file_id=str(stat.get("fileId") or ""),
        path=str(stat.get("path") or ""),
        num_writes=_long(stat.get("numWrites")),
        num_deletes=_long(stat.get("numDeletes")),
        num_updates=_long(stat.get("numUpdateWrites")),
        num_inserts=_long(stat.get("numInserts")),
        size=_long(stat.get("fileSizeInBytes")),
        cdc_files=tuple((str(path), _long(size)) for path, size in cdc.items()),
    )
