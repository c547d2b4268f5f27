"""Hudi's hashes against real tables: file groups of metadata partitions, keys of index records, buckets, hash rings."""

from __future__ import annotations

import functools
import io
import json
import re
import struct
from collections import defaultdict

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import places
from tests.unit.hudi.plain_log import AVRO, HFILE, log_blocks

from headwater.errors import CorruptFile, InvalidArgument
from headwater.hudi.hfile import BytesSource, HFileReader
from headwater.hudi.index import bucket, hashing


@functools.cache
def table(name: str) -> dict[str, bytes]:
    """A fixture table's files by path below its root."""
    return places.files(name)


def hfiles(path: str, data: bytes) -> list[HFileReader]:
    """The HFile of a base file, or those in a log file."""
    if path.endswith(".hfile"):
        return [HFileReader(BytesSource(data), path)]
    return [HFileReader(BytesSource(content), path) for kind, _, content in log_blocks(data) if kind == HFILE]


INDEXED = (
    "generated/idx_mdt_all_cow_v6_0150",
    "generated/idx_secondary_mor_v8_102",
    "generated/idx_stats_mor_v9_120",
    "hudi/sample_cow_v9_txns_complex_meta",
    "hudi/sample_mor_avro_v9_txns_nonpart_meta",
    "hudi/mdtbasic_mor_avro_v8_nonpartitioned",
)


@pytest.mark.parametrize("name", INDEXED)
def test_every_key_of_a_metadata_partition_lies_in_the_file_group_of_its_hash(name: str) -> None:
    groups: dict[str, set[str]] = defaultdict(set)
    keys: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, data in table(name).items():
        found = re.fullmatch(r"\.hoodie/metadata/(\w+)/\.?([\w-]+?-\d{4}-\d)_.*", path)
        if found:
            partition, file_id = found.groups()
            groups[partition].add(file_id)
            for file in hfiles(path, data):
                keys[partition, file_id] += [key.decode() for key, _ in file.scan()]
    assert sum(map(len, keys.values())) > 5
    version = 2 if "_v9" in name else 1
    for (partition, file_id), found_keys in keys.items():
        order, column = sorted(groups[partition]), pa.array(found_keys, pa.string())
        expected = [order.index(file_id)] * len(found_keys)
        if partition.startswith("secondary_index"):
            indexes = hashing.secondary_file_group_indexes(column, len(order), version=version)
            one_by_one = [hashing.secondary_file_group_index(k, len(order), version=version) for k in found_keys]
        else:
            indexes = hashing.file_group_indexes(column, len(order))
            one_by_one = [hashing.file_group_index(k, len(order)) for k in found_keys]
        assert indexes.tolist() == one_by_one == expected, (partition, file_id)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text() | st.none(), max_size=20), st.integers(0, 5))
def test_java_hashes_of_an_array_agree_with_the_loop(texts: list[str | None], skip: int) -> None:
    expected = [hashing.java_hash(text or "") for text in texts]
    for kind in (pa.string(), pa.large_string()):
        assert hashing.java_hashes(pa.array(texts, kind)).tolist() == expected
        assert hashing.java_hashes(pa.array(texts, kind).slice(skip)).tolist() == expected[skip:]
        chunked = pa.chunked_array([pa.array(texts, kind), pa.array(texts, kind)])
        assert hashing.java_hashes(chunked).tolist() == expected * 2


def test_java_hashes_of_more_rows_than_fit_a_slice_and_of_dictionaries() -> None:
    texts = pa.array([f"key-{n % 97}" for n in range(70000)])
    expected = [hashing.java_hash(f"key-{n}") for n in range(97)]
    assert (hashing.java_hashes(texts) == np.array([expected[n % 97] for n in range(70000)])).all()
    assert (hashing.java_hashes(texts.dictionary_encode()) == hashing.java_hashes(texts)).all()
    with pytest.raises(InvalidArgument, match="int64"):
        hashing.java_hashes(pa.array([1]))


def test_smallest_java_int_maps_into_range() -> None:
    text = "polygenelubricants"  # hashes to Integer.MIN_VALUE
    assert hashing.java_hash(text) == -(1 << 31)
    assert hashing.file_group_index(text, 10) == 8
    assert hashing.file_group_indexes(pa.array([text]), 10).tolist() == [8]


def test_column_stats_keys_are_those_of_the_files_they_describe() -> None:
    files = table("hudi/sample_cow_v9_txns_complex_meta")
    stored = set()
    for path, data in files.items():
        if path.startswith(".hoodie/metadata/column_stats/") and path.endswith(".hfile"):
            stored |= {key.decode() for key, _ in HFileReader(BytesSource(data), path).scan()}
    described = 0
    for path in files:
        if path.endswith(".parquet") and not path.startswith(".hoodie"):
            partition, file = path.rsplit("/", 1)
            for column in ("txn_id", "amount", "_hoodie_record_key"):
                described += hashing.column_stats_key(column, partition, file) in stored
    assert described >= 6
    prefix = hashing.column_stats_prefix("amount")
    assert any(key.startswith(prefix) for key in stored)


