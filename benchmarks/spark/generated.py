"""The Spark part's tables without Hudi or Java: five delta commits with deletions, an evolved schema, a dimension.

They extend `benchmarks.tables.generated`: version 9, without a metadata table.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.spark import states
from benchmarks.tables import cache, commit, log_block, rows
from benchmarks.tables.metadata_table import META_COLUMNS
from benchmarks.tables.plain import ROWS_PER_FILE, Progress, write_parquet

NAME = "bench"
DELETE_BLOCK_VERSION = 3
Logs = Literal["avro", "parquet"]
Int64s = npt.NDArray[np.int64]

_LONG = {"type": "record", "name": "LongWrapper", "fields": [{"name": "value", "type": "long"}]}
_DELETIONS = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {
                "name": "deleteRecordList",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "HoodieDeleteRecord",
                        "fields": [
                            {"name": "recordKey", "type": ["null", "string"]},
                            {"name": "partitionPath", "type": ["null", "string"]},
                            # The branches before LongWrapper stand for Hudi's, so that it is the fourth as there.
                            {"name": "orderingVal", "type": ["null", "boolean", "int", _LONG]},
                        ],
                    },
                },
            }
        ],
    }
)


def write_tables(directory: Path, total: int, needed: Collection[str], progress: Progress) -> None:
    """Have the needed tables of `total` rows in `directory`, beside those that the embedded part keeps there."""
    versions = [rows.GENERATOR_VERSION, states.STATES_VERSION]
    given = {"rows": total, "rows_per_file": ROWS_PER_FILE, "versions": versions}

    def make(name: str, write: Any) -> None:
        def build(path: Path) -> None:
            progress(f"generating {name}")
            write(path)

        if name in needed:
            cache.make(directory / name, given, build)

    make("dimension", write_dimension)
    make("mor5_avro", lambda path: write_five(path, total, "avro"))
    make("mor5_parquet", lambda path: write_five(path, total, "parquet"))
    for name, evolves in (("evolved", True), ("stable", False)):
        make(f"{name}_cow", lambda path, evolves=evolves: write_evolved_cow(path, total, evolves=evolves))
        make(f"{name}_mor", lambda path, evolves=evolves: write_evolved_mor(path, total, evolves=evolves))


def write_dimension(table: Path) -> None:
    """The dimension in one file of an unpartitioned table."""
    _properties(table, "COPY_ON_WRITE", partition="")
    commit.write_partition_metadata(table, _instant(0))
    stat = _base(table, "", 0, states.dimension_rows(), 0)
    _commit(table, 0, "commit", "BULK_INSERT", states.DIMENSION, [stat])


def write_five(table: Path, total: int, logs: Logs) -> None:
    """The base rows, five delta commits of updates, one of deletions."""
    _properties(table, "MERGE_ON_READ")
    chunks = rows.chunks(total, ROWS_PER_FILE)
    stats = [_base(table, _partition(table, chunk), chunk.number, rows.base_rows(chunk, total), 0) for chunk in chunks]
    _commit(table, 0, "commit", "BULK_INSERT", rows.SCHEMA, stats)
    for number in range(states.ROUNDS):
        stats = [
            _data_log(table, chunk, *states.round_rows(chunk, total, number), number + 1, rows.SCHEMA, logs)
            for chunk in chunks
        ]
        _commit(table, number + 1, "deltacommit", "UPSERT", rows.SCHEMA, stats)
    last = states.ROUNDS + 1
    stats = [_delete_log(table, chunk, states.deleted_rows(chunk, total)[0], last) for chunk in chunks]
    _commit(table, last, "deltacommit", "DELETE", rows.SCHEMA, stats)


def write_evolved_cow(table: Path, total: int, *, evolves: bool) -> None:
    """Half of the files by a first commit, the others by a second, in the newer schema."""
    _properties(table, "COPY_ON_WRITE")
    for number, newer in enumerate((False, True)):
        older = evolves and not newer
        chunks = [c for c in rows.chunks(total, ROWS_PER_FILE) if states.writes_newer_schema(c) == newer]
        stats = []
        for chunk in chunks:
            records = states.evolved_cow_rows(chunk, total)
            records = _older(records) if older else records
            stats.append(_base(table, _partition(table, chunk), chunk.number, records, number))
        _commit(table, number, "commit", "BULK_INSERT", states.EVOLVED_SCHEMA, stats, older=older)


def write_evolved_mor(table: Path, total: int, *, evolves: bool) -> None:
    """All rows by a first commit; a tenth of them again in logs, in the newer schema."""
    _properties(table, "MERGE_ON_READ")
    chunks, bases, stats = rows.chunks(total, ROWS_PER_FILE), [], []
    for chunk in chunks:
        records = rows.base_rows(chunk, total)
        records = states.with_extra(records, np.zeros(len(records), dtype=np.bool_))
        records = _older(records) if evolves else records
        bases.append(_base(table, _partition(table, chunk), chunk.number, records, 0))
    _commit(table, 0, "commit", "BULK_INSERT", states.EVOLVED_SCHEMA, bases, older=evolves)
    for chunk in chunks:
        records, positions = rows.updated_rows(chunk, total)
        records = states.with_extra(records, np.ones(len(records), dtype=np.bool_))
        stats.append(_data_log(table, chunk, records, positions, 1, states.EVOLVED_SCHEMA, "avro"))
    _commit(table, 1, "deltacommit", "UPSERT", states.EVOLVED_SCHEMA, stats)


def _older(records: pa.Table) -> pa.Table:
    """The rows as the first schema had them."""
    records = records.drop_columns(["extra"])
    place = records.schema.get_field_index("qty")
    return records.set_column(place, "qty", records["qty"].cast(pa.int32()))


def _older_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = [field for field in schema["fields"] if field["name"] != "extra"]
    return {**schema, "fields": [{**f, "type": ["null", "int"]} if f["name"] == "qty" else f for f in kept]}


def _properties(table: Path, kind: str, partition: str = "city") -> None:
    commit.write_properties(table, name=NAME, kind=kind, key="id", ordering="ts", partition=partition)
    if not partition:
        place = table / ".hoodie" / "hoodie.properties"
        lines = [line for line in place.read_text().splitlines() if "partition.fields" not in line]
        place.write_text("\n".join(lines).replace("type=SIMPLE", "type=NON_PARTITION") + "\n")


def _commit(
    table: Path,
    number: int,
    action: str,
    operation: str,
    schema: pa.Schema,
    stats: Sequence[commit.WriteStat],
    *,
    older: bool = False,
) -> None:
    avro = log_block.avro_schema(schema, NAME)
    avro = _older_schema(avro) if older else avro
    done = commit.Commit(_instant(number), _instant(number, done=True), action, operation, avro, tuple(stats))
    commit.write_commit(table, done)


def _partition(table: Path, chunk: rows.Chunk) -> str:
    partition = f"city={chunk.city_name}"
    commit.write_partition_metadata(table / partition, _instant(0))
    return partition


def _base(table: Path, partition: str, number: int, records: pa.Table, at: int) -> commit.WriteStat:
    file_id = _file_id(number)
    file_name = f"{file_id}_{number}-1-{number}_{_instant(at)}.parquet"
    keys = pc.min_max(records["id"]).as_py()
    footer = {"hoodie_min_record_key": keys["min"], "hoodie_max_record_key": keys["max"]}
    path = table / partition / file_name
    write_parquet(_with_meta(records, at, partition, file_name).replace_schema_metadata(footer), path)
    return commit.WriteStat(partition, file_id, file_name, path.stat().st_size, records.num_rows)


def _data_log(
    table: Path, chunk: rows.Chunk, records: pa.Table, positions: Int64s, at: int, schema: pa.Schema, logs: Logs
) -> commit.WriteStat:
    partition = f"city={chunk.city_name}"
    with_meta = _with_meta(records, at, partition, _file_id(chunk.number))
    avro = log_block.avro_schema(with_meta.schema, NAME)
    header = log_block.data_header(_instant(at), json.dumps(avro), positions, _instant(0))
    if logs == "avro":
        content = log_block.block(log_block.AVRO_DATA, header, log_block.avro_content(with_meta, avro))
    else:
        content = log_block.block(log_block.PARQUET_DATA, header, log_block.parquet_content(with_meta))
    return _write_log(table, chunk, content, at, records.num_rows)


def _delete_log(table: Path, chunk: rows.Chunk, records: pa.Table, at: int) -> commit.WriteStat:
    schema = json.dumps(log_block.avro_schema(rows.SCHEMA, NAME))
    header = log_block.data_header(_instant(at), schema)
    content = log_block.block(log_block.DELETE, header, _deletions(records, f"city={chunk.city_name}"))
    return _write_log(table, chunk, content, at, records.num_rows)


def _deletions(records: pa.Table, partition: str) -> bytes:
    """The content of a delete block: keys with the ordering value of their deletion."""
    listed = [
        {"recordKey": key, "partitionPath": partition, "orderingVal": {"value": ts}}
        for key, ts in zip(records["id"].to_pylist(), records["ts"].to_pylist(), strict=True)
    ]
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, _DELETIONS, {"deleteRecordList": listed})
    return struct.pack(">ii", DELETE_BLOCK_VERSION, sink.tell()) + sink.getvalue()


def _write_log(table: Path, chunk: rows.Chunk, content: bytes, at: int, count: int) -> commit.WriteStat:
    partition, file_id = f"city={chunk.city_name}", _file_id(chunk.number)
    file_name = f".{file_id}_{_instant(at)}.log.1_{chunk.number}-{at + 1}-{chunk.number}"
    (table / partition / file_name).write_bytes(content)
    return commit.WriteStat(partition, file_id, file_name, len(content), count, previous=_instant(at))


def _with_meta(records: pa.Table, at: int, partition: str, file_name: str) -> pa.Table:
    count = records.num_rows
    numbers = pa.array(np.arange(count)).cast(pa.string())
    meta = [
        pa.repeat(pa.scalar(_instant(at)), count),
        pc.binary_join_element_wise(pa.scalar(f"{_instant(at)}_0"), numbers, "_"),
        records["id"],
        pa.repeat(pa.scalar(partition), count),
        pa.repeat(pa.scalar(file_name), count),
    ]
    return pa.table([*meta, *records.columns], names=[*META_COLUMNS, *records.column_names])


def _file_id(number: int) -> str:
    return f"{uuid.uuid5(uuid.NAMESPACE_OID, f'headwater-bench-spark-{number}')}-0"


def _instant(number: int, *, done: bool = False) -> str:
    return f"202401{number + 1:02d}0000{30 if done else 0:02d}000"
