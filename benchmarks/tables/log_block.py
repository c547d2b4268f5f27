"""Hudi log blocks, written without Hudi: Avro and Parquet data blocks with record positions (format facts, part 5).

This is the benchmark's own small writer, apart from Headwater's, so that a mistake shared by Headwater's reader and
writer cannot hide here.
"""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

MAGIC = b"#HUDI#"
LOG_FORMAT_VERSION = 1
DELETE, AVRO_DATA, HFILE_DATA, PARQUET_DATA = 1, 3, 4, 5
AVRO_BLOCK_VERSION = 3
INSTANT_TIME, SCHEMA, RECORD_POSITIONS, BASE_INSTANT_OF_POSITIONS = 0, 2, 5, 8


def block(kind: int, header: Mapping[int, str], content: bytes) -> bytes:
    """One block: magic, size, format version, type, header, content, empty footer, size again."""
    body = b"".join(
        [
            struct.pack(">ii", LOG_FORMAT_VERSION, kind),
            _header(header),
            struct.pack(">q", len(content)),
            content,
            _header({}),
        ]
    )
    size = len(body) + 8
    return MAGIC + struct.pack(">q", size) + body + struct.pack(">q", size + len(MAGIC))


def data_header(
    instant: str, schema: str, positions: npt.NDArray[np.int64] | None = None, base_instant: str | None = None
) -> dict[int, str]:
    """The header of a data block; `positions` are the records' row numbers in the base file of `base_instant`."""
    header = {INSTANT_TIME: instant, SCHEMA: schema}
    if positions is not None and base_instant is not None:
        header[RECORD_POSITIONS] = base64.b64encode(BitMap64(positions).serialize()).decode()
        header[BASE_INSTANT_OF_POSITIONS] = base_instant
    return header


def parquet_content(records: pa.Table) -> bytes:
    """The content of a Parquet block: a whole Parquet file."""
    sink = io.BytesIO()
    pq.write_table(records, sink, compression="snappy")
    return sink.getvalue()


def avro_content(records: pa.Table, schema: Mapping[str, Any]) -> bytes:
    """The content of an Avro block: version, count, and each record with its length before it.

    Loops over records in Python, 20 to 30 µs each: this makes test data, once.
    """
    physical = fastavro.parse_schema(_without_logical_types(schema))
    columns = [_physical(records[name]).to_pylist() for name in records.column_names]
    names = records.column_names
    body, sink = io.BytesIO(), io.BytesIO()
    for values in zip(*columns, strict=True):
        sink.seek(0)
        sink.truncate()
        fastavro.schemaless_writer(sink, physical, dict(zip(names, values, strict=True)))
        body.write(struct.pack(">i", sink.tell()))
        body.write(sink.getbuffer())
    return struct.pack(">ii", AVRO_BLOCK_VERSION, records.num_rows) + body.getvalue()


def avro_schema(schema: pa.Schema, name: str) -> dict[str, Any]:
    """The Avro schema that Hudi derives for an Arrow one: every field nullable, null first."""
    namespace = f"hoodie.{name}"
    record = f"{name}_record"
    fields: Sequence[dict[str, Any]] = [
        {"name": field.name, "type": ["null", _avro_type(field, f"{namespace}.{record}")], "default": None}
        for field in schema
    ]
    return {"type": "record", "name": record, "namespace": namespace, "fields": list(fields)}


def _header(entries: Mapping[int, str]) -> bytes:
    parts = [struct.pack(">i", len(entries))]
    for ordinal, value in entries.items():
        encoded = value.encode()
        parts += [struct.pack(">ii", ordinal, len(encoded)), encoded]
    return b"".join(parts)


def _avro_type(field: pa.Field, parent: str) -> str | dict[str, Any]:
    type_ = field.type
    if pa.types.is_string(type_):
        return "string"
    if pa.types.is_int64(type_):
        return "long"
    if pa.types.is_float64(type_):
        return "double"
    if pa.types.is_date32(type_):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(type_):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if pa.types.is_decimal(type_):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{parent}.{field.name}",
            "size": 8,
            "logicalType": "decimal",
            "precision": type_.precision,
            "scale": type_.scale,
        }
    raise TypeError(f"the benchmark has no Avro type for {field.name}: {type_}")


def _without_logical_types(schema: Any) -> Any:
    """The schema of the bare values: fastavro's conversions cost more than its encoding."""
    if isinstance(schema, Mapping):
        dropped = ("logicalType", "precision", "scale")
        return {key: _without_logical_types(value) for key, value in schema.items() if key not in dropped}
    if isinstance(schema, list):
        return [_without_logical_types(item) for item in schema]
    return schema


def _physical(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """The column as the values that Avro stores."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    if pa.types.is_decimal(column.type):
        unscaled = pc.multiply(column, pa.scalar(10**column.type.scale)).cast(pa.int64())
        big_endian = unscaled.to_numpy().astype(">i8")
        return pa.Array.from_buffers(pa.binary(8), len(big_endian), [None, pa.py_buffer(big_endian)])
    return column
