"""What a commit writes down, field by field as the real Hudi does."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from tests import places

from headwater.hudi.file_names import parse_log_file
from headwater.hudi.properties import PROPERTIES_FILE, check_config, parse_java_properties
from headwater.hudi.timeline.metadata import decode
from headwater.hudi.write.action_schemas import encode
from headwater.hudi.write.commit_metadata import completed_bytes, inflight_bytes, requested_bytes
from headwater.hudi.write.model import WrittenFile

TABLES = (
    "mrg_commit_mor_v6_0150",
    "idx_bucket_logonly_mor_v6_0150",
    "ow_table_cow_v6_0150",
    "evo_types_mor_v8_102",
    "mrg_event_mor_v9_120",
    "rb_done_cow_v9_120",
    "ow_table_cow_v9_120",
)
NOT_OURS = {"recordsStats", "totalLogFiles"}
"""Statistics of columns that no reader looks for, and a count that Hudi leaves empty."""


def as_written(stat: dict[str, Any]) -> WrittenFile:
    """The file that a writer would have told of, read back from a real statistic."""
    name = stat["path"].rsplit("/", 1)[-1]
    log = parse_log_file(name)
    new = stat["prevCommit"] == "null" or (log is not None and log.instant == stat["prevCommit"] and log.version == 1)
    if log is not None and stat["baseFile"]:
        new = False
    milliseconds = sum(stat["runtimeStats"].values())
    return WrittenFile(
        stat["partitionPath"],
        stat["fileId"],
        name,
        stat["fileSizeInBytes"],
        stat["numWrites"] + (stat["numDeletes"] if log else 0),
        inserted=stat["numInserts"],
        updated=stat["numUpdateWrites"],
        deleted=stat["numDeletes"],
        previous_instant=None if new else stat["prevCommit"],
        base_file=stat.get("prevBaseFile") or stat.get("baseFile") or None,
        is_log=log is not None,
        log_version=stat.get("logVersion") or 1,
        earlier_logs=tuple(other for other in stat.get("logFiles") or () if other != name),
        milliseconds=milliseconds,
    )


@pytest.mark.parametrize("table", TABLES)
def test_a_commit_is_written_as_the_real_one_reads(table: str) -> None:
    files = places.files(f"generated/{table}", lambda path: path.startswith(".hoodie/"))
    config = check_config(parse_java_properties(files[PROPERTIES_FILE].decode()), table)
    compared = 0
    for path, data in files.items():
        time, _, action = path.rsplit("/", 1)[-1].partition(".")
        if action not in ("commit", "deltacommit", "replacecommit") or "/metadata/" in path:
            continue
        real = decode(data, path)
        stats = [stat for items in real["partitionToWriteStats"].values() for stat in items]
        extra = dict(real["extraMetadata"])
        ours = decode(
            completed_bytes(
                config,
                time.partition("_")[0],
                action,
                real["operationType"],
                [as_written(stat) for stat in stats],
                replaced=real.get("partitionToReplaceFileIds") or {},
                schema=extra.pop("schema"),
                extra=extra,
            ),
            "ours",
        )
        for record in (ours, real):
            for items in record["partitionToWriteStats"].values():
                for stat in items:
                    for key in NOT_OURS:
                        stat.pop(key, None)
        assert ours == real
        assert list(ours) == list(real)
        compared += 1
    assert compared >= 2


def avro_schema(data: bytes) -> Any:
    return json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])


def shape(schema: Any) -> Any:
    """A schema without what does not matter: documentation, and what fastavro notes down."""
    if isinstance(schema, dict):
        kept = {key: shape(value) for key, value in schema.items() if key not in ("doc", "default") and key[:2] != "__"}
        if set(kept) == {"type", "avro.java.string"} or (set(kept) == {"type"} and isinstance(kept["type"], str)):
            return kept["type"]
        if kept.get("type") in ("record",):
            kept["name"] = kept["name"].rsplit(".", 1)[-1]
            kept.pop("namespace", None)
        return kept
    if isinstance(schema, list):
        return [shape(item) for item in schema]
    return schema.rsplit(".", 1)[-1] if isinstance(schema, str) else schema


@pytest.mark.parametrize(
    ("table", "suffix", "kind"),
    [
        ("ow_table_cow_v9_120", ".commit", "HoodieCommitMetadata"),
        ("ow_table_cow_v9_120", ".replacecommit", "HoodieReplaceCommitMetadata"),
        ("ow_table_cow_v9_120", ".replacecommit.requested", "HoodieRequestedReplaceMetadata"),
        ("rb_done_cow_v9_120", ".rollback.requested", "HoodieRollbackPlan"),
        ("rb_done_cow_v9_120", ".rollback", "HoodieRollbackMetadata"),
        ("rb_done_mor_v6_0150", ".rollback", "HoodieRollbackMetadata"),
    ],
)
def test_schemas_are_those_of_real_files(table: str, suffix: str, kind: str) -> None:
    files = places.files(f"generated/{table}", lambda path: path.endswith(suffix))
    data = next(iter(files.values()))
    record = decode(data, "real")
    ours = encode(record, kind)
    assert shape(avro_schema(ours)) == shape(avro_schema(data))
    assert decode(ours, "ours") == record
    assert avro_schema(ours)["namespace" if "namespace" in avro_schema(ours) else "name"].startswith(
        "org.apache.hudi.avro.model"
    )


@pytest.mark.parametrize("table", ["ow_table_cow_v6_0150", "ow_table_cow_v9_120"])
def test_pending_files_hold_what_hudis_hold(table: str) -> None:
    files = places.files(f"generated/{table}", lambda path: path.startswith(".hoodie/"))
    config = check_config(parse_java_properties(files[PROPERTIES_FILE].decode()), table)
    for path, data in files.items():
        if path.endswith(".inflight"):
            real = decode(data, path)
            ours = decode(inflight_bytes(config, real["operationType"]), "ours")
            assert {**ours, "partitionToWriteStats": None} == {**real, "partitionToWriteStats": None}
        elif path.endswith(".requested"):
            action = path.rsplit(".", 2)[-2]
            assert decode(requested_bytes(action), "ours") == decode(data, path)
