"""Version-9 Hudi tables written straight from the benchmark's rows, for machines without Maven or Java."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tables import commit as commits
from benchmarks.tables import log_block, rows
from benchmarks.tables.metadata_table import META_COLUMNS, write_files_partition
from benchmarks.tables.plain import ROWS_PER_FILE, Progress, write_parquet

NAME = "bench"
INSERT, INSERT_DONE = "20240101000000000", "20240101000030000"
UPDATE, UPDATE_DONE = "20240102000000000", "20240102000030000"
INSERT_INDEXED, UPDATE_INDEXED = "20240101000020000", "20240102000020000"
"""When the metadata table's own commits for them completed: before theirs."""
MANY_SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("qty", pa.int64())])
ROWS_PER_TINY_FILE = 4

Logs = Literal["avro", "parquet"]


def write_copy_on_write(table: Path, total: int, progress: Progress) -> None:
    """The base rows as one bulk insert."""
    commits.write_properties(table, name=NAME, kind="COPY_ON_WRITE", key="id", ordering="ts", partition="city")
    _bulk_insert(table, total, progress)


def write_merge_on_read(table: Path, total: int, logs: Logs, progress: Progress) -> None:
    """The base rows as one bulk insert, and a tenth of them updated in log files."""
    commits.write_properties(table, name=NAME, kind="MERGE_ON_READ", key="id", ordering="ts", partition="city")
    _bulk_insert(table, total, progress)
    progress(f"generating {logs} log files")
    stats = []
    for chunk in rows.chunks(total, ROWS_PER_FILE):
        stats.append(_write_log(table, chunk, total, logs))
    schema = log_block.avro_schema(rows.SCHEMA, NAME)
    commits.write_commit(table, commits.Commit(UPDATE, UPDATE_DONE, "deltacommit", "UPSERT", schema, tuple(stats)))


@dataclass(frozen=True, slots=True)
class ManyFiles:
    """The shape of a table of many small files.

    Where `in_last_commit`, one commit wrote them all, so whoever reads the newest commit reads about all files. Else
    a second commit added one file, as in a table that is written to little by little.
    """

    partitions: int
    files: int
    in_last_commit: bool = False


def write_many_files(table: Path, shape: ManyFiles, progress: Progress, *, by_hudi: bool = False) -> None:
    """`partitions` × `files` files of four rows, and what the shape asks for after.

    With `by_hudi`, the second commit and the metadata table are left to Apache Hudi.
    """
    commits.write_properties(table, name=NAME, kind="COPY_ON_WRITE", key="id", ordering="ts", partition="part")
    progress(f"generating {shape.partitions} × {shape.files} small files")
    stats = []
    for number in range(shape.partitions):
        commits.write_partition_metadata(table / f"part=p{number:05d}", INSERT)
        stats += [_write_tiny(table, number, number * shape.files + file, INSERT) for file in range(shape.files)]
    schema = log_block.avro_schema(MANY_SCHEMA, NAME)
    bulk = commits.Commit(INSERT, INSERT_DONE, "commit", "BULK_INSERT", schema, tuple(stats))
    commits.write_commit(table, bulk)
    if by_hudi:
        return
    if shape.in_last_commit:
        write_files_partition(table, (), bulk, INSERT, INSERT_INDEXED)
        return
    added = (_write_tiny(table, 0, shape.partitions * shape.files, UPDATE),)
    small = commits.Commit(UPDATE, UPDATE_DONE, "commit", "BULK_INSERT", schema, added)
    write_files_partition(table, stats, small, UPDATE, UPDATE_INDEXED)
    commits.write_commit(table, small)


def _write_tiny(table: Path, partition: int, number: int, instant: str) -> commits.WriteStat:
    first = number * ROWS_PER_TINY_FILE
    ids = range(first, first + ROWS_PER_TINY_FILE)
    value = f"p{partition:05d}"
    columns = [[f"k{i:08d}" for i in ids], [1] * len(ids), [value] * len(ids), [i % 1000 for i in ids]]
    return _write_base(table, f"part={value}", number, pa.table(columns, schema=MANY_SCHEMA), instant)


def _bulk_insert(table: Path, total: int, progress: Progress) -> None:
    """A `commit` also on a merge-on-read table: what Hudi 1.2.0 does."""
    progress("generating base files")
    stats = []
    for chunk in rows.chunks(total, ROWS_PER_FILE):
        partition = f"city={chunk.city_name}"
        commits.write_partition_metadata(table / partition, INSERT)
        stats.append(_write_base(table, partition, chunk.number, rows.base_rows(chunk, total)))
    schema = log_block.avro_schema(rows.SCHEMA, NAME)
    commits.write_commit(table, commits.Commit(INSERT, INSERT_DONE, "commit", "BULK_INSERT", schema, tuple(stats)))


def _write_base(
    table: Path, partition: str, number: int, records: pa.Table, instant: str = INSERT
) -> commits.WriteStat:
    file_id = _file_id(number)
    file_name = f"{file_id}_{number}-1-{number}_{instant}.parquet"
    path = table / partition / file_name
    keys = pc.min_max(records["id"]).as_py()
    with_meta = _with_meta(records, instant, number, partition, file_name)
    footer = {"hoodie_min_record_key": keys["min"], "hoodie_max_record_key": keys["max"]}
    write_parquet(with_meta.replace_schema_metadata(footer), path)
    return commits.WriteStat(partition, file_id, file_name, path.stat().st_size, records.num_rows)


def _write_log(table: Path, chunk: rows.Chunk, total: int, logs: Logs) -> commits.WriteStat:
    partition, file_id = f"city={chunk.city_name}", _file_id(chunk.number)
    records, positions = rows.updated_rows(chunk, total)
    records = _with_meta(records, UPDATE, chunk.number, partition, file_id)
    schema = log_block.avro_schema(records.schema, NAME)
    header = log_block.data_header(UPDATE, json.dumps(schema), positions, INSERT)
    if logs == "avro":
        content = log_block.block(log_block.AVRO_DATA, header, log_block.avro_content(records, schema))
    else:
        content = log_block.block(log_block.PARQUET_DATA, header, log_block.parquet_content(records))
    file_name = f".{file_id}_{UPDATE}.log.1_{chunk.number}-2-{chunk.number}"
    (table / partition / file_name).write_bytes(content)
    return commits.WriteStat(partition, file_id, file_name, len(content), records.num_rows, previous=UPDATE)


def _file_id(number: int) -> str:
    return f"{uuid.uuid5(uuid.NAMESPACE_OID, f'headwater-bench-{number}')}-0"


def _with_meta(records: pa.Table, instant: str, task: int, partition: str, file_name: str) -> pa.Table:
    count = records.num_rows
    numbers = pa.array(np.arange(count)).cast(pa.string())
    sequence = pc.binary_join_element_wise(pa.scalar(f"{instant}_{task}"), numbers, "_")
    meta = [
        pa.repeat(pa.scalar(instant), count),
        sequence,
        records["id"],
        pa.repeat(pa.scalar(partition), count),
        pa.repeat(pa.scalar(file_name), count),
    ]
    return pa.table([*meta, *records.columns], names=[*META_COLUMNS, *records.column_names])
