"""Footers are read without the bloom filter in them, and with all else."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.hudi.base_file import open_base_file
from headwater.hudi.footer_index import by_footer
from headwater.hudi.index.bloom import BloomFilter
from headwater.hudi.parquet_footer import BLOOM, _without_bloom, read_footer
from headwater.storage import Storage

KEYS = pa.array([f"key-{n:06d}" for n in range(40_000)])


def _file(path: Path, metadata: dict[bytes, bytes], rows: int = 10) -> Path:
    table = pa.table({"a": pa.array(range(rows)), "b": pa.array([f"text {n}" for n in range(rows)])})
    return _written(path, table, metadata)


def _written(path: Path, table: pa.Table, metadata: dict[bytes, bytes]) -> Path:
    with pq.ParquetWriter(path, table.schema, store_schema=False, use_dictionary=False, compression="none") as writer:
        writer.write_table(table, row_group_size=max(len(table) // 3, 1))
        writer.add_key_value_metadata({key.decode(): value.decode() for key, value in metadata.items()})
    return path


class _Counting(pa.PythonFile):
    """A file that knows how many bytes were asked of it."""

    asked = 0

    def read_at(self, size: int, offset: int) -> bytes:
        self.asked += size
        found: bytes = super().read_at(size, offset)
        return found


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 30_000, 65_000, 66_000, 200_000, 1_500_000])
@pytest.mark.parametrize("around", [({b"early": b"x" * 50}, {b"late": b"y" * 50}), ({}, {b"late": b"y" * 100_000})])
def test_everything_else_is_there(
    size: int, around: tuple[dict[bytes, bytes], dict[bytes, bytes]], tmp_path: Path
) -> None:
    path = _file(tmp_path / "f.parquet", around[0] | {BLOOM: b"Q" * size} | around[1])
    with pa.OSFile(str(path)) as source:
        found, whole = read_footer(source), pq.read_metadata(path)
    assert found.schema.equals(whole.schema)
    assert found.num_rows == whole.num_rows
    assert [found.row_group(n).to_dict() for n in range(found.num_row_groups)] == [
        whole.row_group(n).to_dict() for n in range(whole.num_row_groups)
    ]
    assert found.metadata.keys() == whole.metadata.keys()
    assert {k: v for k, v in found.metadata.items() if k != BLOOM} == around[0] | around[1]
    assert found.metadata[BLOOM] in (b"", b"Q" * size)


def test_a_large_bloom_filter_is_not_read(tmp_path: Path) -> None:
    path = _file(tmp_path / "f.parquet", {BLOOM: b"Q" * 2_000_000})
    with open(path, "rb") as file:
        source = _Counting(file, mode="r")
        assert read_footer(source).metadata[BLOOM] == b""
        assert source.asked <= 2 * 65_536


def test_who_asks_for_the_bloom_filter_gets_it(tmp_path: Path) -> None:
    text = BloomFilter.sized(len(KEYS)).add(KEYS).serialize().encode()
    assert len(text) > 65_536
    _file(tmp_path / "f.parquet", {BLOOM: text})
    base = open_base_file(Storage.at(str(tmp_path)), "f.parquet")
    assert base.footer[BLOOM] == text
    assert by_footer(base, KEYS.slice(0, 100)).equals(KEYS.slice(0, 100))
    assert len(by_footer(base, pa.array([f"other-{n}" for n in range(100)]))) < 5


def test_a_text_that_looks_like_one_stays_as_it_is(tmp_path: Path) -> None:
    # As in the footer, but as the bounds of a column: head of the key, key, head of the value, a length
    # that reaches into the real one.
    trap = b"\x18\x1b" + BLOOM + b"\x18\xa0\x9c\x01"
    table = pa.table({"a": pa.array([trap, trap + b"z"], pa.binary())})
    path = _written(tmp_path / "f.parquet", table, {BLOOM: b"Q" * 50_000})
    footer = path.read_bytes()[-150_000:]
    assert trap in footer[footer.rindex(b"PAR1") - int.from_bytes(footer[-8:-4], "little") :]
    with pa.OSFile(str(path)) as source:
        found = read_footer(source)
    whole = pq.read_metadata(path)
    assert found.num_rows == whole.num_rows == 2
    assert found.row_group(0).to_dict() == whole.row_group(0).to_dict()


def test_a_text_that_leaves_a_sound_footer_when_it_is_cut_stays_as_it_is(tmp_path: Path) -> None:
    # Two entries. Less what the first claims to be a bloom filter, its text ends within the second one's, where what
    # looks like the end of an entry and another one stands.
    length, claimed = 21_699, "é\x01"
    trap = f"\x18\x1b{BLOOM.decode()}\x18{claimed}" + "Q" * length
    second = "R" * (length - 6) + f"\0\x18\x01c\x18{claimed}" + "S" * length
    path = _file(tmp_path / "f.parquet", {b"a": trap.encode(), b"b": second.encode()})
    data = path.read_bytes()
    ending = data[-8 - int.from_bytes(data[-8:-4], "little") :]
    cut = _without_bloom(ending, ending, len(ending))
    assert cut is not None
    assert pq.read_metadata(pa.BufferReader(cut)).metadata.keys() == {b"a", b"c"}  # so Arrow would not tell
    with pa.OSFile(str(path)) as source:
        assert read_footer(source).metadata == {b"a": trap.encode(), b"b": second.encode()}


def test_a_damaged_footer_is_refused_or_read_as_arrow_reads_it(tmp_path: Path) -> None:
    path = _file(tmp_path / "f.parquet", {BLOOM: b"Q" * 100_000, b"y": b"z"}, rows=50)
    sound, at_random = path.read_bytes(), random.Random(20261116)
    begin = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    for _ in range(400):
        damaged = bytearray(sound)
        place = at_random.choice(
            [at_random.randrange(begin, begin + 2_000), at_random.randrange(len(sound) - 900, len(sound))]
        )
        damaged[place % len(sound)] ^= 1 << at_random.randrange(8)
        del damaged[at_random.randrange(1, len(sound)) if at_random.random() < 0.1 else len(sound) :]
        try:
            whole = pq.read_metadata(pa.BufferReader(bytes(damaged)))
        except Exception:
            with pytest.raises(Exception, match=r"."):
                read_footer(pa.BufferReader(bytes(damaged)))
            continue
        found = read_footer(pa.BufferReader(bytes(damaged)))
        assert (found.num_rows, found.num_row_groups) == (whole.num_rows, whole.num_row_groups)
