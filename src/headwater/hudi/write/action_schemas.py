"""Avro schemas of what actions write down about themselves, and the container that they travel in (facts 2.4–2.6)."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import cache
from typing import Any

import fastavro

_NAMESPACE = "org.apache.hudi.avro.model"
# Java reads texts into its own strings where the schema says so; its releases write all of them like that.
_STRING = {"type": "string", "avro.java.string": "String"}
_KINDS: dict[str, Any] = {"s": _STRING, "l": "long", "i": "int", "b": "boolean", "d": "double"}

_STAT_FIELDS = (
    "fileId:s path:s prevCommit:s numWrites:l numDeletes:l numUpdateWrites:l totalWriteBytes:l totalWriteErrors:l "
    "partitionPath:s totalLogRecords:l totalLogFiles:l totalUpdatedRecordsCompacted:l numInserts:l totalLogBlocks:l "
    "totalCorruptLogBlock:l totalRollbackBlocks:l fileSizeInBytes:l logVersion:i logOffset:l baseFile:s logFiles:[s] "
    "cdcStats:{l} prevBaseFile:s minEventTime:l maxEventTime:l runtimeStats:HoodieRuntimeStats "
    "totalLogFilesCompacted:l totalLogReadTimeMs:l totalLogSizeCompacted:l tempPath:s numUpdates:l"
)


def encode(record: Mapping[str, Any], kind: str) -> bytes:
    """One record in an Avro container, as Hudi's timeline files hold it.

    >>> from headwater.hudi.timeline.metadata import decode
    >>> decode(encode({"operationType": "UPSERT"}, "HoodieCommitMetadata"), "")["operationType"]
    'UPSERT'
    """
    out = io.BytesIO()
    fastavro.writer(out, _schemas()[kind], [record])
    return out.getvalue()


@cache
def _schemas() -> dict[str, Any]:
    kinds = {
        "HoodieCommitMetadata": _commit("HoodieCommitMetadata"),
        "HoodieReplaceCommitMetadata": _commit(
            "HoodieReplaceCommitMetadata", _optional("partitionToReplaceFileIds:{[s]}")
        ),
        "HoodieRequestedReplaceMetadata": _requested_replace(),
        "HoodieRollbackPlan": _rollback_plan(),
        "HoodieRollbackMetadata": _rollback_metadata(),
    }
    return {kind: fastavro.parse_schema(schema) for kind, schema in kinds.items()}


def _type(text: str) -> Any:
    """`s l i b d`, `[x]` for an array, `{x}` for a map, a name for a record defined before."""
    if text.startswith("["):
        return {"type": "array", "items": _type(text[1:-1])}
    if text.startswith("{"):
        return {"type": "map", "values": _type(text[1:-1]), "avro.java.string": "String"}
    return _KINDS.get(text, text)


def _optional(text: str, kind: Any = None) -> dict[str, Any]:
    name, _, short = text.partition(":")
    return {"name": name, "type": ["null", _type(short) if kind is None else kind], "default": None}


def _required(text: str) -> dict[str, Any]:
    name, _, short = text.partition(":")
    return {"name": name, "type": _type(short)}


def _version() -> dict[str, Any]:
    return {"name": "version", "type": ["int", "null"], "default": 1}


def _record(name: str, *fields: dict[str, Any], top: bool = False) -> dict[str, Any]:
    return {"type": "record", "name": name, **({"namespace": _NAMESPACE} if top else {}), "fields": list(fields)}


def _write_stat() -> dict[str, Any]:
    runtime = _record(
        "HoodieRuntimeStats", *map(_optional, ("totalScanTime:l", "totalCreateTime:l", "totalUpsertTime:l"))
    )
    fields = [_optional(item, runtime if item.startswith("runtimeStats") else None) for item in _STAT_FIELDS.split()]
    return _record("HoodieWriteStat", *fields)


def _commit(name: str, *more: dict[str, Any]) -> dict[str, Any]:
    stats = {"type": "map", "values": {"type": "array", "items": _write_stat()}, "avro.java.string": "String"}
    return _record(
        name,
        _optional("partitionToWriteStats", stats),
        _optional("compacted:b"),
        _optional("extraMetadata:{s}"),
        _version(),
        _optional("operationType:s"),
        *more,
        top=True,
    )


def _requested_replace() -> dict[str, Any]:
    slice_ = _record(
        "HoodieSliceInfo",
        *map(_optional, ("dataFilePath:s", "deltaFilePaths:[s]", "fileId:s", "partitionPath:s", "bootstrapFilePath:s")),
        _version(),
    )
    group = _record(
        "HoodieClusteringGroup",
        _optional("slices", {"type": "array", "items": slice_}),
        _optional("metrics:{d}"),
        {"name": "numOutputFileGroups", "type": ["int", "null"], "default": 1},
        _optional("extraMetadata:{s}"),
        _version(),
    )
    strategy = _record(
        "HoodieClusteringStrategy", _optional("strategyClassName:s"), _optional("strategyParams:{s}"), _version()
    )
    plan = _record(
        "HoodieClusteringPlan",
        _optional("inputGroups", {"type": "array", "items": group}),
        _optional("strategy", strategy),
        _optional("extraMetadata:{s}"),
        _version(),
        _optional("preserveHoodieMetadata:b"),
        _optional("missingSchedulePartitions:[s]"),
    )
    return _record(
        "HoodieRequestedReplaceMetadata",
        _optional("operationType:s"),
        _optional("clusteringPlan", plan),
        _optional("extraMetadata:{s}"),
        _version(),
        top=True,
    )


def _instant_info() -> dict[str, Any]:
    return _record("HoodieInstantInfo", _required("commitTime:s"), _required("action:s"))


def _rollback_plan() -> dict[str, Any]:
    request = _record(
        "HoodieRollbackRequest",
        _required("partitionPath:s"),
        _optional("fileId:s"),
        _optional("latestBaseInstant:s"),
        {**_required("filesToBeDeleted:[s]"), "default": []},
        _optional("logBlocksToBeDeleted:{l}"),
    )
    return _record(
        "HoodieRollbackPlan",
        _optional("instantToRollback", _instant_info()),
        _optional("RollbackRequests", {"type": "array", "items": request}),
        _version(),
        top=True,
    )


def _rollback_metadata() -> dict[str, Any]:
    partition = _record(
        "HoodieRollbackPartitionMetadata",
        *map(_required, ("partitionPath:s", "successDeleteFiles:[s]", "failedDeleteFiles:[s]")),
        _optional("rollbackLogFiles:{l}"),
        _optional("logFilesFromFailedCommit:{l}"),
    )
    return _record(
        "HoodieRollbackMetadata",
        *map(_required, ("startRollbackTime:s", "timeTakenInMillis:l", "totalFilesDeleted:i", "commitsRollback:[s]")),
        {"name": "partitionMetadata", "type": {"type": "map", "values": partition, "avro.java.string": "String"}},
        _version(),
        {"name": "instantsRollback", "type": {"type": "array", "items": _instant_info()}, "default": []},
        top=True,
    )
