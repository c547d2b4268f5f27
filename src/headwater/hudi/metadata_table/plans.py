"""What compactions and cleans of the metadata table write down about themselves (facts 2.6)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import fastavro

from headwater.spec.model import FileSlice

_NAMESPACE = "org.apache.hudi.avro.model"
_TEXT: Any = {"type": "string", "avro.java.string": "String"}
_TEXTS: Any = {"type": "array", "items": _TEXT}
_PLAN_VERSION = 2
_POLICY = "KEEP_LATEST_FILE_VERSIONS"
_MEGABYTE = 1 << 20


def compaction_plan(slices: Sequence[FileSlice]) -> bytes:
    """The plan to put the logs of these slices into new base files."""
    operations = []
    for slice_ in slices:
        logs = sum(ref.size or 0 for ref in slice_.delta_files)
        base = (slice_.base_file.size or 0) if slice_.base_file is not None else 0
        operations.append(
            {
                "baseInstantTime": slice_.base_instant,
                "deltaFilePaths": [ref.name for ref in slice_.delta_files],
                "dataFilePath": slice_.base_file.name if slice_.base_file is not None else None,
                "fileId": slice_.group.file_id,
                "partitionPath": slice_.group.partition,
                "metrics": {
                    "TOTAL_LOG_FILES": float(len(slice_.delta_files)),
                    "TOTAL_LOG_FILES_SIZE": float(logs),
                    "TOTAL_IO_READ_MB": float((base + logs) // _MEGABYTE),
                    "TOTAL_IO_WRITE_MB": float(base // _MEGABYTE),
                    "TOTAL_IO_MB": float((2 * base + logs) // _MEGABYTE),
                },
                "bootstrapFilePath": None,
            }
        )
    plan = {
        "operations": operations,
        "extraMetadata": {},
        "version": _PLAN_VERSION,
        "strategy": None,
        "preserveHoodieMetadata": False,
        "missingSchedulePartitions": [],
    }
    return _container(plan, "HoodieCompactionPlan")


def clean_plan(files: Mapping[str, Sequence[str]], *, retained: str, root: str) -> bytes:
    """The plan to delete these files, by partition; `retained` is the oldest compaction that is kept whole."""
    paths = {
        partition: [{"filePath": f"{root}/{partition}/{name}", "isBootstrapBaseFile": False} for name in names]
        for partition, names in files.items()
    }
    plan = {
        "earliestInstantToRetain": {"timestamp": retained, "action": "commit", "state": "COMPLETED"},
        "lastCompletedCommitTimestamp": retained,
        "policy": _POLICY,
        "filesToBeDeletedPerPartition": {},
        "version": _PLAN_VERSION,
        "filePathsToBeDeletedPerPartition": paths,
        "partitionsToBeDeleted": [],
    }
    return _container(plan, "HoodieCleanerPlan")


def clean_metadata(files: Mapping[str, Sequence[str]], *, instant: str, retained: str) -> bytes:
    """What a clean that deleted these files says when it completes."""
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": _POLICY,
            "deletePathPatterns": list(names),
            "successDeleteFiles": list(names),
            "failedDeleteFiles": [],
            "isPartitionDeleted": False,
        }
        for partition, names in files.items()
    }
    record = {
        "startCleanTime": instant,
        "timeTakenInMillis": 0,
        "totalFilesDeleted": sum(len(names) for names in files.values()),
        "earliestCommitToRetain": retained,
        "lastCompletedCommitTimestamp": retained,
        "partitionMetadata": partitions,
        "version": _PLAN_VERSION,
        "bootstrapPartitionMetadata": {},
    }
    return _container(record, "HoodieCleanMetadata")


def _container(record: Mapping[str, Any], kind: str) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, _schemas()[kind], [record])
    return out.getvalue()


@cache
def _schemas() -> dict[str, Any]:
    kinds = (_compaction_plan(), _cleaner_plan(), _clean_metadata())
    return {kind["name"]: fastavro.parse_schema({**kind, "namespace": _NAMESPACE}) for kind in kinds}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _map(kind: Any) -> dict[str, Any]:
    return {"type": "map", "values": kind, "avro.java.string": "String"}


_VERSION: dict[str, Any] = {"name": "version", "type": ["int", "null"], "default": 1}


def _compaction_plan() -> dict[str, Any]:
    operation = _record(
        "HoodieCompactionOperation",
        _optional("baseInstantTime", _TEXT),
        _optional("deltaFilePaths", _TEXTS),
        _optional("dataFilePath", _TEXT),
        _optional("fileId", _TEXT),
        _optional("partitionPath", _TEXT),
        _optional("metrics", _map("double")),
        _optional("bootstrapFilePath", _TEXT),
    )
    strategy = _record(
        "HoodieCompactionStrategy",
        _optional("compactorClassName", _TEXT),
        _optional("strategyParams", _map(_TEXT)),
        _VERSION,
    )
    return _record(
        "HoodieCompactionPlan",
        _optional("operations", {"type": "array", "items": operation}),
        _optional("extraMetadata", _map(_TEXT)),
        _VERSION,
        _optional("strategy", strategy),
        {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
        _optional("missingSchedulePartitions", _TEXTS),
    )


def _cleaner_plan() -> dict[str, Any]:
    fields = [{"name": name, "type": _TEXT} for name in ("timestamp", "action", "state")]
    file = _record("HoodieCleanFileInfo", _optional("filePath", _TEXT), _optional("isBootstrapBaseFile", "boolean"))
    return _record(
        "HoodieCleanerPlan",
        _optional("earliestInstantToRetain", _record("HoodieActionInstant", *fields)),
        {"name": "lastCompletedCommitTimestamp", "type": _TEXT, "default": ""},
        {"name": "policy", "type": _TEXT},
        _optional("filesToBeDeletedPerPartition", _map(_TEXTS)),
        _VERSION,
        _optional("filePathsToBeDeletedPerPartition", _map({"type": "array", "items": file})),
        _optional("partitionsToBeDeleted", _TEXTS),
    )


def _clean_metadata() -> dict[str, Any]:
    partition = _record(
        "HoodieCleanPartitionMetadata",
        {"name": "partitionPath", "type": _TEXT},
        {"name": "policy", "type": _TEXT},
        *({"name": name, "type": _TEXTS} for name in ("deletePathPatterns", "successDeleteFiles", "failedDeleteFiles")),
        _optional("isPartitionDeleted", "boolean"),
    )
    return _record(
        "HoodieCleanMetadata",
        {"name": "startCleanTime", "type": _TEXT},
        {"name": "timeTakenInMillis", "type": "long"},
        {"name": "totalFilesDeleted", "type": "int"},
        {"name": "earliestCommitToRetain", "type": _TEXT},
        {"name": "lastCompletedCommitTimestamp", "type": _TEXT, "default": ""},
        {"name": "partitionMetadata", "type": _map(partition)},
        _VERSION,
        _optional("bootstrapPartitionMetadata", _map("HoodieCleanPartitionMetadata")),
    )
