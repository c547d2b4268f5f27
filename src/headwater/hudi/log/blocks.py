"""The contents of log blocks as Arrow tables (format facts 5.4)."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.errors import ColumnNotFound, CorruptFile, InvalidArgument, UnsupportedTable
from headwater.hudi import avro_schema
from headwater.hudi.avro_rows import decode_rows
from headwater.hudi.hfile.reader import HFileReader
from headwater.hudi.hfile.source import BytesSource
from headwater.hudi.log.deletes import Deletes, read_deletes
from headwater.hudi.log.format import BlockType, LogBlock, damaged

AVRO_CONTENT_VERSION = 3
_VERSION_AND_COUNT = struct.Struct(">ii")
# What HFile blocks leave blank in the record because it is the key: that of data tables, that of the metadata table.
_KEY_COLUMNS = ("_hoodie_record_key", "key")


def read_data_block(block: LogBlock, columns: Sequence[str] | None = None) -> pa.Table:
    """The records of a data block, all columns or those named, in block order.

    The columns have the types of `data_schema`.
    """
    match block.type:
        case BlockType.AVRO_DATA | BlockType.CDC_DATA:
            return _read_avro(block, columns)
        case BlockType.PARQUET_DATA:
            return _read_parquet(block, columns)
        case BlockType.HFILE_DATA:
            return _read_hfile(block, columns)
    raise InvalidArgument(f"{block.describe()} holds no records")


def read_data_parts(
    block: LogBlock,
    columns: Sequence[str] | None = None,
    *,
    most_bytes: int,
    records: tuple[int, int | None] = (0, None),
) -> Iterator[pa.Table]:
    """The records of a data block in parts of about so many bytes, for whoever must not hold it whole.

    Only Avro blocks can be taken apart. Finding where their records begin is a step for each of them, a fourth of what
    decoding takes: worth it where memory is short, and only there.

    Parameters
    ----------
    records
        From which record to before which one; None for the last.
    """
    first, end = records
    if block.type != BlockType.AVRO_DATA or (block.content_length <= most_bytes and records == (0, None)):
        table = read_data_block(block, columns)
        yield table.slice(first, None if end is None else end - first) if records != (0, None) else table
        return
    body, count = _avro_body(block)
    last = count if end is None else min(end, count)
    start = at = number = 0
    part = first
    while number < last and at + 4 <= len(body):
        at += 4 + int.from_bytes(body[at : at + 4], "big")
        number += 1
        if number <= first:
            start = at
        elif at - start >= most_bytes or number == last:
            yield _decode(block, body[start:at], number - part, columns)
            start, part = at, number
    if number < last or (last == count and at != len(body)):
        raise damaged(block.describe(), f"its {len(body)} bytes are not the {count} records that it says it holds")


def read_delete_block(block: LogBlock) -> Deletes:
    """The keys that a delete block deletes, with their ordering values."""
    if block.type != BlockType.DELETE:
        raise InvalidArgument(f"{block.describe()} holds no deletes")
    return read_deletes(block.content(), block.describe())


def data_schema(block: LogBlock) -> pa.Schema:
    """The Arrow schema of the records in a data block, from its header alone."""
    schema = _schema(block)
    with _located(block):
        return avro_schema.to_arrow(schema)


def _schema(block: LogBlock) -> str:
    if block.schema is None:
        raise damaged(block.describe(), "it has no schema in its header")
    return block.schema


def _read_avro(block: LogBlock, columns: Sequence[str] | None) -> pa.Table:
    body, count = _avro_body(block)
    return _decode(block, body, count, columns)


def _avro_body(block: LogBlock) -> tuple[memoryview, int]:
    """The records' bytes and their number."""
    content = block.content()
    if len(content) < _VERSION_AND_COUNT.size:
        raise damaged(block.describe(), f"its content is {len(content)} bytes, too few for version and count")
    # The versions up to 3 differ in nothing that is read here.
    version, count = _VERSION_AND_COUNT.unpack_from(content)
    if not 0 <= version <= AVRO_CONTENT_VERSION:
        raise UnsupportedTable(
            f"{block.describe()} has content version {version}; this reader knows versions 0 to "
            f"{AVRO_CONTENT_VERSION}: upgrade headwater or compact the table with Hudi"
        )
    return content[_VERSION_AND_COUNT.size :], count


