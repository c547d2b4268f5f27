"""HFiles written by Apache Hudi (HBase's writer and its own) and by us: read whole, by key, by prefix, damaged."""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import places
from tests.unit.hudi.plain_log import HFILE, log_blocks

from headwater.errors import CorruptFile, HeadwaterError, InvalidArgument, MissingFile, UnsupportedTable
from headwater.hudi.hfile import BytesSource, HFileReader, StorageSource, block, checksum, compression, write_hfile
from headwater.hudi.hfile.cells import write_cells
from headwater.hudi.hfile.index import write_leaf, write_root
from headwater.hudi.hfile.trailer import Trailer, write_file_info, write_trailer
from headwater.storage.files import Storage

RAW = (
    "hudi_1_0_hbase_2_4_13_1KB_GZ_10000_large_keys_deep_index",
    "hudi_1_0_hbase_2_4_13_1KB_GZ_20000_large_keys",
    "hudi_1_0_hbase_2_4_9_16KB_GZ_20000",
    "hudi_1_0_hbase_2_4_9_16KB_GZ_200_20_non_unique",
    "hudi_1_0_hbase_2_4_9_16KB_NONE_5000",
    "hudi_1_0_hbase_2_4_9_no_entry",
)


@functools.cache
def raw(name: str) -> bytes:
    return places.raw(f"hfile/{name}.hfile")


def opened(data: bytes, name: str = "test.hfile") -> HFileReader:
    return HFileReader(BytesSource(data), name)


def metadata_hfiles(set_: str) -> Iterator[tuple[str, bytes]]:
    """Every HFile of the metadata tables of a fixture set: base files and the contents of log blocks."""
    for table in places.every(set_) or places.missing(set_):
        for path, data in places.files(table, lambda path: path.startswith(".hoodie/metadata/")).items():
            if path.endswith(".hfile"):
                yield f"{table}/{path}", data
            elif ".log." in path:
                contents = [content for kind, _, content in log_blocks(data) if kind == HFILE]
                yield from ((f"{table}/{path} #{number}", content) for number, content in enumerate(contents))


