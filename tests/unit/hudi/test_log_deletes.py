"""Delete blocks: every kind of ordering value, alone and mixed, small and large."""

from __future__ import annotations

import contextlib
import datetime
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptFile, UnsupportedTable
from headwater.hudi.log import (
    BlockType,
    Wrapper,
    read_delete_block,
    read_deletes,
    scan_buffer,
    write_block,
    write_deletes,
)

UTC = datetime.timezone.utc
VALUES: list[tuple[Wrapper, Any, pa.DataType, Any]] = [
    (Wrapper.BOOLEAN, True, pa.bool_(), True),
    (Wrapper.INT, -5, pa.int32(), -5),
    (Wrapper.LONG, 2**40, pa.int64(), 2**40),
    (Wrapper.FLOAT, 1.5, pa.float32(), 1.5),
    (Wrapper.DOUBLE, -2.25, pa.float64(), -2.25),
    (Wrapper.BYTES, b"\0\xff", pa.binary(), b"\0\xff"),
    (Wrapper.STRING, "zwölf", pa.string(), "zwölf"),
    (Wrapper.DATE, 19_000, pa.date32(), datetime.date(2022, 1, 8)),
    (Wrapper.DECIMAL, -125 * 10**13, pa.decimal128(30, 15), Decimal("-1.25")),
    (Wrapper.TIME_MICROS, 1, pa.time64("us"), datetime.time(0, 0, 0, 1)),
    (Wrapper.TIMESTAMP_MICROS, 1, pa.timestamp("us", "UTC"), datetime.datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
]
# More than what is read record by record.
SIZES = [3, 1_500]


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize(("wrapper", "stored", "dtype", "shown"), VALUES)
def test_ordering_value_has_the_type_of_its_wrapper(
    count: int, wrapper: Wrapper, stored: Any, dtype: pa.DataType, shown: Any
) -> None:
    deletes = read_deletes(write_deletes([(f"k{i}", "p", (wrapper, stored)) for i in range(count)]))
    assert deletes.key.to_pylist() == [f"k{i}" for i in range(count)]
    assert deletes.partition.to_pylist() == ["p"] * count
    assert deletes.ordering is not None
    assert deletes.ordering.type == dtype
    assert deletes.ordering.to_pylist() == [shown] * count
    assert deletes.is_default.true_count == 0


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("default", [None, (Wrapper.NULL, None), (Wrapper.INT, 0)])
def test_no_value_and_int_zero_are_the_default(count: int, default: Any) -> None:
    deletes = read_deletes(write_deletes([("k", None, default)] * count))
    assert deletes.is_default.to_pylist() == [True] * count
    assert deletes.groups == ()
    assert deletes.ordering == pa.nulls(count)
    assert deletes.partition.null_count == count


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize(("wrapper", "stored", "dtype", "shown"), VALUES)
def test_defaults_among_values_leave_one_type(
    count: int, wrapper: Wrapper, stored: Any, dtype: pa.DataType, shown: Any
) -> None:
    records = [(f"k{i}", "p", None if i % 3 else (wrapper, stored)) for i in range(count)]
    deletes = read_deletes(write_deletes(records))
    assert deletes.ordering is not None
    assert deletes.ordering.type == dtype
    assert deletes.ordering.to_pylist() == [None if i % 3 else shown for i in range(count)]
    assert deletes.is_default.to_pylist() == [bool(i % 3) for i in range(count)]


@pytest.mark.parametrize("count", SIZES)
def test_values_of_several_types_are_grouped(count: int) -> None:
    records = [(f"k{i}", "p", VALUES[i % len(VALUES)][:2]) for i in range(count)]
    deletes = read_deletes(write_deletes(records))
    assert deletes.ordering is None
    for group in deletes.groups:
        for row, value in zip(group.rows.tolist(), group.values.to_pylist(), strict=True):
            assert value == VALUES[row % len(VALUES)][3]
    assert sum(len(group.rows) for group in deletes.groups) == count


def test_zero_of_another_type_than_int_is_a_value() -> None:
    deletes = read_deletes(write_deletes([("k", "p", (Wrapper.LONG, 0))]))
    assert deletes.is_default.to_pylist() == [False]


def test_several_ordering_fields_make_a_struct() -> None:
    def value(file: str, position: int | None) -> Any:
        second = None if position is None else (Wrapper.LONG, position)
        return Wrapper.ARRAY, [(Wrapper.STRING, file), second]

    records = [
        ("a", "", value("bin.2", 200)),
        ("b", "", None),
        ("c", "", value("bin.1", 904)),
        ("d", "", value("x", None)),
    ]
    deletes = read_deletes(write_deletes(records))
    assert [group.values.to_pylist() for group in deletes.groups] == [
        [{"field0": "bin.2", "field1": 200}, {"field0": "bin.1", "field1": 904}],
        [{"field0": "x", "field1": None}],
    ]
    assert [group.rows.tolist() for group in deletes.groups] == [[0, 2], [3]]
    assert deletes.is_default.to_pylist() == [False, True, False, False]


def test_empty_list_is_what_hudi_writes_for_new_file_groups() -> None:
    content = bytes.fromhex("000000030000000100")
    assert write_deletes([]) == content
    deletes = read_deletes(content)
    assert len(deletes) == 0
    assert deletes.ordering is not None


@pytest.mark.parametrize("version", [1, 2])
def test_kryo_versions_are_unsupported_and_say_so(version: int) -> None:
    (block,) = scan_buffer(write_block(BlockType.DELETE, {}, struct.pack(">ii", version, 1) + b"\0"), "f.log")
    with pytest.raises(UnsupportedTable, match=rf"f\.log: DELETE block at byte 0 has version {version}.*Kryo"):
        read_delete_block(block)


@pytest.mark.parametrize("content", [b"", b"\0\0\0\3", struct.pack(">ii", 3, 50) + b"\0", struct.pack(">ii", 3, -1)])
def test_content_that_is_cut_short_is_a_corrupt_file(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        read_deletes(content)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SIZES), st.sampled_from(VALUES), st.data())
def test_damage_is_a_corrupt_file_or_other_deletes(count: int, value: Any, data: st.DataObject) -> None:
    content = bytearray(write_deletes([(f"k{i}", "p", value[:2]) for i in range(count)]))
    for _ in range(data.draw(st.integers(1, 2))):
        content[data.draw(st.integers(8, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(content)))
    for damaged in (content, content[:cut]):
        with contextlib.suppress(CorruptFile):
            read_deletes(bytes(damaged))
