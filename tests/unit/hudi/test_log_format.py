"""The block codec and walking a log file, whole or damaged."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptFile, HeadwaterError, UnsupportedTable
from headwater.hudi.log import BlockType, Header, LogBlock, scan_blocks, scan_buffer, write_block, write_positions
from headwater.hudi.log.format import MAGIC
from headwater.storage.files import Storage

RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
WRITTEN = [type_ for type_ in BlockType if type_ != BlockType.CORRUPT]
BLOCKS = st.tuples(
    st.sampled_from(WRITTEN),
    st.dictionaries(st.integers(0, 20), st.text(max_size=12), max_size=4),
    st.one_of(st.binary(max_size=40), st.just(b"x#HUDI#y"), st.just(bytes(70_000))),
)


def shape(blocks: Iterator[LogBlock]) -> list[tuple[BlockType, dict[int, str], bytes]]:
    return [(block.type, dict(block.headers), bytes(block.content())) for block in blocks]


@RELAXED
@given(st.lists(BLOCKS, max_size=5))
def test_blocks_come_out_as_they_went_in(blocks: list[tuple[BlockType, dict[int, str], bytes]]) -> None:
    data = b"".join(write_block(*block) for block in blocks)
    assert shape(scan_buffer(data, "f")) == blocks


def test_headers_have_their_meaning() -> None:
    positions = [3, 5, 2**33]
    headers = {
        Header.INSTANT_TIME: "003",
        Header.SCHEMA: "{}",
        Header.COMPACTED_BLOCK_TIMES: "002,001",
        Header.RECORD_POSITIONS: write_positions(positions),
        Header.BLOCK_IDENTIFIER: "0,1",
        Header.IS_PARTIAL: "true",
        Header.BASE_INSTANT_OF_POSITIONS: "000",
        77: "of a later release",
    }
    (block,) = scan_buffer(write_block(BlockType.AVRO_DATA, headers, b"abc"), "file")
    assert block.instant_time == "003"
    assert block.schema == "{}"
    assert block.compacted_times == ("002", "001")
    assert block.positions is not None
    assert block.positions.dtype == np.int64
    assert block.positions.tolist() == positions
    assert (block.block_identifier, block.is_partial, block.base_instant_of_positions) == ("0,1", True, "000")
    assert (block.target_instant, block.is_rollback) == (None, False)
    assert (block.offset, block.content_length, bytes(block.content())) == (0, 3, b"abc")
    assert block.describe() == "file: AVRO_DATA block at byte 0"


def test_block_without_headers_has_none_of_them() -> None:
    (block,) = scan_buffer(write_block(BlockType.AVRO_DATA, {}), "f")
    assert (block.instant_time, block.schema, block.positions, block.compacted_times) == (None, None, None, ())
    assert not block.is_partial


@pytest.mark.parametrize("text", ["no base64!", "AAAA", write_positions(range(100))[:20]])
def test_positions_that_cannot_be_read_are_a_corrupt_file(text: str) -> None:
    (block,) = scan_buffer(write_block(BlockType.AVRO_DATA, {Header.RECORD_POSITIONS: text}), "f")
    with pytest.raises(CorruptFile, match="positions"):
        _ = block.positions


def test_sizes_are_those_of_the_format() -> None:
    data = write_block(BlockType.DELETE, {Header.INSTANT_TIME: "1"}, b"content")
    (size,) = struct.unpack_from(">q", data, 6)
    assert (size, struct.unpack(">q", data[-8:])[0]) == (len(data) - 14, len(data) - 8)


GOOD = write_block(BlockType.AVRO_DATA, {Header.INSTANT_TIME: "001"}, b"one")
OTHER = write_block(BlockType.DELETE, {Header.INSTANT_TIME: "002"}, b"two")


# Five bytes and the next block's magic look like a magic one byte early; Hudi loses that block too.
@pytest.mark.parametrize("cut", [cut for cut in range(1, len(GOOD)) if cut != 5])
def test_torn_block_is_corrupt_up_to_the_next_one(cut: int) -> None:
    blocks = list(scan_buffer(OTHER + GOOD[:cut] + OTHER + GOOD, "f"))
    # What is shorter than a magic spoils the block before it as well: Hudi demands a magic there.
    kinds = [block.type.name for block in blocks]
    assert kinds[-2:] == ["DELETE", "AVRO_DATA"]
    assert kinds[:-2] == (["CORRUPT"] if cut < len(MAGIC) else ["DELETE", "CORRUPT"])


@pytest.mark.parametrize("cut", range(len(GOOD)))
def test_torn_tail_is_corrupt_and_what_is_before_it_stays(cut: int) -> None:
    kinds = [block.type.name for block in scan_buffer(OTHER + GOOD[:cut], "f")]
    assert kinds == (["DELETE"] if cut < len(MAGIC) else ["DELETE", "CORRUPT"])


def test_garbage_before_the_first_block_is_corrupt() -> None:
    assert [block.type.name for block in scan_buffer(b"garbage#HUD" + GOOD, "f")] == ["CORRUPT", "AVRO_DATA"]


def test_empty_file_has_no_blocks() -> None:
    assert list(scan_buffer(b"", "f")) == []


def test_block_of_another_format_or_type_is_unsupported() -> None:
    data = bytearray(GOOD)
    data[17] = 2
    with pytest.raises(UnsupportedTable, match="log format 2"):
        list(scan_buffer(bytes(data), "f"))
    data = bytearray(GOOD)
    data[21] = 9
    with pytest.raises(UnsupportedTable, match="unknown type 9"):
        list(scan_buffer(bytes(data), "f"))


@RELAXED
@given(st.lists(BLOCKS, min_size=1, max_size=4), st.data())
def test_damage_is_reported_and_nothing_else_raised(
    tmp_path_factory: pytest.TempPathFactory,
    blocks: list[tuple[BlockType, dict[int, str], bytes]],
    data: st.DataObject,
) -> None:
    file = bytearray(b"".join(write_block(*block) for block in blocks))
    for _ in range(data.draw(st.integers(0, 4))):
        file[data.draw(st.integers(0, min(len(file), 200) - 1))] ^= data.draw(st.integers(1, 255))
    damaged = bytes(file[: data.draw(st.integers(0, len(file)))])
    folder = tmp_path_factory.mktemp("log")
    (folder / "f").write_bytes(damaged)
    seen = []
    try:
        for block in scan_buffer(damaged, "f"):
            seen.append(block)
    except HeadwaterError as error:
        with pytest.raises(type(error)):
            list(scan_blocks(Storage.at(folder), "f", lazy=True))
        return
    # The blocks lie next to each other and leave out nothing but what is too short for a magic.
    assert [block.offset for block in seen] == [0, *np.cumsum([block.length for block in seen])[:-1]][: len(seen)]
    assert len(damaged) - sum(block.length for block in seen) < len(MAGIC)
    assert shape(scan_blocks(Storage.at(folder), "f", lazy=True)) == shape(iter(seen))


def test_lazy_scan_reads_contents_when_asked_for(tmp_path: Path) -> None:
    long_header = {Header.RECORD_POSITIONS: write_positions(range(0, 3_000_000, 7)), Header.INSTANT_TIME: "001"}
    blocks = [
        (BlockType.AVRO_DATA, long_header, bytes(300_000)),
        (BlockType.DELETE, {}, b"abc"),
        (BlockType.AVRO_DATA, {Header.INSTANT_TIME: "2"}, b"\1" * 100_000),
    ]
    (tmp_path / "f").write_bytes(b"".join(write_block(*block) for block in blocks))
    storage = Storage.at(tmp_path)
    found = list(scan_blocks(storage, "f", lazy=True))
    assert shape(iter(found)) == [(type_, dict(headers), content) for type_, headers, content in blocks]
    assert shape(scan_blocks(storage, "f")) == shape(iter(found))


@pytest.mark.parametrize("lazy", [False, True])
def test_file_full_of_magics_takes_linear_time(tmp_path: Path, lazy: bool) -> None:
    (tmp_path / "f").write_bytes(MAGIC * 50_000)
    start = time.perf_counter()
    assert sum(1 for _ in scan_blocks(Storage.at(tmp_path), "f", lazy=lazy)) == 50_000
    assert time.perf_counter() - start < 5