class CountingSource:
    """In-memory bytes that remember which ranges were read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes_read = 0

    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes:
        self.bytes_read += length
        return self.data[offset : offset + length]


def hbase_file(groups: list[list[list[tuple[bytes, bytes]]]], index_keys: list[list[bytes]]) -> bytes:
    """A file with a leaf index per group of blocks, full cell keys in the index, and CRC32C, as HBase writes it."""
    tail = b"\x00" + b"\x7f" + b"\xff" * 7 + b"\x04"
    data, leaves, count = b"", [], 0
    for group, keys in zip(groups, index_keys, strict=True):
        entries = []
        for cells, key in zip(group, keys, strict=True):
            count += len(cells)
            body = crc_block(block.DATA, write_cells(cells))
            entries.append((len(key).to_bytes(2, "big") + key + tail, len(data), len(body)))
            data += body
        body = crc_block(block.LEAF_INDEX, write_leaf(entries))
        leaves.append((entries[0][0], len(data), len(body)))
        data += body
    start = len(data)
    data += crc_block(block.ROOT_INDEX, write_root(leaves) + bytes(16)) + crc_block(block.ROOT_INDEX, b"")
    info = len(data)
    last = groups[-1][-1][-1][0]
    entries_ = {b"hfile.LASTKEY": len(last).to_bytes(2, "big") + last + tail, b"KEY_VALUE_VERSION": b"\0\0\0\1"}
    data += crc_block(block.FILE_INFO, write_file_info(entries_))
    return data + write_trailer(Trailer(info, start, len(leaves), 0, count, 2, 0, 0, compression.NONE))


def crc_block(magic: bytes, payload: bytes, kind: int = checksum.CRC32C) -> bytes:
    size = 33 + len(payload)
    room = 4 * -(-size // 16384)
    header = struct.pack(">8siiqBii", magic, len(payload) + room, len(payload), -1, kind, 16384, size)
    return header + payload + checksum.checksums(kind, header + payload, 16384)


@pytest.mark.parametrize("name", RAW)
def test_raw_files_hold_what_their_manifest_says(name: str) -> None:
    expected = places.manifest("hudi")["raw"][f"raw/hfile/{name}.hfile"]["hfile"]
    file = opened(raw(name))
    entries = list(file.scan())
    assert file.entry_count == len(entries) == expected["entries"]
    assert len({key for key, _ in entries}) == expected["distinct_keys"]
    assert file.blocks_read == expected["blocks"].get("DATABLK*", 0)
    indexes = expected["blocks"].get("IDXLEAF2", 0) + expected["blocks"].get("IDXINTE2", 0)
    assert file.index_blocks_read == indexes
    assert file.meta_block("bloomFilter")
    assert file.meta_block("no such block") is None
    if entries:
        (first, first_value), (last, last_value) = entries[0], entries[-1]
        assert (first.decode(), first_value.decode()) == (expected["first_key"], expected["first_value"])
        assert (last.decode(), last_value.decode()) == (expected["last_key"], expected["last_value"])
    assert (file.first_key, file.last_key) == ((entries[0][0], entries[-1][0]) if entries else (None, None))


@pytest.mark.parametrize(("set_", "least"), [("generated", 300), ("hudi", 100)])
def test_every_metadata_table_file_and_log_block_of_the_fixtures_is_read(set_: str, least: int) -> None:
    files = entries = 0
    for name, data in metadata_hfiles(set_):
        file = opened(data, name)
        rows = list(file.scan())
        assert len(rows) == file.entry_count, name
        assert rows == sorted(rows, key=lambda row: row[0]), name
        assert b"schema" in file.file_info, name
        if rows:
            assert (file.first_key, file.last_key) == (rows[0][0], rows[-1][0]), name
        keys, values = [], []
        for key_column, value_column in file.scan_columns():
            keys += key_column.to_pylist()
            values += value_column.to_pylist()
        assert list(zip(keys, values, strict=True)) == rows, name
        files, entries = files + 1, entries + len(rows)
    assert files > least
    assert entries > 5 * least


def test_look_up_reads_one_data_block_and_one_index_block_per_level() -> None:
    data = raw(RAW[0])
    entries = dict(opened(data).scan())
    keys = random.Random(1).sample(sorted(entries), 50)
    for key in keys:
        source = CountingSource(data)
        file = HFileReader(source, "deep index")
        assert list(file.get_many([key])) == [(key, entries[key])]
        assert file.blocks_read <= 2  # two where the key is the index key: the block before could end with it
        assert file.index_blocks_read <= 4
        assert source.bytes_read < len(data) / 10
    file = opened(data)
    assert dict(file.get_many(keys)) == {key: entries[key] for key in keys}
    assert file.blocks_read <= 60


def test_look_up_of_keys_that_are_not_there_finds_nothing() -> None:
    file = opened(raw(RAW[2]))
    assert list(file.get_many([b"", b"a", b"hudi-key-0000000005", b"zzz"])) == []
    assert file.blocks_read <= 1
    assert list(opened(raw(RAW[5])).get_many([b"a"])) == []
    assert list(opened(raw(RAW[5])).scan_prefix([b""])) == []
    assert list(opened(raw(RAW[5])).scan_range(b"a", b"z")) == []


def test_all_entries_of_a_repeated_key_are_found() -> None:
    data = raw(RAW[3])
    entries = list(opened(data).scan())
    for key in (b"hudi-key-000000000", b"hudi-key-000000101", b"hudi-key-000000199"):
        expected = [entry for entry in entries if entry[0] == key]
        assert len(expected) == 21
        assert list(opened(data).get_many([key])) == expected
    everything = sorted({key for key, _ in entries})
    assert list(opened(data).get_many(everything)) == entries


@pytest.mark.parametrize("name", [RAW[0], RAW[3]])
def test_prefix_and_range_agree_with_a_full_scan(name: str) -> None:
    entries = list(opened(raw(name)).scan())
    chosen = random.Random(2).sample([key for key, _ in entries], 6)
    for low, high in zip(chosen, reversed(chosen), strict=True):
        file = opened(raw(name))
        assert list(file.scan_range(low, high)) == [entry for entry in entries if low <= entry[0] < high]
        prefixes = [low[:-2], low[:-1], high[:-1]]
        found = list(file.scan_prefix(prefixes))
        assert found == [entry for entry in entries if entry[0].startswith(tuple(prefixes))]
    assert list(opened(raw(name)).scan_range()) == entries


def test_prefix_reads_only_the_blocks_that_hold_it() -> None:
    file = opened(raw(RAW[1]))
    prefix = opened(raw(RAW[1])).first_key
    assert prefix is not None
    prefix = prefix[:-9] + b"00001234"  # ten keys
    assert len(list(file.scan_prefix([prefix]))) == 10
    assert file.blocks_read <= 4


def test_key_repeated_across_blocks_and_leaf_indexes_is_found_whole() -> None:
    groups = [
        [[(b"b", b"1"), (b"d", b"2")], [(b"d", b"3"), (b"d", b"4")]],
        [[(b"d", b"5")], [(b"d", b"6"), (b"m", b"7")], [(b"q", b"8")]],
    ]
    entries = [entry for group in groups for cells in group for entry in cells]
    # "n" is shorter than and before the first key of its block: HBase shortens index keys so.
    data = hbase_file(groups, [[b"b", b"d"], [b"d", b"d", b"n"]])
    assert list(opened(data).scan()) == entries
    assert [value for _, value in opened(data).get_many([b"d"])] == [b"2", b"3", b"4", b"5", b"6"]
    assert [value for _, value in opened(data).get_many([b"a", b"b", b"c", b"d", b"m", b"n", b"p", b"q", b"r"])] == [
        value for _, value in entries
    ]
    assert [value for _, value in opened(data).scan_prefix([b"d"])] == [b"2", b"3", b"4", b"5", b"6"]
    file = opened(data)
    assert list(file.get_many([b"o"])) == []
    assert list(file.get_many([b"q"])) == [(b"q", b"8")]
    assert file.blocks_read == 1


def test_get_columns_finds_what_get_many_finds() -> None:
    entries = list(opened(raw(RAW[3])).scan())
    wanted = [b"hudi-key-000000007", b"hudi-key-000000150", b"nothing"]
    found = [
        pair
        for keys, values in opened(raw(RAW[3])).get_columns(pa.array([*wanted, None]))
        for pair in zip(keys.to_pylist(), values.to_pylist(), strict=True)
    ]
    assert found == [entry for entry in entries if entry[0] in wanted]


def test_file_on_a_storage_is_read_by_ranges(tmp_path: Path) -> None:
    (tmp_path / "a.hfile").write_bytes(raw(RAW[4]))
    source = StorageSource(Storage.at(tmp_path), "a.hfile")
    file = HFileReader(source, "a.hfile")
    assert list(file.get_many([b"hudi-key-000000042"])) == [(b"hudi-key-000000042", b"hudi-value-000000042")]
    assert list(file.scan()) == list(opened(raw(RAW[4])).scan())
    source.close()
    assert file.first_key == b"hudi-key-000000000"
    with pytest.raises(MissingFile, match=r"b\.hfile"):
        HFileReader(StorageSource(Storage.at(tmp_path), "b.hfile"), "b.hfile")


entry_lists = st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=40)), max_size=60).map(
    lambda entries: sorted(entries, key=lambda entry: entry[0])
)


@settings(max_examples=80, deadline=None)
@given(
    entries=entry_lists,
    codec=st.sampled_from(["NONE", "GZ", "SNAPPY", "LZ4", "ZSTD", "BZIP2"]),
    block_size=st.sampled_from([1, 64, 300, 1 << 20]),
    bloom=st.none() | st.binary(max_size=50),
    wanted=st.lists(st.binary(max_size=3), max_size=5),
)
def test_what_is_written_is_read_back(
    entries: list[tuple[bytes, bytes]], codec: str, block_size: int, bloom: bytes | None, wanted: list[bytes]
) -> None:
    meta = {} if bloom is None else {"bloomFilter": bloom}
    file = opened(write_hfile(entries, codec=codec, block_size=block_size, meta=meta, info={b"schema": b"{}"}))
    assert list(file.scan()) == entries
    assert file.meta_block("bloomFilter") == bloom
    assert file.file_info[b"schema"] == b"{}"
    keys = {*wanted, *(key for key, _ in entries[::3])}
    assert list(file.get_many(keys)) == [entry for entry in entries if entry[0] in keys]
    assert list(file.scan_prefix(wanted)) == [entry for entry in entries if entry[0].startswith(tuple(wanted))]
    low, high = (sorted(wanted) * 2 or [b"", b"\xff"])[:2]
    assert list(file.scan_range(low, high)) == [entry for entry in entries if low <= entry[0] < high]


def test_written_files_have_the_layout_of_hudis_own_writer() -> None:
    """A file of Hudi 1.1 is taken apart and written again: same blocks, same sizes, same trailer up to gzip's bytes."""
    files = places.files("hudi/sample_cow_v9_txns_nonpart_meta", lambda path: path.endswith(".hfile"))
    theirs = next(data for path, data in files.items() if "/column_stats/" in path)
    file = opened(theirs)
    bloom = file.meta_block("bloomFilter")
    assert bloom is not None
    ours = write_hfile(file.scan(), meta={"bloomFilter": bloom}, info=file.file_info)
    assert block_headers(ours) == block_headers(theirs)
    assert ours[-4:] == theirs[-4:]
    again = opened(ours)
    assert again.file_info == file.file_info
    assert list(again.scan()) == list(file.scan())


