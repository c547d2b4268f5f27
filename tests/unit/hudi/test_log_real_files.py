"""Every log file of every fixture table, written by Apache Hudi 0.14 to 1.2."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from tests import places

from headwater.hudi.avro_rows import decode_rows
from headwater.hudi.log import (
    BlockType,
    Header,
    LogBlock,
    data_schema,
    read_data_block,
    read_delete_block,
    scan_blocks,
    scan_buffer,
    select_blocks,
)
from headwater.storage.files import Storage

WITH_ARCHIVES = ("bridge/cow_archived_mdt__v6", "bridge/cow_archived_mdt__v9_to_v6")
LOG_NAME = re.compile(r"(^|/)\.[^/]*\.(log|archive)\.\d+_[^/]*$")


@cache
def log_files(table: str) -> dict[str, bytes]:
    return places.files(table, lambda path: LOG_NAME.search(path) and not path.endswith(".crc"))


def all_blocks() -> Iterator[LogBlock]:
    for table in (*places.every("generated"), *places.every("hudi"), *WITH_ARCHIVES):
        for name, data in log_files(table).items():
            yield from scan_buffer(data, f"{table}:{name}")


def blocks_of(table: str) -> list[LogBlock]:
    files = {name: data for name, data in log_files(table).items() if not name.startswith(".hoodie/")}
    return [block for name, data in files.items() for block in scan_buffer(data, name)]


def test_every_block_is_read_with_the_types_of_its_schema() -> None:
    rows: Counter[BlockType] = Counter()
    for block in all_blocks():
        if block.type == BlockType.DELETE:
            deletes = read_delete_block(block)
            rows[block.type] += len(deletes)
            assert block.positions is None or len(block.positions) == len(deletes)
        elif block.type.is_data:
            table = read_data_block(block)
            table.validate(full=True)
            assert table.schema == data_schema(block), block.describe()
            assert block.positions is None or len(block.positions) == len(table)
            rows[block.type] += len(table)
            if block.type == BlockType.HFILE_DATA and len(table):
                assert all(table.column("key").to_pylist())
    assert min(rows[type_] for type_ in BlockType if type_.is_data or type_ == BlockType.DELETE) > 40


def test_polars_and_fastavro_agree_on_every_avro_block() -> None:
    compared = 0
    for block in all_blocks():
        if block.type in (BlockType.AVRO_DATA, BlockType.CDC_DATA):
            content = block.content()
            _, count = struct.unpack_from(">ii", content)
            schema = block.schema or ""
            fast, slow = (
                decode_rows(schema, content[8:], count, length_prefixed=True, reader=reader)
                for reader in ("auto", "fastavro")
            )
            # As text, because no NaN equals another.
            assert fast.equals(slow) or repr(fast.to_pylist()) == repr(slow.to_pylist()), block.describe()
            name = fast.column_names[-1]
            one = decode_rows(schema, content[8:], count, columns=[name], length_prefixed=True)
            assert repr(one.to_pylist()) == repr(fast.select([name]).to_pylist())
            compared += 1
    assert compared > 500


@pytest.mark.parametrize(
    ("table", "kinds"),
    [
        ("generated/corrupt_mid_mor_v6_120", ["CORRUPT", "AVRO_DATA"]),
        ("generated/corrupt_mid_mor_v9_120", ["CORRUPT", "AVRO_DATA"]),
        ("generated/corrupt_trunc_mor_v9_120", ["CORRUPT"]),
    ],
)
def test_corrupt_files_give_what_is_whole_in_them(table: str, kinds: list[str]) -> None:
    found = {name: [block.type.name for block in scan_buffer(data, name)] for name, data in log_files(table).items()}
    assert kinds in found.values()
    assert sum("CORRUPT" in names for names in found.values()) == 1


def test_archive_files_have_blocks_with_a_schema_and_no_instant() -> None:
    for table in WITH_ARCHIVES:
        files = {name: data for name, data in log_files(table).items() if ".archive." in name}
        assert files
        for name, data in files.items():
            for block in scan_buffer(data, name):
                assert set(block.headers) == {Header.SCHEMA}
                entries = read_data_block(block, ["commitTime", "actionType", "actionState"])
                assert set(entries.column("actionState").to_pylist()) <= {"REQUESTED", "INFLIGHT", "COMPLETED"}
                assert entries.column("commitTime").null_count == 0


def test_ordering_values_of_deletes_have_the_type_that_hudi_gave_them() -> None:
    def types(table: str) -> set[str]:
        found = [read_delete_block(block) for block in blocks_of(table) if block.type == BlockType.DELETE]
        return {str(group.values.type) for deletes in found for group in deletes.groups}

    assert types("generated/ord_decimal_mor_v9_120") == {"decimal128(30, 15)"}
    assert types("generated/pay_mysqldebezium_mor_v9_120") == {"struct<field0: string, field1: int64>"}
    assert types("generated/isdel_event_mor_v9_120") == {"int64"}
    assert types("generated/mrg_event_mor_v9_120") == set()


def test_late_rollback_drops_the_failed_write_before_the_good_one() -> None:
    blocks = blocks_of("generated/rb_late_mor_v6_0150")
    (command,) = (block for block in blocks if block.is_rollback)
    failed = [block for block in blocks if block.instant_time == command.target_instant]
    assert failed
    assert blocks.index(failed[0]) < blocks.index(command) - 1
    kept = select_blocks(blocks, is_valid_instant=lambda instant: True)
    assert [block for block in blocks if block.type.is_data and block not in failed] == [
        block for block in kept if block.type.is_data
    ]


def test_log_compaction_replaces_the_blocks_it_names() -> None:
    blocks = blocks_of("generated/log_compaction_mor_v9_120")
    compacted = [block for block in blocks if block.compacted_times]
    kept = {block.instant_time for block in select_blocks(blocks, is_valid_instant=lambda instant: True)}
    gone = {time for block in compacted for time in block.compacted_times}
    assert compacted
    assert not kept & gone
    assert compacted[-1].instant_time in kept


def test_cdc_blocks_have_whole_rows_before_and_after() -> None:
    blocks = [
        block for block in blocks_of("generated/cdc_data_before_after_cow_v9_120") if block.type == BlockType.CDC_DATA
    ]
    assert blocks
    for block in blocks:
        table = read_data_block(block)
        assert table.column_names == ["op", "ts_ms", "before", "after"]
        assert pa.types.is_struct(table.schema.field("after").type)
        assert table.schema.field("after").type == table.schema.field("before").type


def test_lazy_scan_of_files_is_the_same(tmp_path: Path) -> None:
    storage = Storage.at(places.unpack("generated/log_positions_mor_v8_120", tmp_path))
    for path, data in log_files("generated/log_positions_mor_v8_120").items():
        lazy, whole = list(scan_blocks(storage, path, lazy=True)), list(scan_buffer(data, path))
        assert [(b.offset, b.headers, bytes(b.content())) for b in lazy] == [
            (b.offset, b.headers, bytes(b.content())) for b in whole
        ]
