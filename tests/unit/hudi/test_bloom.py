"""Bloom filters of real base files, and our own."""

from __future__ import annotations

import base64
import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import places

from headwater.errors import CorruptFile, HeadwaterError, InvalidArgument, UnsupportedTable
from headwater.hudi.hfile import BytesSource, HFileReader
from headwater.hudi.index.bloom import BloomBuilder, BloomFilter

TABLES = (
    "generated/idx_mdt_all_cow_v6_0150",
    "generated/mrg_commit_mor_v9_120",
    "hudi/sample_cow_v6_complexkeygen_hivestyle",
    "hudi/sample_cow_v8_simplekeygen_nonhivestyle",
    "hudi/sample_cow_v9_txns_complex_meta",
)


@pytest.mark.parametrize("name", TABLES)
def test_footer_filter_contains_every_key_of_its_file_and_hardly_another(name: str) -> None:
    seen = 0
    others = pa.array([f"other-{random.Random(n).random()}-ü" for n in range(300)])
    for path, data in places.files(name, lambda path: path.endswith(".parquet")).items():
        if path.startswith(".hoodie/"):
            continue
        file = pq.ParquetFile(io.BytesIO(data))
        footer = file.metadata.metadata or {}
        text = footer.get(b"org.apache.hudi.bloomfilter")
        if text is None:
            continue
        filter_ = BloomFilter.parse(text, footer.get(b"hoodie_bloom_filter_type_code", b"").decode(), name=path)
        keys = file.read(["_hoodie_record_key"]).column(0)
        assert filter_.might_contain(keys).true_count == len(keys), path
        assert filter_.might_contain(others).true_count == 0, path
        assert filter_.serialize().encode() == text
        # The keys set exactly the bits that Hudi set.
        empty = BloomFilter(filter_.kind, filter_.hashes, filter_.bits, (bytes(len(filter_.rows[0])),), 1 << 30)
        assert empty.add(keys).rows == filter_.rows
        seen += 1
    assert seen


def test_meta_block_filter_of_a_metadata_file_contains_its_keys() -> None:
    seen = 0
    name = "hudi/sample_cow_v9_txns_nonpart_meta"
    for path, data in places.files(name, lambda path: path.endswith(".hfile")).items():
        file = HFileReader(BytesSource(data), path)
        text, kind = file.meta_block("bloomFilter"), file.file_info[b"bloomFilterTypeCode"].decode()
        assert text is not None
        filter_ = BloomFilter.parse(text, kind, name=path)
        keys = pa.array([key for key, _ in file.scan()], pa.binary())
        assert filter_.might_contain(keys).true_count == len(keys)
        seen += len(keys)
    assert seen > 50


@settings(max_examples=50, deadline=None)
@given(
    keys=st.lists(st.text(max_size=20) | st.none(), max_size=30),
    others=st.lists(st.text(max_size=20), max_size=30, unique=True),
    kind=st.sampled_from(["SIMPLE", "DYNAMIC_V0"]),
    room=st.integers(1, 40),
)
def test_filter_survives_serializing_and_never_denies_a_key(
    keys: list[str | None], others: list[str], kind: str, room: int
) -> None:
    column = pa.array(keys, pa.string())
    filter_ = BloomFilter.sized(room, kind=kind).add(column)
    again = BloomFilter.parse(filter_.serialize(), kind)
    assert again.serialize() == filter_.serialize()
    assert again.might_contain(column).to_pylist() == [None if key is None else True for key in keys]
    if kind == "DYNAMIC_V0":
        assert len(again.rows) == max(1, -(-len(keys) // room))
        answers = again.might_contain(pa.array(others, pa.string())).to_pylist()
        assert sum(answers) <= sum(other in keys for other in others) + 1


def test_dynamic_filter_grows_in_steps_as_keys_come() -> None:
    filter_ = BloomFilter.sized(10, kind="DYNAMIC_V0")
    for start in range(0, 35, 7):
        filter_ = filter_.add(pa.chunked_array([[f"k{n}" for n in range(start, start + 7)]]))
    assert len(filter_.rows) == 4
    assert filter_.keys_in_last_row == 5
    assert filter_.might_contain(pa.array([f"k{n}" for n in range(35)])).true_count == 35


def test_damaged_filters_raise_only_errors_of_ours() -> None:
    good = base64.b64decode(BloomFilter.sized(5, kind="DYNAMIC_V0").add(pa.array(["a", "b"])).serialize())
    for cut in range(len(good)):
        with pytest.raises(HeadwaterError):
            BloomFilter.parse(base64.b64encode(good[:cut]), "DYNAMIC_V0", name="f.parquet")
    for at in range(60):
        bad = bytearray(good)
        bad[at] ^= 0x81
        for kind in ("SIMPLE", "DYNAMIC_V0"):
            try:
                BloomFilter.parse(base64.b64encode(bad), kind).might_contain(pa.array(["a"]))
            except HeadwaterError:
                continue
    with pytest.raises(CorruptFile, match=r"f\.parquet.*Base64"):
        BloomFilter.parse("?!", name="f.parquet")
    with pytest.raises(UnsupportedTable, match="FANCY"):
        BloomFilter.parse("", "FANCY")
    with pytest.raises(UnsupportedTable, match="hash 0"):
        BloomFilter.parse(base64.b64encode(b"\xff\xff\xff\xff\0\0\0\2\0\0\0\0\x08\0"))
    with pytest.raises(InvalidArgument):
        BloomFilter.sized(0)


@pytest.mark.parametrize("count", [0, 1, 1_000, 200_000])
def test_a_built_filter_holds_its_keys_hardly_another_and_no_room_to_spare(count: int) -> None:
    keys = pa.array([f"key-{n}" for n in range(count)], pa.string())
    builder = BloomBuilder()
    for start in range(0, count, 70_000):
        builder.add(keys.slice(start, 70_000))
    made = builder.finish()
    assert made.might_contain(keys).true_count == count
    others = pa.array([f"other-{n}" for n in range(5_000)])
    assert (made.might_contain(others).true_count or 0) <= 5
    assert len(made.serialize()) < 200 + 8 * max(count, 1)
    assert BloomFilter.parse(made.serialize(), made.kind).rows == made.rows


def test_a_filter_of_more_keys_than_are_held_grows_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BloomBuilder, "MOST_KEYS", 1_000)
    keys = pa.chunked_array([[f"key-{n}" for n in range(2_700)], [None, "last"]], pa.string())
    builder = BloomBuilder()
    builder.add(keys)
    made = builder.finish()
    assert (len(made.rows), made.keys_in_last_row, made.keys_per_row) == (3, 701, 1_000)
    assert made.might_contain(keys.drop_null()).true_count == 2_701