def block_headers(data: bytes) -> list[tuple[bytes, int, int, int, int]]:
    at, found = 0, []
    while at < len(data) - 4096:
        magic, on_disk, size, previous, kind, per, _ = struct.unpack_from(">8siiqBii", data, at)
        found.append((magic, size, previous, kind, per))
        at += 33 + on_disk
    return found


def test_writer_refuses_keys_out_of_order_and_too_long() -> None:
    with pytest.raises(InvalidArgument, match="sorted"):
        write_hfile([(b"b", b""), (b"a", b"")])
    with pytest.raises(InvalidArgument, match="32767"):
        write_hfile([(b"x" * 40000, b"")])
    with pytest.raises(InvalidArgument, match="GZIP"):
        write_hfile([], codec="GZIP")


@pytest.mark.parametrize("codec", [compression.SNAPPY, compression.LZ4])
def test_hadoop_framing_may_split_a_block_into_chunks(codec: int) -> None:
    parts = [b"one " * 100, b"two " * 200, b"three " * 500]
    bodies = [compression.compress(codec, part)[4:] for part in parts]
    raw_size = sum(map(len, parts))
    framed = raw_size.to_bytes(4, "big") + b"".join(bodies)
    assert compression.decompress(codec, framed, raw_size) == b"".join(parts)
    twice = compression.compress(codec, parts[0]) + compression.compress(codec, parts[1])
    assert compression.decompress(codec, twice, 1200) == parts[0] + parts[1]


