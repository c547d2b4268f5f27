"""A metadata table for a generated table: the `files` partition as Hudi initialises it (format facts, part 8).

One HFile, one entry a partition with its files and sizes. The HFile itself is written by Headwater's writer; that it
is right is hudi-rs's word, which plans from it.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastavro

from benchmarks.tables import commit as commits
from benchmarks.tables import log_block

INITIAL = "00000000000000000"
ALL_PARTITIONS = "__all_partitions__"
ALL_PARTITIONS_TYPE, FILES_TYPE = 1, 2
FILE_ID = "files-0000-0"
META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
EMPTY_DELETE_BLOCK = bytes.fromhex("000000030000000100")


def _optional_record(field: str, record: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": field, "type": ["null", {"type": "record", "name": record, "fields": fields}], "default": None}


def _text(name: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", "string"], "default": None}


_FILE_INFO = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}
_DELETED = {"name": "isDeleted", "type": "boolean"}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieMetadataRecord",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        *(_text(name) for name in META_COLUMNS),
        {"name": "key", "type": "string"},
        {"name": "type", "type": "int"},
        {"name": "filesystemMetadata", "type": ["null", {"type": "map", "values": _FILE_INFO}], "default": None},
        # The other kinds of record are null throughout; their branches are shortened.
        _optional_record("BloomFilterMetadata", "HoodieMetadataBloomFilter", [_DELETED]),
        _optional_record("ColumnStatsMetadata", "HoodieMetadataColumnStats", [_text("fileName"), _DELETED]),
        _optional_record("recordIndexMetadata", "HoodieRecordIndexInfo", [_text("partitionName")]),
        _optional_record("SecondaryIndexMetadata", "HoodieSecondaryIndexInfo", [_DELETED]),
    ],
}


def write_files_partition(
    table: Path, before: Iterable[commits.WriteStat], last: commits.Commit, initialised: str, completed: str
) -> None:
    """Index the files of `before` in the base file and those of the `last` commit in a log file, as Hudi does.

    The two times are when the metadata table's commits for them completed. At the end the table's properties name the
    partition; until then readers list folders.
    """
    metadata = table / ".hoodie" / "metadata"
    directory = metadata / "files"
    directory.mkdir(parents=True)
    partition_file = f"#partition metadata\ncommitTime={INITIAL}\npartitionDepth=1\n"
    (directory / ".hoodie_partition_metadata").write_text(partition_file)
    _write_properties(metadata, f"{_table_name(table)}_metadata")
    header = log_block.data_header(INITIAL, json.dumps(SCHEMA))
    empty = log_block.block(log_block.DELETE, header, EMPTY_DELETE_BLOCK)
    (directory / f".{FILE_ID}_{INITIAL}.log.1_0-0-0").write_bytes(empty)

    entries = _entries(before)
    base = f"{FILE_ID}_0-0-0_{INITIAL}.hfile"
    (directory / base).write_bytes(_hfile(entries))
    _write_commit(metadata, INITIAL, initialised, base, len(entries), None)

    entries = _entries(last.stats)
    header = log_block.data_header(last.requested, json.dumps(SCHEMA))
    log = f".{FILE_ID}_{last.requested}.log.1_0-0-0"
    (directory / log).write_bytes(log_block.block(log_block.HFILE_DATA, header, _hfile(entries)))
    _write_commit(metadata, last.requested, completed, log, len(entries), last.requested)
    with open(table / ".hoodie" / "hoodie.properties", "a") as properties:
        properties.write("hoodie.table.metadata.partitions=files\n")


def _entries(stats: Iterable[commits.WriteStat]) -> dict[str, bytes]:
    by_partition: dict[str, dict[str, int]] = {}
    for stat in stats:
        by_partition.setdefault(stat.partition, {})[stat.file_name] = stat.size
    entries = {name: _value(FILES_TYPE, files) for name, files in by_partition.items()}
    entries[ALL_PARTITIONS] = _value(ALL_PARTITIONS_TYPE, dict.fromkeys(by_partition, 0))
    return entries


def _write_commit(
    metadata: Path, requested: str, completed: str, file_name: str, count: int, previous: str | None
) -> None:
    size = (metadata / "files" / file_name).stat().st_size
    stat = commits.WriteStat("files", FILE_ID, file_name, size, count, previous)
    done = commits.Commit(requested, completed, "deltacommit", "UPSERT_PREPPED", SCHEMA, (stat,))
    commits.write_commit(metadata, done)


def _value(kind: int, files: dict[str, int]) -> bytes:
    sink = io.BytesIO()
    listed = {name: {"size": size, "isDeleted": False} for name, size in files.items()}
    fastavro.schemaless_writer(sink, _PARSED, {"key": "", "type": kind, "filesystemMetadata": listed})
    return sink.getvalue()


def _hfile(entries: dict[str, bytes]) -> bytes:
    # Here and not above: a Headwater that cannot be imported is a result of the benchmark, not its end.
    from headwater.hudi.hfile.writer import write_hfile

    in_order = sorted((key.encode(), value) for key, value in entries.items())
    return write_hfile(in_order, info={b"schema": json.dumps(SCHEMA).encode()})


def _table_name(table: Path) -> str:
    lines = (table / ".hoodie" / "hoodie.properties").read_text().splitlines()
    return next(line.removeprefix("hoodie.table.name=") for line in lines if line.startswith("hoodie.table.name="))


def _write_properties(metadata: Path, name: str) -> None:
    (metadata / ".hoodie" / "timeline" / "history").mkdir(parents=True)
    properties = {
        "hoodie.table.name": name,
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.table.initial.version": "9",
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
        "hoodie.table.checksum": str(zlib.crc32(f".{name}".encode())),
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.populate.meta.fields": "false",
        "hoodie.table.timeline.timezone": "UTC",
    }
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    (metadata / ".hoodie" / "hoodie.properties").write_text(text)


_PARSED = fastavro.parse_schema(SCHEMA)
