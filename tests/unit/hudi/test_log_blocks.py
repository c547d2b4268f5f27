"""Contents of data blocks."""

from __future__ import annotations

import contextlib
import io
import json
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.errors import ColumnNotFound, CorruptFile, HeadwaterError, InvalidArgument, UnsupportedTable
from headwater.hudi.hfile import write_hfile
from headwater.hudi.log import (
    BlockType,
    Header,
    LogBlock,
    data_schema,
    read_data_block,
    read_data_parts,
    read_delete_block,
    scan_buffer,
    write_avro_content,
    write_block,
)

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "key", "type": "string"}, {"name": "n", "type": ["null", "int"]}],
}
ROWS = [{"key": "a", "n": 1}, {"key": "b", "n": None}]


def block(type_: BlockType, content: bytes, schema: Any = SCHEMA) -> LogBlock:
    headers = {Header.INSTANT_TIME: "001"} | ({} if schema is None else {Header.SCHEMA: json.dumps(schema)})
    (found,) = scan_buffer(write_block(type_, headers, content), "f.log")
    return found


def parquet(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def hfile() -> bytes:
    entries = []
    for row in ROWS:
        datum = write_avro_content(SCHEMA, [{**row, "key": ""}])[12:]
        entries.append((str(row["key"]).encode(), datum))
    return bytes(write_hfile(entries))


CONTENTS = {
    BlockType.AVRO_DATA: write_avro_content(SCHEMA, ROWS),
    BlockType.CDC_DATA: write_avro_content(SCHEMA, ROWS),
    BlockType.PARQUET_DATA: parquet(pa.Table.from_pylist(ROWS, pa.schema([("key", pa.string()), ("n", pa.int32())]))),
    BlockType.HFILE_DATA: hfile(),
}


@pytest.mark.parametrize("type_", CONTENTS)
def test_rows_and_types_are_the_same_in_every_kind_of_block(type_: BlockType) -> None:
    found = block(type_, CONTENTS[type_])
    assert read_data_block(found).to_pylist() == ROWS
    assert read_data_block(found).schema == data_schema(found)
    assert read_data_block(found, ["n"]).to_pylist() == [{"n": 1}, {"n": None}]
    with pytest.raises(ColumnNotFound, match="no column 'z'"):
        read_data_block(found, ["z"])


@pytest.mark.parametrize("type_", CONTENTS)
def test_damage_in_a_content_is_a_corrupt_file_or_other_rows(type_: BlockType) -> None:
    content = CONTENTS[type_]
    for at in range(0, len(content), max(len(content) // 60, 1)):
        for damaged in (content[:at], content[:at] + bytes([content[at] ^ 0x81]) + content[at + 1 :]):
            with contextlib.suppress(CorruptFile, UnsupportedTable):
                read_data_block(block(type_, damaged))


@pytest.mark.parametrize("version", range(4))
def test_avro_contents_of_all_versions_are_the_same(version: int) -> None:
    content = struct.pack(">i", version) + CONTENTS[BlockType.AVRO_DATA][4:]
    assert read_data_block(block(BlockType.AVRO_DATA, content)).to_pylist() == ROWS


def test_avro_content_of_a_later_version_is_unsupported() -> None:
    with pytest.raises(UnsupportedTable, match="content version 4"):
        read_data_block(block(BlockType.AVRO_DATA, struct.pack(">ii", 4, 0)))


def test_block_without_a_schema_is_a_corrupt_file() -> None:
    with pytest.raises(CorruptFile, match="no schema"):
        read_data_block(block(BlockType.AVRO_DATA, CONTENTS[BlockType.AVRO_DATA], schema=None))


def test_empty_blocks_have_columns_and_no_rows() -> None:
    for type_, content in (
        (BlockType.AVRO_DATA, write_avro_content(SCHEMA, [])),
        (BlockType.HFILE_DATA, write_hfile([])),
    ):
        assert read_data_block(block(type_, bytes(content))).schema.names == ["key", "n"]


def test_blocks_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="holds no records"):
        read_data_block(block(BlockType.COMMAND, b""))
    with pytest.raises(InvalidArgument, match="holds no deletes"):
        read_delete_block(block(BlockType.AVRO_DATA, b""))
    assert issubclass(InvalidArgument, HeadwaterError)


@pytest.mark.parametrize("type_", [BlockType.AVRO_DATA, BlockType.PARQUET_DATA])
@pytest.mark.parametrize("records", [(0, None), (0, 0), (2, 2), (0, 1), (1, 3), (1, None), (9, None), (3, 99)])
def test_some_records_of_a_block_are_a_slice_of_all(type_: BlockType, records: tuple[int, int | None]) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
    rows = pa.table({"n": range(5)})
    content = parquet(rows) if type_ is BlockType.PARQUET_DATA else write_avro_content(schema, rows.to_pylist())
    found = block(type_, content, schema)
    for most_bytes in (1, 12, 10**6):
        parts = list(read_data_parts(found, most_bytes=most_bytes, records=records))
        numbers = [n for part in parts for n in part.column("n").to_pylist()]
        assert numbers == list(range(5))[records[0] : records[1]]
