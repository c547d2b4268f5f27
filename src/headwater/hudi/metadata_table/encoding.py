"""Metadata records as Avro bytes: the other way round from `metadata_table.records` (facts 8.3)."""

from __future__ import annotations

import datetime
import io
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from headwater.hudi.avro_wire import varint
from headwater.hudi.metadata_table import records

_NAMESPACE = "org.apache.hudi.avro.model"
Record = Mapping[str, Any]
"""A record as `records.raw_record` reads it and `encode` writes it: unions of several types are (name, value)."""


def encode(record: Record, schema: str | bytes) -> bytes:
    """A record's bytes; its key is left out, which is that of the HFile's entry.

    >>> from headwater.hudi.metadata_table.record_schema import record_schema
    >>> value = encode(listing_record({"a.parquet": (10, False)}), record_schema(9))
    >>> records.decode_record("p", value, records.parsed_schema(record_schema(9))).present
    {'a.parquet': 10}
    """
    out = io.BytesIO()
    fastavro.schemaless_writer(out, records.parsed_schema(schema), {**record, "key": ""})
    return out.getvalue()


def listing_record(files: Mapping[str, tuple[int, bool]], *, of_table: bool = False) -> Record:
    """The files of a partition, or of the table its partitions: name → size, and whether it is gone."""
    return {
        "type": records.ALL_PARTITIONS if of_table else records.FILES,
        "filesystemMetadata": {name: {"size": size, "isDeleted": gone} for name, (size, gone) in files.items()},
    }


def bloom_record(kind: str, instant: str, text: bytes, *, deleted: bool = False) -> Record:
    """The bloom filter of a base file, as its footer holds it."""
    content = {"type": kind, "timestamp": instant, "bloomFilter": text, "isDeleted": deleted}
    return {"type": records.BLOOM_FILTERS, "BloomFilterMetadata": content}


def statistics_record(content: Mapping[str, Any], *, of_partition: bool = False) -> Record:
    """Statistics of a column in a file or in a partition, their bounds wrapped (see `metadata_table.statistics`)."""
    kind = records.PARTITION_STATS if of_partition else records.COLUMN_STATS
    return {"type": kind, "ColumnStatsMetadata": content}


def wrapped(wrapper: str, value: Any) -> tuple[str, dict[str, Any]]:
    """A bound as the union takes it.

    >>> wrapped("IntWrapper", 1)
    ('org.apache.hudi.avro.model.IntWrapper', {'value': 1})
    """
    return f"{_NAMESPACE}.{wrapper}", {"value": value}


def location_value(partition: str, file_id: str, instant_millis: int, version: int) -> bytes:
    """A record's place in the record index.

    >>> from headwater.hudi.metadata_table.record_schema import record_schema
    >>> value = location_value("p", "7615f770-1c61-323c-bfc4-d5a37c3f2e39-0", 5, 9)
    >>> records.decode_record("k", value, records.parsed_schema(record_schema(9)))
    RecordLocation(partition='p', file_id='7615f770-1c61-323c-bfc4-d5a37c3f2e39-0', instant_millis=5, position=None)
    """
    high, low, index, text, encoding = _split(file_id)
    parts = [
        bytes(5),  # no meta fields
        b"\x00",  # no key
        varint(records.RECORD_INDEX),
        bytes(3),  # no listing, no bloom filter, no statistics
        b"\x02",
        b"\x02" + _text(partition),
        b"\x02" + varint(high),
        b"\x02" + varint(low),
        b"\x02" + varint(index),
        b"\x02" + _text(text),
        b"\x02" + varint(instant_millis),
        varint(encoding),
        # from version 8 on: no position, no secondary key
        bytes(2 if version >= 8 else 0),
    ]
    return b"".join(parts)


def location_values(moves: pa.RecordBatch | pa.Table, version: int, *, in_utc: bool) -> pa.Array:
    """`location_value` of many rows of `RECORD_MOVES`, empty where the record is gone.

    >>> from headwater.hudi.write.model import RECORD_MOVES
    >>> row = ("k1", "p", "7615f770-1c61-323c-bfc4-d5a37c3f2e39-0", "20260101000000000", False)
    >>> moves = pa.table([[value] for value in row], schema=RECORD_MOVES)
    >>> len(location_values(moves, 9, in_utc=True)[0].as_py())
    50
    """

    def value(partition: str, file_id: str, instant: str, deleted: bool) -> bytes:
        if deleted:
            return b""
        return location_value(partition, file_id, instant_millis(instant, in_utc=in_utc), version)

    return _by_distinct([moves.column(name) for name in ("partition", "file_id", "instant", "deleted")], value)


def place_values(locations: pa.Table, version: int) -> pa.Array:
    """`location_value` of many rows of `columns.LOCATIONS`, empty where the record is gone."""

    def value(partition: str | None, file_id: str | None, millis: int | None) -> bytes:
        return b"" if file_id is None else location_value(partition or "", file_id, millis or 0, version)

    return _by_distinct([locations.column(name) for name in ("partition", "file_id", "instant_millis")], value)


def _by_distinct(columns: list[Any], value: Callable[..., bytes]) -> pa.Array:
    """A value for each row, made once for equal rows: each file group has many records."""
    if not len(columns[0]):
        return pa.array([], pa.binary())
    codes = np.zeros(len(columns[0]), np.int64)
    dictionaries = []
    for column in columns:
        flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        flat = flat if pa.types.is_dictionary(flat.type) else flat.dictionary_encode(null_encoding="encode")
        dictionaries.append(flat.dictionary)
        codes = codes * len(flat.dictionary) + flat.indices.to_numpy(zero_copy_only=False)
    distinct, place = np.unique(codes, return_inverse=True)
    values: list[bytes] = []
    for code in distinct.tolist():
        row = []
        for dictionary in reversed(dictionaries):
            code, at = divmod(code, len(dictionary))
            row.append(dictionary[at].as_py())
        values.append(value(*reversed(row)))
    return pa.array(values, pa.binary()).take(pa.array(place))


def instant_millis(instant: str, *, in_utc: bool) -> int:
    """An instant's time in milliseconds since 1970; the table's zone is the writer's own unless it says UTC.

    >>> instant_millis("20260101000000123", in_utc=True)
    1767225600123
    """
    digits = instant[:17] if len(instant) >= 17 else instant[:14] + "999"
    try:
        when = datetime.datetime.strptime(digits[:14], "%Y%m%d%H%M%S")
    except ValueError:
        return 0  # the instants of a table's creation, which no date is
    if in_utc:
        when = when.replace(tzinfo=datetime.timezone.utc)
    return round(when.timestamp()) * 1000 + int(digits[14:])


def _split(file_id: str) -> tuple[int, int, int, str, int]:
    """High and low bits, number, text and encoding: an id that is no UUID is kept as a text."""
    name, dash, number = file_id.rpartition("-")
    # UUIDs have four hyphens: a fifth one stands before the number.
    if file_id.count("-") != 5:
        name, dash, number = file_id, "", ""
    try:
        if dash and (not number.isascii() or not number.isdigit() or str(int(number)) != number):
            raise ValueError(number)
        value = uuid.UUID(name)
        if str(value) != name:
            raise ValueError(name)
    except ValueError:
        return 0, 0, 0, file_id, records.FILE_ID_RAW
    high, low = value.int >> 64, value.int & (1 << 64) - 1
    return _signed(high), _signed(low), int(number) if dash else -1, "", records.FILE_ID_UUID


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >= 1 << 63 else bits


def _text(text: str) -> bytes:
    data = text.encode()
    return varint(len(data)) + data