def test_zstd_is_read_plain_and_in_hadoop_framing() -> None:
    body = compression.compress(compression.ZSTD, b"zz" * 100)
    framed = (200).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body
    assert compression.decompress(compression.ZSTD, body, 200) == b"zz" * 100
    assert compression.decompress(compression.ZSTD, framed, 200) == b"zz" * 100


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=700), chunk=st.integers(1, 200))
def test_crc32c_in_lanes_agrees_with_the_definition(data: bytes, chunk: int) -> None:
    def plain(piece: bytes) -> int:
        register = 0xFFFFFFFF
        for byte in piece:
            register ^= byte
            for _ in range(8):
                register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
        return register ^ 0xFFFFFFFF

    pieces = [data[at : at + chunk] for at in range(0, len(data), chunk)]
    assert checksum.checksums(checksum.CRC32C, data, chunk) == b"".join(plain(p).to_bytes(4, "big") for p in pieces)
    assert checksum.crc32c(data) == plain(data)


@pytest.mark.parametrize("kind", [checksum.CRC32, checksum.CRC32C])
def test_flipped_bit_under_a_checksum_is_found(kind: int) -> None:
    good = crc_block(block.META, b"payload" * 5000, kind)
    read = functools.partial(block.read_block, codec=compression.NONE, name="meta.hfile", expect=block.META)
    assert bytes(read(good, 0).payload) == b"payload" * 5000
    for at in (40, 20000, len(good) - 1):
        bad = bytearray(good)
        bad[at] ^= 1
        with pytest.raises(CorruptFile, match=r"meta\.hfile: at byte 77: the block's checksum"):
            read(bytes(bad), 77)


def test_declared_size_out_of_proportion_is_refused_before_allocating() -> None:
    for size in (0x7FFFFFFF, 1 << 29):
        data = bytearray(write_hfile([(b"k", b"v" * 100)]))
        data[12:16] = size.to_bytes(4, "big")
        with pytest.raises(CorruptFile, match="declares"):
            list(opened(bytes(data)).scan())


