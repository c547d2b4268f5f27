"""Log files: their blocks, read back by the readers of real ones."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import places

from headwater.errors import InvalidArgument, UnsupportedTable
from headwater.hudi.avro_schema import to_avro
from headwater.hudi.log import (
    BlockType,
    Header,
    LogBlock,
    read_data_block,
    read_delete_block,
    read_deletes,
    scan_buffer,
    write_deletes,
)
from headwater.hudi.log.deletes import Wrapper
from headwater.hudi.write.delete_block import encode_deletes
from headwater.hudi.write.log_writer import LogFormat, write_log_file
from headwater.hudi.write.meta_columns import with_meta_columns, with_meta_schema
from headwater.storage import Storage

INSTANT = "20260101000000000"
NAME = f".f1-0_{INSTANT}.log.1_0-0-0"
USER = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"], "price": [1.5, 2.5, None]})
SCHEMA = with_meta_schema(USER.schema)
AVRO = to_avro(SCHEMA, "t")
FORMATS: tuple[LogFormat, ...] = ("avro", "parquet")


def rows(user: pa.Table = USER) -> pa.Table:
    keys = user.column("id").cast(pa.string())
    return with_meta_columns(user, keys, instant=INSTANT, partition="p", file_name="f1-0")


def blocks(root: Path, path: str) -> list[LogBlock]:
    return list(scan_buffer((root / path).read_bytes(), path))


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_and_deletes_come_back_in_order(tmp_path: Path, format_: LogFormat) -> None:
    deletes = pa.table({"key": ["8", "9"], "partition": ["p", "p"], "ordering": [5, None]})
    written = write_log_file(
        Storage.at(tmp_path), f"p/{NAME}", INSTANT, rows(), deletes, avro_schema=AVRO, format=format_, updated=3
    )
    data, deleted = blocks(tmp_path, written.path)
    assert data.type is (BlockType.AVRO_DATA if format_ == "avro" else BlockType.PARQUET_DATA)
    assert read_data_block(data).to_pylist() == rows().to_pylist()
    assert (data.instant_time, data.schema, data.is_partial, data.positions) == (INSTANT, AVRO, False, None)
    found = read_delete_block(deleted)
    assert found.key.to_pylist() == ["8", "9"]
    assert found.is_default.to_pylist() == [False, True]
    assert (written.rows, written.deleted, written.updated, written.blocks) == (5, 2, 3, 2)
    assert (written.is_log, written.log_version, written.file_id) == (True, 1, "f1-0")
    assert written.size == (tmp_path / written.path).stat().st_size
    ranges = {r.column: r for r in written.ranges}
    assert (ranges["price"].minimum, ranges["price"].maximum, ranges["price"].null_count) == (1.5, 2.5, 1)


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_stand_in_the_order_of_their_positions(tmp_path: Path, format_: LogFormat) -> None:
    deletes = pa.table({"key": ["8", "9"], "partition": ["p", "p"]})
    written = write_log_file(
        Storage.at(tmp_path),
        NAME,
        INSTANT,
        rows(),
        deletes,
        avro_schema=AVRO,
        format=format_,
        positions=np.array([7, 3, 5]),
        delete_positions=np.array([2, 1]),
        base_instant="20250101000000000",
    )
    data, deleted = blocks(tmp_path, written.path)
    assert data.positions is not None
    assert data.positions.tolist() == [3, 5, 7]
    assert data.base_instant_of_positions == "20250101000000000"
    assert read_data_block(data, ["id"]).column(0).to_pylist() == [2, 3, 1]
    assert deleted.positions is not None
    assert deleted.positions.tolist() == [1, 2]
    assert read_delete_block(deleted).key.to_pylist() == ["9", "8"]


def test_positions_that_two_rows_share_are_left_out(tmp_path: Path) -> None:
    write_log_file(
        Storage.at(tmp_path), NAME, INSTANT, rows(), avro_schema=AVRO, positions=np.array([1, 1, 2]), base_instant="1"
    )
    (block,) = blocks(tmp_path, NAME)
    assert Header.RECORD_POSITIONS not in block.headers
    assert Header.BASE_INSTANT_OF_POSITIONS not in block.headers
    assert read_data_block(block, ["id"]).column(0).to_pylist() == [1, 2, 3]


def test_positions_without_a_row_each_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="3 rows with 1 positions"):
        write_log_file(Storage.at(tmp_path), NAME, INSTANT, rows(), avro_schema=AVRO, positions=np.array([1]))


@pytest.mark.parametrize("format_", FORMATS)
def test_partial_rows_say_so(tmp_path: Path, format_: LogFormat) -> None:
    some = rows().drop_columns(["name"])
    schema = to_avro(pa.schema([field for field in SCHEMA if field.name != "name"]), "t")
    write_log_file(Storage.at(tmp_path), NAME, INSTANT, some, avro_schema=schema, format=format_, partial=True)
    (block,) = blocks(tmp_path, NAME)
    assert block.is_partial
    assert read_data_block(block).to_pylist() == some.to_pylist()


@pytest.mark.parametrize("format_", FORMATS)
def test_many_rows_make_several_blocks_each_with_its_positions(tmp_path: Path, format_: LogFormat) -> None:
    count = 20_000
    user = pa.table({"id": np.arange(count), "name": ["x"] * count, "price": np.arange(count) / 2})
    written = write_log_file(
        Storage.at(tmp_path),
        NAME,
        INSTANT,
        rows(user),
        avro_schema=AVRO,
        format=format_,
        positions=np.arange(count) * 2,
        base_instant="1",
        block_bytes=400_000,
    )
    found = blocks(tmp_path, NAME)
    assert len(found) == written.blocks > 2
    assert [n for block in found for n in read_data_block(block, ["id"]).column(0).to_pylist()] == list(range(count))
    assert [n for block in found for n in np.asarray(block.positions).tolist()] == list(range(0, 2 * count, 2))
    (price,) = [r for r in written.ranges if r.column == "price"]
    assert (price.minimum, price.maximum, price.value_count) == (0.0, (count - 1) / 2, count)


@pytest.mark.parametrize(
    "table",
    [
        "generated/isdel_event_mor_v9_120",
        "generated/ord_decimal_mor_v9_120",
        "generated/ord_ts_mor_v8_120",
        "generated/ord_types_mor_v8_120",
        "generated/mrg_event_mor_v9_120",
        "generated/pay_mysqldebezium_mor_v9_120",
    ],
)
def test_delete_blocks_of_hudi_are_written_again_byte_by_byte(table: str) -> None:
    seen = 0
    for path, data in places.files(table, lambda path: ".log." in path and not path.startswith(".hoodie")).items():
        for block in scan_buffer(data, path):
            if block.type != BlockType.DELETE:
                continue
            found = read_delete_block(block)
            columns = {"key": found.key, "partition": found.partition}
            if found.groups:
                columns["ordering"] = found.ordering
            assert encode_deletes(pa.table(columns)) == bytes(block.content())
            seen += 1
    assert seen


ORDERINGS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), st.integers(1, 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=9)),
    "bytes": (pa.binary(), st.binary(max_size=9)),
    "day": (pa.date32(), st.dates()),
    "decimal": (pa.decimal128(20, 4), st.decimals(-(10**9), 10**9, places=4)),
    "boolean": (pa.bool_(), st.booleans()),
    "two": (
        pa.struct([("field0", pa.string()), ("field1", pa.int64())]),
        st.fixed_dictionaries({"field0": st.text(max_size=5), "field1": st.integers(-9, 2**40)}),
    ),
}


@settings(max_examples=150, deadline=None)
@given(data=st.data(), kind=st.sampled_from(list(ORDERINGS)))
def test_deletes_come_back_with_their_ordering_values(data: st.DataObject, kind: str) -> None:
    type_, values = ORDERINGS[kind]
    drawn = data.draw(st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), values)), max_size=8))
    table = pa.table(
        {
            "key": pa.array([key for key, _ in drawn], pa.string()),
            "partition": pa.array(["p"] * len(drawn), pa.string()),
            "ordering": pa.array([value for _, value in drawn], type_),
        }
    )
    found = read_deletes(encode_deletes(table))
    assert found.key.to_pylist() == table.column("key").to_pylist()
    assert found.is_default.to_pylist() == [value is None for _, value in drawn]
    assert found.ordering is not None
    assert [None if v is None else str(v) for v in found.ordering.to_pylist()] == [
        None if v is None else str(v.quantize(decimal.Decimal("1e-15")) if isinstance(v, decimal.Decimal) else v)
        for v in table.column("ordering").to_pylist()
    ]


def test_deletes_are_those_of_the_writer_by_record() -> None:
    table = pa.table({"key": ["a", "b"], "partition": ["p", None], "ordering": pa.array([5, None], pa.int64())})
    assert encode_deletes(table) == write_deletes([("a", "p", (Wrapper.LONG, 5)), ("b", None, None)])


def test_times_order_by_their_number_as_in_hudi() -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    table = pa.table({"key": ["a"], "partition": ["p"], "ordering": pa.array([at], pa.timestamp("us", "UTC"))})
    ordering = read_deletes(encode_deletes(table)).ordering
    assert ordering is not None
    assert ordering.to_pylist() == [int(at.timestamp() * 1_000_000)]


def test_no_deletes_make_the_block_that_hudi_begins_metadata_files_with() -> None:
    empty = pa.table({"key": pa.array([], pa.string()), "partition": pa.array([], pa.string())})
    assert encode_deletes(empty).hex() == "000000030000000100"


def test_ordering_values_that_no_delete_block_holds_are_refused() -> None:
    for type_, value in ((pa.list_(pa.int64()), [1]), (pa.decimal128(38, 20), decimal.Decimal("1e-20"))):
        table = pa.table({"key": ["a"], "partition": ["p"], "ordering": pa.array([value], type_)})
        with pytest.raises(UnsupportedTable, match="ordering value of type"):
            encode_deletes(table)


def test_deletes_without_a_partition_column_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="these lack partition"):
        encode_deletes(pa.table({"key": ["a"]}))


def test_a_name_or_a_format_that_no_reader_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no log file's name"):
        write_log_file(Storage.at(tmp_path), "f.log", INSTANT, rows(), avro_schema=AVRO)
    orc: Any = "orc"
    with pytest.raises(InvalidArgument, match="log block format 'orc'"):
        write_log_file(Storage.at(tmp_path), NAME, INSTANT, rows(), avro_schema=AVRO, format=orc)