def _decode(block: LogBlock, body: memoryview | pa.Buffer, count: int, columns: Sequence[str] | None) -> pa.Table:
    schema = _schema(block)
    with _located(block):
        return decode_rows(schema, body, count, columns=columns, length_prefixed=True)


@contextmanager
def _located(block: LogBlock) -> Iterator[None]:
    """Errors about Avro bytes and schemas do not know the block that these are of."""
    try:
        yield
    except UnsupportedTable as error:
        raise UnsupportedTable(f"{block.describe()}: {error}; compact the table with Hudi") from error
    except CorruptFile as error:
        raise damaged(block.describe(), str(error)) from error


def write_avro_content(schema: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """The content of an AVRO_DATA or CDC_DATA block; one step per record.

    >>> schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    >>> write_avro_content(schema, [{"id": 1}]).hex(" ", -4)
    '00000003 00000001 00000001 02'
    """
    parsed = fastavro.parse_schema(dict(schema))
    parts = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        parts.append(struct.pack(">i", stream.tell()) + stream.getvalue())
    return _VERSION_AND_COUNT.pack(AVRO_CONTENT_VERSION, len(parts)) + b"".join(parts)


def _read_parquet(block: LogBlock, columns: Sequence[str] | None) -> pa.Table:
    target = data_schema(block) if block.schema is not None else None
    if target is not None and columns is not None:
        for name in columns:
            if name not in target.names:
                raise ColumnNotFound(f"no column {name!r} in {block.describe()}; it has: {', '.join(target.names)}")
    try:
        # Of some columns, only their bytes are read; of all, everything at once.
        source = pa.BufferReader(pa.py_buffer(block.content())) if columns is None else block.open()
        file = pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False)
        table = file.read(columns=None if columns is None else list(columns), use_threads=False)
        if table.num_rows != file.metadata.num_rows:
            # Arrow passes over pages of a type that it does not know, as a damaged page can seem to be.
            raise ValueError(f"{table.num_rows} rows where its footer says {file.metadata.num_rows}")
        if target is None:
            return table
        wanted = target if columns is None else pa.schema([target.field(name) for name in columns])
        return table.select(wanted.names).cast(wanted)
    except Exception as error:
        # Arrow's reader meets damage with errors of many kinds, down to UnicodeDecodeError.
        raise damaged(block.describe(), f"its Parquet file cannot be read: {error}") from error


def _read_hfile(block: LogBlock, columns: Sequence[str] | None) -> pa.Table:
    reader = HFileReader(BytesSource(block.content()), block.describe())
    parts = list(reader.scan_columns())
    keys = pa.chunked_array([part[0] for part in parts], pa.binary()).combine_chunks()
    values = pa.chunked_array([part[1] for part in parts], pa.binary()).combine_chunks()
    table = _decode(block, _with_lengths(values), len(values), columns)
    for name in _KEY_COLUMNS:
        at = table.schema.get_field_index(name)
        if at >= 0 and len(table) and pc.max(pc.binary_length(table.column(at))).as_py() == 0:
            try:
                table = table.set_column(at, table.schema.field(at), keys.cast(pa.string()))
            except pa.ArrowException as error:
                raise damaged(block.describe(), f"a key is not UTF-8 text: {error}") from error
    return table


def _with_lengths(values: pa.Array) -> pa.Buffer:
    """The values one after the other, each behind its length, as they lie in an Avro block."""
    lengths = np.asarray(pc.binary_length(values)).astype(">i4")
    prefixes = pa.Array.from_buffers(pa.binary(4), len(values), [None, pa.py_buffer(lengths)]).cast(pa.binary())
    joined = pc.binary_join_element_wise(prefixes, values, b"")
    return joined.buffers()[2] if len(joined) else pa.py_buffer(b"")
