"""What a commit writes down about itself, in the encoding of the table's version (facts 2.4, 2.5).

Layout 1 (version 6) has JSON, layout 2 (versions 8 and 9) Avro; the values are the same but for the logs' details.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.hudi.properties import TableConfig
from headwater.hudi.timeline.instants import REPLACE_COMMIT
from headwater.hudi.write.action_schemas import encode
from headwater.hudi.write.model import WrittenFile

_ZEROS = (
    "totalLogRecords",
    "totalLogFilesCompacted",
    "totalLogSizeCompacted",
    "totalUpdatedRecordsCompacted",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
)


def requested_bytes(action: str) -> bytes:
    """The content of a `.requested` file: empty, but for a replace commit's.

    >>> requested_bytes("commit")
    b''
    """
    if action != REPLACE_COMMIT:
        return b""
    nothing = {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": None}
    return encode(nothing, "HoodieRequestedReplaceMetadata")


def inflight_bytes(config: TableConfig, operation: str) -> bytes:
    """The content of an `.inflight` file: which operation is at work. Hudi adds how many rows it expects where."""
    return _encode(config, _record({}, {}, operation), "HoodieCommitMetadata")


def completed_bytes(
    config: TableConfig,
    instant: str,
    action: str,
    operation: str,
    written: Sequence[WrittenFile],
    *,
    replaced: Mapping[str, Sequence[str]],
    schema: str,
    extra: Mapping[str, str],
) -> bytes:
    """The content of a completed file."""
    stats: dict[str, list[dict[str, Any]]] = {}
    for file in written:
        stats.setdefault(file.partition, []).append(_write_stat(config, instant, file))
    record = _record(stats, {**extra, "schema": schema}, operation)
    if action != REPLACE_COMMIT:
        return _encode(config, record, "HoodieCommitMetadata")
    record["partitionToReplaceFileIds"] = {partition: [*ids] for partition, ids in replaced.items()}
    return _encode(config, record, "HoodieReplaceCommitMetadata")


def _record(stats: Mapping[str, list[dict[str, Any]]], extra: Mapping[str, str], operation: str) -> dict[str, Any]:
    return {
        "partitionToWriteStats": stats,
        "compacted": operation.upper() == "COMPACT",
        "extraMetadata": {**extra},
        "operationType": operation.upper(),
    }


def _encode(config: TableConfig, record: dict[str, Any], kind: str) -> bytes:
    if config.layout < 2:
        return json.dumps(record, indent=2, separators=(",", " : "), ensure_ascii=False).encode()
    return encode({**record, "version": None}, kind)


def _write_stat(config: TableConfig, instant: str, file: WrittenFile) -> dict[str, Any]:
    is_new = file.previous_instant is None
    # Version 6 counts a log to its slice; from 8 on a log stands by its own instant, but who reads changes wants to
    # know the rows before them.
    by_instant = config.layout >= 2 and not config.cdc_enabled
    if file.is_log:
        previous = instant if by_instant or is_new else file.previous_instant
    else:
        previous = "null" if is_new else file.previous_instant
    creating = is_new and not file.is_log
    stat: dict[str, Any] = {
        "fileId": file.file_id,
        "path": file.path,
        "cdcStats": dict(file.change_files) or None,
        "prevCommit": previous,
        "numWrites": file.rows - file.deleted if file.is_log else file.rows,
        "numDeletes": file.deleted,
        "numUpdateWrites": file.updated,
        "numInserts": file.inserted,
        "totalWriteBytes": file.size,
        "totalWriteErrors": 0,
        "tempPath": None,
        "partitionPath": file.partition,
        **dict.fromkeys(_ZEROS, 0),
        "fileSizeInBytes": file.size,
        "minEventTime": None,
        "maxEventTime": None,
        "runtimeStats": {
            "totalScanTime": 0,
            "totalUpsertTime": 0 if creating else file.milliseconds,
            "totalCreateTime": file.milliseconds if creating else 0,
        },
    }
    if config.layout >= 2:
        stat.update(totalLogReadTimeMs=0, numUpdates=0)
        if not file.is_log and not is_new:
            stat["prevBaseFile"] = file.base_file
    if file.is_log:
        stat.update(
            logVersion=file.log_version,
            logOffset=0,
            baseFile="" if by_instant else file.base_file or "",
            logFiles=[file.name] if by_instant else [*file.earlier_logs, file.name],
        )
    return stat
