"""Avro records without a container: Hudi 1.0's upgrade wrote its history so (bridge facts 4.1).

Such bytes carry no schema; these are the ones of that release, cut down to names and types.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import fastavro

from headwater.errors import CorruptFile, UnsupportedTable

_STRINGS = {"type": "array", "items": "string"}
_STAT_FIELDS = (
    "fileId:string path:string prevCommit:string numWrites:long numDeletes:long numUpdateWrites:long "
    "totalWriteBytes:long totalWriteErrors:long partitionPath:string totalLogRecords:long totalLogFiles:long "
    "totalUpdatedRecordsCompacted:long numInserts:long totalLogBlocks:long totalCorruptLogBlock:long "
    "totalRollbackBlocks:long fileSizeInBytes:long logVersion:int logOffset:long baseFile:string logFiles:strings "
    "cdcStats:longs prevBaseFile:string minEventTime:long maxEventTime:long runtimeStats:runtime "
    "totalLogFilesCompacted:long totalLogReadTimeMs:long totalLogSizeCompacted:long tempPath:string numUpdates:long"
)


def decode_bare(data: bytes, action: str, where: str) -> dict[str, Any]:
    """One record of the history, by the name of its action."""
    schema = _schema(action)
    if schema is None:
        raise UnsupportedTable(
            f"{where}: a {action} written without its schema by Hudi 1.0 cannot be decoded; only its times are known"
        )
    try:
        record = fastavro.schemaless_reader(io.BytesIO(data), schema, None)
    except Exception as error:
        # fastavro raises whatever its parsing stumbles on: all of it means the same here
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise CorruptFile(f"{where}: is no {action} record ({why}); restore it") from error
    if not isinstance(record, dict):
        raise CorruptFile(f"{where}: is no {action} record; restore it from a backup")
    return record


def _nullable(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind]}


@cache
def _schema(action: str) -> Any:
    if action in ("commit", "deltacommit", "replacecommit"):
        fields = [
            _nullable("partitionToWriteStats", {"type": "map", "values": {"type": "array", "items": _write_stat()}}),
            _nullable("compacted", "boolean"),
            _nullable("extraMetadata", {"type": "map", "values": "string"}),
            {"name": "version", "type": ["int", "null"]},
            _nullable("operationType", "string"),
        ]
        if action == "replacecommit":
            fields.append(_nullable("partitionToReplaceFileIds", {"type": "map", "values": _STRINGS}))
        return fastavro.parse_schema({"type": "record", "name": "Commit", "fields": fields})
    if action == "clean":
        return fastavro.parse_schema({"type": "record", "name": "Clean", "fields": _clean_fields()})
    return None


def _write_stat() -> dict[str, Any]:
    runtime = {
        "type": "record",
        "name": "Runtime",
        "fields": [_nullable(name, "long") for name in ("totalScanTime", "totalCreateTime", "totalUpsertTime")],
    }
    kinds = {"strings": _STRINGS, "longs": {"type": "map", "values": "long"}, "runtime": runtime}
    pairs = (item.split(":") for item in _STAT_FIELDS.split())
    return {
        "type": "record",
        "name": "WriteStat",
        "fields": [_nullable(name, kinds.get(kind, kind)) for name, kind in pairs],
    }


def _clean_fields() -> list[dict[str, Any]]:
    partition = {
        "type": "record",
        "name": "CleanedPartition",
        "fields": [
            {"name": "partitionPath", "type": "string"},
            {"name": "policy", "type": "string"},
            {"name": "deletePathPatterns", "type": _STRINGS},
            {"name": "successDeleteFiles", "type": _STRINGS},
            {"name": "failedDeleteFiles", "type": _STRINGS},
            _nullable("isPartitionDeleted", "boolean"),
        ],
    }
    return [
        {"name": "startCleanTime", "type": "string"},
        {"name": "timeTakenInMillis", "type": "long"},
        {"name": "totalFilesDeleted", "type": "int"},
        {"name": "earliestCommitToRetain", "type": "string"},
        {"name": "lastCompletedCommitTimestamp", "type": "string"},
        {"name": "partitionMetadata", "type": {"type": "map", "values": partition}},
        {"name": "version", "type": ["int", "null"]},
        _nullable("bootstrapPartitionMetadata", {"type": "map", "values": "CleanedPartition"}),
        _nullable("extraMetadata", {"type": "map", "values": "string"}),
    ]
