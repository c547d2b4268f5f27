"""The `.hoodie` directory of a generated table: properties and a layout-2 timeline (format facts, parts 1 and 2)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro

_LONGS = [
    "numWrites",
    "numDeletes",
    "numUpdateWrites",
    "totalWriteBytes",
    "totalWriteErrors",
    "-",
    "totalLogRecords",
    "totalLogFiles",
    "totalUpdatedRecordsCompacted",
    "numInserts",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "fileSizeInBytes",
]


def _optional(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None}


def _longs(names: Iterable[str]) -> list[dict[str, Any]]:
    return [_optional(name, "long") if name != "-" else _optional("partitionPath", "string") for name in names]


WRITE_STAT = {
    "type": "record",
    "name": "HoodieWriteStat",
    "fields": [
        *(_optional(name, "string") for name in ("fileId", "path", "prevCommit")),
        *_longs(_LONGS),
        _optional("logVersion", "int"),
        _optional("logOffset", "long"),
        _optional("baseFile", "string"),
        _optional("logFiles", {"type": "array", "items": "string"}),
        _optional("cdcStats", {"type": "map", "values": "long"}),
        _optional("prevBaseFile", "string"),
        *_longs(("minEventTime", "maxEventTime")),
        _optional(
            "runtimeStats",
            {
                "type": "record",
                "name": "HoodieRuntimeStats",
                "fields": _longs(("totalScanTime", "totalCreateTime", "totalUpsertTime")),
            },
        ),
        *_longs(("totalLogFilesCompacted", "totalLogReadTimeMs", "totalLogSizeCompacted")),
        _optional("tempPath", "string"),
        _optional("numUpdates", "long"),
    ],
}
COMMIT_METADATA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieCommitMetadata",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            _optional("partitionToWriteStats", {"type": "map", "values": {"type": "array", "items": WRITE_STAT}}),
            _optional("compacted", "boolean"),
            _optional("extraMetadata", {"type": "map", "values": "string"}),
            {"name": "version", "type": ["int", "null"], "default": 1},
            _optional("operationType", "string"),
        ],
    }
)


@dataclass(frozen=True, slots=True)
class WriteStat:
    """One file that a commit wrote."""

    partition: str
    file_id: str
    file_name: str
    size: int
    rows: int
    previous: str | None = None
    """None for a new file group; for a log file, the instant that wrote it."""

    def record(self) -> dict[str, Any]:
        is_log = self.previous is not None
        stat: dict[str, Any] = {
            "fileId": self.file_id,
            "path": f"{self.partition}/{self.file_name}",
            "prevCommit": self.previous or "null",
            "numWrites": self.rows,
            "numUpdateWrites": self.rows if is_log else 0,
            "numInserts": 0 if is_log else self.rows,
            "numDeletes": 0,
            "totalWriteBytes": self.size,
            "totalWriteErrors": 0,
            "partitionPath": self.partition,
            "fileSizeInBytes": self.size,
        }
        if is_log:
            stat |= {"logVersion": 1, "logOffset": 0, "baseFile": "", "logFiles": [self.file_name], "totalLogBlocks": 1}
        return stat


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed commit or delta commit."""

    requested: str
    completed: str
    action: str
    operation: str
    schema: Mapping[str, Any]
    stats: tuple[WriteStat, ...] = field(default=())


def write_properties(table: Path, *, name: str, kind: str, key: str, ordering: str, partition: str) -> None:
    """`.hoodie/hoodie.properties` of a version-9 table without a metadata table."""
    properties = {
        "hoodie.table.name": name,
        "hoodie.table.type": kind,
        "hoodie.table.version": "9",
        "hoodie.table.initial.version": "9",
        "hoodie.table.format": "native",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.recordkey.fields": key,
        "hoodie.table.ordering.fields": ordering,
        "hoodie.table.partition.fields": partition,
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.checksum": str(zlib.crc32(f".{name}".encode())),
        "hoodie.table.multiple.base.file.formats.enable": "false",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.populate.meta.fields": "true",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
    }
    (table / ".hoodie" / "timeline" / "history").mkdir(parents=True, exist_ok=True)
    lines = ["#Properties saved by the Headwater benchmark", *(f"{key}={value}" for key, value in properties.items())]
    (table / ".hoodie" / "hoodie.properties").write_text("\n".join(lines) + "\n")


def write_partition_metadata(partition: Path, instant: str) -> None:
    """The file by which Hudi knows a partition's directory."""
    partition.mkdir(parents=True, exist_ok=True)
    (partition / ".hoodie_partition_metadata").write_text(
        f"#partition metadata\ncommitTime={instant}\npartitionDepth=1\n"
    )


def write_commit(table: Path, commit: Commit) -> None:
    """The commit's three files on the timeline, the completed one last."""
    timeline = table / ".hoodie" / "timeline"
    inflight = (
        f"{commit.requested}.inflight" if commit.action == "commit" else f"{commit.requested}.deltacommit.inflight"
    )
    (timeline / f"{commit.requested}.{commit.action}.requested").touch()
    (timeline / inflight).touch()
    by_partition: dict[str, list[dict[str, Any]]] = {}
    for stat in commit.stats:
        by_partition.setdefault(stat.partition, []).append(stat.record())
    metadata = {
        "partitionToWriteStats": by_partition,
        "compacted": False,
        "extraMetadata": {"schema": json.dumps(commit.schema)},
        "version": None,
        "operationType": commit.operation,
    }
    with open(timeline / f"{commit.requested}_{commit.completed}.{commit.action}", "wb") as out:
        fastavro.writer(out, COMMIT_METADATA, [metadata], codec="null")