def test_partition_stats_key_of_an_unpartitioned_table_uses_a_dot() -> None:
    assert hashing.partition_stats_key("currency", "").endswith("FXThHwelITM=")
    of_index = hashing.partition_stats_key("c", "p", of_expression_index=True)
    assert of_index == hashing.column_stats_prefix("c", "__partition_stat__") + hashing.column_stats_prefix("p")


@given(st.text() | st.none(), st.text(min_size=1))
def test_secondary_keys_are_taken_apart_again(value: str | None, record: str) -> None:
    key = hashing.secondary_key(value, record)
    assert hashing.split_secondary_key(key) == (value, record)
    assert key.startswith(hashing.secondary_prefix(value))
    assert hashing.secondary_prefix_of(key) == hashing.secondary_prefix(value)
    assert hashing.secondary_file_group_indexes(pa.array([key]), 7).tolist() == [
        hashing.secondary_file_group_index(key, 7)
    ]


def test_secondary_key_without_separator_is_corrupt() -> None:
    with pytest.raises(CorruptFile, match="separator"):
        hashing.split_secondary_key("a\\$b")


def test_xxhash_of_long_input() -> None:
    assert hashing.xxhash64(b"Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1
    text = "Nobody inspects the spammish repetition"
    assert hashing.xxhash32s(pa.array([text, None, text[:5]])).tolist()[:2] == [0xE2293B2F, 0x02CC5D05]


def test_simple_buckets_are_those_in_the_file_ids() -> None:
    seen = set()
    for path, data in table("generated/idx_bucket_mor_v6_0150").items():
        if path.endswith(".parquet"):
            keys = pq.read_table(io.BytesIO(data), columns=["_hoodie_record_key"]).column(0)
            expected = bucket.bucket_of_file_id(path.rsplit("/", 1)[1])
            assert set(bucket.bucket_ids_of_keys(keys, 3).tolist()) == {expected}
            seen.add(expected)
    assert seen == {0, 1, 2}


def test_composite_keys_hash_as_the_list_of_their_values() -> None:
    keys = pa.array(["a:1,b:x", "a:2,b:__null__", "plain", "only:one", "a:__empty__,b:y,z", None])
    found = bucket.bucket_ids_of_keys(keys, 1000)
    columns = [pa.array(["1", "2", ""]), pa.array(["x", None, "y,z"])]
    assert found[[0, 1, 4]].tolist() == bucket.bucket_ids(columns, 1000).tolist()
    assert found[[2, 3]].tolist() == bucket.bucket_ids([pa.array(["plain", "only:one"])], 1000).tolist()
    by_field = bucket.bucket_ids_of_keys(keys.slice(0, 1), 1000, fields=["b"])
    assert by_field.tolist() == bucket.bucket_ids([pa.array(["x"])], 1000).tolist()
    # Java: Arrays.asList("1", "x").hashCode() = 31 * (31 * 1 + 49) + 120
    assert bucket.bucket_ids([pa.array(["1"]), pa.array(["x"])], 10000).tolist() == [31 * (31 + 49) + 120]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (
            "id1:1,,,id2:2024-10-22 14:11:53.023,id3:,,3,id4:::1:2::4::",
            ["1,,", "2024-10-22 14:11:53.023", ",,3", "::1:2::4::"],
        ),
        ("id:1,id2:2,2", ["1", "2,2"]),
        ("id:ab:cd,id2:ef", ["ab:cd", "ef"]),
        ("no colon, but a comma", ["no colon, but a comma"]),
    ],
)
def test_values_of_a_composite_key_may_hold_separators(key: str, values: list[str]) -> None:
    assert bucket.key_values(key) == values


@pytest.mark.parametrize("name", ["idx_bucket_logonly_mor_v6_0150", "idx_bucket_logonly_mor_v9_120"])
def test_hash_ring_finds_the_file_group_of_every_logged_key(name: str) -> None:
    files = table(f"generated/{name}")
    meta = next(path for path in files if path.endswith(".hashing_meta"))
    ring = bucket.HashRing.parse(files[meta])
    assert ring == bucket.HashRing.initial("", 2)
    checked = 0
    for path, data in files.items():
        if ".log." in path:
            file_id = path.split("_")[0].lstrip(".").removesuffix("-0")
            keys = pa.array(avro_log_keys(data), pa.string())
            found = {ring.file_id_prefixes[node] for node in ring.nodes_of(keys)}
            assert found <= {file_id}
            checked += len(keys)
    assert checked > 5


def avro_log_keys(data: bytes) -> list[str]:
    keys = []
    for kind, header, content in log_blocks(data):
        if kind == AVRO:
            schema, at = fastavro.parse_schema(json.loads(header[2])), 8
            while at < len(content):
                (length,) = struct.unpack_from(">i", content, at)
                body = io.BytesIO(content[at + 4 : at + 4 + length])
                keys.append(fastavro.schemaless_reader(body, schema, None)["_hoodie_record_key"])
                at += 4 + length
    return keys


def test_broken_hash_ring_is_corrupt() -> None:
    for text in ("", "[]", "{}", '{"nodes": [], "partitionPath": "", "instant": "0"}', '{"nodes": [{}]}'):
        with pytest.raises(CorruptFile, match=r"nodes|hashing"):
            bucket.HashRing.parse(text)
