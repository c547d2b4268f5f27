"""Change logs: what each row of a rewritten base file was before and after a commit (facts 12.4, 12.5, 15.8).

Written where `hoodie.table.cdc.enabled` is set, beside a new version of a base file. New base files need none: each of
their rows is an insert. A crash leaves a file that no commit names, marked as the others are.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headwater.hudi.avro_schema import to_avro
from headwater.hudi.log.blocks import AVRO_CONTENT_VERSION
from headwater.hudi.log.format import BlockType, Header, write_block
from headwater.hudi.properties import CdcLogging
from headwater.hudi.schema import META_COLUMNS, RECORD_KEY
from headwater.hudi.write.avro_encoder import encode_rows
from headwater.hudi.write.base_merge import Change
from headwater.hudi.write.parquet_sink import reported
from headwater.storage import Storage

INSERT, UPDATE, DELETE = "i", "u", "d"


def change_log_name(file_id: str, instant: str, token: str) -> str:
    """The name of a group's change log.

    >>> change_log_name("f1-0", "20260101000000000", "0-0-0")
    '.f1-0_20260101000000000.log.1_0-0-0.cdc'
    """
    return f".{file_id}_{instant}.log.1_{token}.cdc"


def write_change_log(
    storage: Storage,
    path: str,
    instant: str,
    *,
    table_name: str,
    schema: pa.Schema,
    mode: CdcLogging,
    changes: Sequence[Change],
    inserted: Sequence[pa.Table],
) -> int:
    """Write the changes of one file group; the file's size. Rows have meta columns and those of `schema`."""
    rows = change_rows(schema, instant, mode, changes, inserted)
    avro = change_schema(schema, table_name, mode)
    content = b"".join(
        [
            struct.pack(">ii", AVRO_CONTENT_VERSION, rows.num_rows),
            *map(bytes, encode_rows(avro, rows, length_prefixed=True)),
        ]
    )
    block = write_block(BlockType.CDC_DATA, {Header.INSTANT_TIME: instant, Header.SCHEMA: avro}, content)
    with reported(storage.describe(path)), storage.open_output(path) as sink:
        sink.write(block)
    return len(block)


def change_schema(schema: pa.Schema, table_name: str, mode: CdcLogging) -> str:
    """The Avro schema of change records, as Hudi writes it for a logging mode."""
    if mode is CdcLogging.OP_KEY_ONLY:
        fields = [{"name": name, "type": ["string", "null"]} for name in ("op", "record_key")]
        return json.dumps({"type": "record", "name": "Record", "fields": fields}, separators=(",", ":"))
    row = json.loads(to_avro(schema, table_name))
    space = row.pop("namespace")
    images: list[tuple[str, Any]] = [("before", row)]
    if mode is CdcLogging.DATA_BEFORE_AFTER:
        images.append(("after", row["name"]))
    second = "ts_ms" if mode is CdcLogging.DATA_BEFORE_AFTER else "record_key"
    columns = [("op", "string"), (second, "string"), *images]
    made = {
        "type": "record",
        "name": "CDC",
        "namespace": space,
        "doc": "",
        "fields": [{"name": name, "type": ["null", kind], "doc": "", "default": None} for name, kind in columns],
    }
    return json.dumps(made, separators=(",", ":"), ensure_ascii=False)


def change_rows(
    schema: pa.Schema, instant: str, mode: CdcLogging, changes: Sequence[Change], inserted: Sequence[pa.Table]
) -> pa.Table:
    """The changes as records: updates, deletes, then inserts."""
    image = pa.struct([f.with_nullable(True) for f in schema if f.name not in META_COLUMNS])
    parts: list[tuple[str, pa.Table | None, pa.Table | None]] = []
    for change in changes:
        parts.append((UPDATE, change.before, change.after))
        parts.append((DELETE, change.deleted, None))
    parts += [(INSERT, None, rows) for rows in inserted]
    fields = [("op", pa.string()), ("ts_ms", pa.string()), ("record_key", pa.string())]
    output = pa.schema([*fields, ("before", image), ("after", image)])
    tables = [output.empty_table()]
    for op, before, after in parts:
        known = before if before is not None else after
        assert known is not None
        count = known.num_rows
        columns = [
            pa.repeat(op, count),
            pa.repeat(instant, count),
            known.column(RECORD_KEY).cast(pa.string()),
            *(pa.nulls(count, image) if side is None else _image(side, image) for side in (before, after)),
        ]
        tables.append(pa.Table.from_arrays(columns, schema=output))
    names = {
        CdcLogging.OP_KEY_ONLY: ["op", "record_key"],
        CdcLogging.DATA_BEFORE: ["op", "record_key", "before"],
        CdcLogging.DATA_BEFORE_AFTER: ["op", "ts_ms", "before", "after"],
    }[mode]
    return pa.concat_tables(tables).select(names).combine_chunks()


def _image(rows: pa.Table, image: pa.StructType) -> pa.Array:
    if not rows.num_rows:
        return pa.array([], image)
    columns = [rows.column(field.name).cast(field.type) for field in image]
    whole = pa.Table.from_arrays(columns, names=[field.name for field in image]).combine_chunks()
    return pa.StructArray.from_arrays([column.chunk(0) for column in whole.columns], fields=list(image))