def test_index_that_points_backwards_is_refused() -> None:
    group = [[(b"a", b"1")], [(b"b", b"2")]]
    data = hbase_file([group], [[b"a", b"b"]])
    first = opened(data)
    node = first._child(first._root.offsets[0], first._root.sizes[0], 2)
    leaf = write_leaf([(b"\0\1a", node.offsets[1], node.sizes[1]), (b"\0\1b", node.offsets[0], node.sizes[0])])
    swapped = bytearray(data)
    at = first._root.offsets[0] + 33
    body = write_leaf(
        [(b"\0\1a" + bytes(10), node.offsets[1], node.sizes[1]), (b"\0\1b" + bytes(10), 0, node.sizes[0])]
    )
    assert len(leaf) < len(body)
    swapped[at : at + len(body)] = body
    swapped[first._root.offsets[0] + 24] = checksum.NULL
    with pytest.raises(CorruptFile, match="behind the one at"):
        list(opened(bytes(swapped)).scan())


def test_lzo_encoded_blocks_and_other_versions_are_unsupported() -> None:
    with pytest.raises(UnsupportedTable, match="LZO"):
        write_hfile([(b"a", b"")], codec="LZO")
    data = bytearray(write_hfile([(b"a", b"b")], codec="NONE"))
    at = data.rindex(b"\x60\x02", 0, len(data))
    data[at + 1] = compression.LZO
    with pytest.raises(UnsupportedTable, match="LZO"):
        opened(bytes(data))
    data = bytearray(write_hfile([(b"a", b"b")]))
    data[-1] = 2
    with pytest.raises(UnsupportedTable, match="version 2"):
        opened(bytes(data))
    with pytest.raises(UnsupportedTable, match="PREFIX"):
        opened(write_hfile([], info={b"DATA_BLOCK_ENCODING": b"PREFIX"}))


def exercise(data: bytes) -> None:
    file = opened(data, "damaged.hfile")
    file.meta_block("bloomFilter")
    sum(1 for _ in file.scan())
    sum(len(keys) for keys, _ in file.scan_columns())
    list(file.get_many([b"hudi-key-000000100", b"k5"]))
    list(file.scan_prefix([b"hudi-key-00000010", b"k"]))
    _ = file.first_key, file.last_key


def small_files() -> list[bytes]:
    entries = [(f"k{n}".encode(), b"v" * n) for n in range(10)]
    meta = {"bloomFilter": b"bloom"}
    return [
        write_hfile(entries, codec=codec, block_size=60, meta=meta) for codec in ("NONE", "GZ", "SNAPPY", "LZ4", "ZSTD")
    ] + [raw(RAW[5]), hbase_file([[entries[:5]], [entries[5:7], entries[7:]]], [[b"k0"], [b"k5", b"k7"]])]


def test_truncated_files_are_corrupt() -> None:
    for data in small_files():
        for cut in [*range(0, 60, 3), *range(60, len(data), 197), len(data) - 1]:
            with pytest.raises(HeadwaterError):
                exercise(data[:cut])
            with pytest.raises(HeadwaterError):
                exercise(data[cut + 1 :])


def test_flipped_bytes_raise_only_errors_of_ours() -> None:
    """A flip that no checksum covers may go unnoticed; it never crashes, hangs or leaks an error of a library."""
    chance = random.Random(3)
    caught = tried = 0
    for data in small_files():
        body = len(data) - 4096
        for at in [*range(chance.randrange(3), body + 90, 3), *range(len(data) - 4, len(data))]:
            bad = bytearray(data)
            bad[at] = chance.choice([0, 0xFF, bad[at] ^ 0x80, bad[at] ^ 1, chance.randrange(256)])
            caught, tried = caught + refused(bytes(bad)), tried + 1
    for data in (raw(RAW[3]), raw(RAW[4])):
        for _ in range(25):
            bad = bytearray(data)
            for _ in range(chance.choice([1, 4, 50])):
                bad[chance.randrange(len(bad))] = chance.randrange(256)
            caught, tried = caught + refused(bytes(bad)), tried + 1
    assert caught > tried / 3


def refused(data: bytes) -> bool:
    try:
        exercise(data)
    except HeadwaterError:
        return True
    return False


@settings(max_examples=150, deadline=None)
@given(body=st.binary(max_size=300), trailer_bytes=st.binary(max_size=120))
def test_random_bytes_under_a_trailer_raise_only_errors_of_ours(body: bytes, trailer_bytes: bytes) -> None:
    tail = (b'TRABLK"$' + trailer_bytes).ljust(4092, b"\0") + b"\0\0\0\3"
    with pytest.raises(HeadwaterError):
        exercise(body + tail)
