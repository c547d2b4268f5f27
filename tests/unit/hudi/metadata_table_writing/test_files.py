"""The files of the metadata table: HFiles in both layouts, records sorted to file groups, in memory and on disk."""

from __future__ import annotations

import random
import uuid

import pyarrow as pa
import pytest

from headwater.errors import InvalidArgument
from headwater.hudi.hfile import BytesSource, HFileReader, HFileWriter
from headwater.hudi.index.hashing import file_group_index
from headwater.hudi.metadata_table.moves import entries_by_group
from headwater.hudi.metadata_table.record_schema import record_schema
from headwater.hudi.metadata_table.records import RecordLocation, decode_record, parsed_schema
from headwater.hudi.write.model import RECORD_MOVES


def columns(entries: list[tuple[bytes, bytes]]) -> tuple[pa.Array, pa.Array]:
    return pa.array([key for key, _ in entries], pa.binary()), pa.array([value for _, value in entries], pa.binary())


@pytest.mark.parametrize("like_hbase", [True, False], ids=["hbase", "native"])
@pytest.mark.parametrize("codec", ["GZ", "NONE"])
def test_columns_are_read_back_as_they_were_appended(like_hbase: bool, codec: str) -> None:
    chance = random.Random(7)
    keys = sorted({f"k{chance.randrange(10**6)}ü"[: chance.randrange(1, 9)].encode() for _ in range(5000)})
    entries = [(key, chance.randbytes(chance.choice([0, 1, 50, 3000]))) for key in keys]
    parts: list[bytes] = []
    writer = HFileWriter(codec=codec, block_size=4096, like_hbase=like_hbase, sink=parts.append)
    for start in range(0, len(entries), 997):
        writer.append_columns(*columns(entries[start : start + 997]))
    assert writer.finish() == b""
    data = b"".join(parts)
    assert writer.size == len(data)
    reader = HFileReader(BytesSource(data), "file")
    assert list(reader.scan()) == entries
    assert (reader.entry_count, reader.first_key, reader.last_key) == (len(entries), keys[0], keys[-1])
    some = chance.sample(keys, 50)
    assert dict(reader.get_many(some)) == {key: value for key, value in entries if key in some}
    one_by_one = HFileWriter(codec=codec, block_size=4096, like_hbase=like_hbase)
    for key, value in entries:
        one_by_one.append(key, value)
    assert list(HFileReader(BytesSource(one_by_one.finish()), "file").scan()) == entries


def test_columns_out_of_order_are_refused() -> None:
    for keys in ([b"b", b"a"], [b"a", b"a"]):
        with pytest.raises(InvalidArgument, match="sorted"):
            HFileWriter().append_columns(pa.array(keys, pa.binary()), pa.array([b"1", b"2"], pa.binary()))
    writer = HFileWriter()
    writer.append(b"b", b"")
    with pytest.raises(InvalidArgument, match="sorted"):
        writer.append_columns(pa.array([b"a"], pa.binary()), pa.array([b"1"], pa.binary()))


@pytest.mark.parametrize("budget", [1 << 30, 1], ids=["memory", "disk"])
def test_moves_come_sorted_by_file_group_and_the_last_place_counts(budget: int) -> None:
    chance = random.Random(3)
    places = [f"{uuid.UUID(int=chance.getrandbits(128))}-0" for _ in range(5)]
    expected: dict[str, str | None] = {}
    batches = []
    for _ in range(4):
        # Within a batch a key is gone from one place and comes to another: a move between partitions.
        names = chance.sample(range(500), 100)
        rows = [(f"k{n}", "p", chance.choice(places), "20260101000000000", False) for n in names]
        rows += [(f"k{n}", "q", "x", "20260101000000000", True) for n in names[:50]]
        chance.shuffle(rows)
        batches.append(pa.record_batch([list(c) for c in zip(*rows, strict=True)], schema=RECORD_MOVES))
        expected.update({f"k{n}": next(r[2] for r in rows if r[0] == f"k{n}" and not r[4]) for n in names})
    schema = parsed_schema(record_schema(9))
    found: dict[str, str | None] = {}
    for index, part in entries_by_group(batches, 10, 9, in_utc=True, budget=budget):
        keys = part.keys.to_pylist()
        assert keys == sorted(set(keys))
        for key, value in zip(keys, part.values.to_pylist(), strict=True):
            assert file_group_index(key.decode(), 10) == index
            place = decode_record(key.decode(), value, schema)
            found[key.decode()] = place.file_id if isinstance(place, RecordLocation) else None
    assert found == expected
