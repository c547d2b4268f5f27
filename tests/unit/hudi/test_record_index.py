"""Finding records by key: by the record index, by hashing, bloom filters and key ranges, and by reading keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.fixtures.suites import table

import headwater
from headwater.errors import InvalidArgument
from headwater.spec import LOCATION_SCHEMA, RecordIndex

TABLES = [
    "idx_rli_moves_mor_v6_0150",
    "idx_mdt_all_cow_v6_0150",
    "idx_bucket_mor_v6_0150",
    "idx_bucket_logonly_mor_v9_120",
    "mrg_event_mor_v9_120",
    "dups_insert_cow_v6_0150",
    "nometa_mor_v9_120",
    "kg_complex2_mor_v9_120",
]


def opened(name: str, *, metadata: bool = True) -> headwater.Table:
    return headwater.open(table("generated", name).path(), metadata=metadata)


def all_keys(found: headwater.Table) -> pa.Table:
    parts = [found.record_index._in_slice(slice_, None) for slice_ in found.record_index._all_slices()]
    return pa.concat_tables(parts) if parts else LOCATION_SCHEMA.empty_table()


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("metadata", [True, False])
def test_every_key_is_found_where_it_is(name: str, metadata: bool) -> None:
    found = opened(name, metadata=metadata)
    places = all_keys(found)
    keys = pc.unique(places.column("key"))
    tagged = found.record_index.tag(pa.concat_arrays([keys, pa.array(["no such key"])]))
    assert tagged.schema.names == LOCATION_SCHEMA.names
    where = {(row["key"], row["partition"], row["file_id"]) for row in places.to_pylist()}
    got = {(row["key"], row["partition"], row["file_id"]) for row in tagged.to_pylist() if row["file_id"] is not None}
    assert got <= where
    assert {key for key, _, _ in got} == set(keys.to_pylist())
    absent = [row for row in tagged.to_pylist() if row["file_id"] is None]
    assert [row["key"] for row in absent] == ["no such key"]


@pytest.mark.parametrize("name", TABLES)
def test_a_look_up_gives_the_rows_that_a_scan_gives(name: str) -> None:
    found = opened(name, metadata=False)
    keys = pc.unique(all_keys(found).column("key")).slice(0, 3)
    looked_up = found.lookup(keys, columns=["id", "name"])
    assert isinstance(found.record_index, RecordIndex)
    assert looked_up.num_rows >= len(keys)
    whole = found.scan(columns=["id", "name"]).to_arrow().to_pylist()
    assert all(row in whole for row in looked_up.to_pylist())


def test_a_look_up_reads_only_slices_that_can_hold_the_keys() -> None:
    found = opened("idx_rli_moves_mor_v6_0150")
    every = found.record_index._all_slices()
    chosen = found.record_index.slices(pa.array(["3"]))
    assert len(chosen) == 1 < len(every)


def test_positions_are_those_of_the_base_file_and_null_for_rows_of_logs() -> None:
    found = opened("mrg_event_mor_v9_120", metadata=False)
    rows = all_keys(found).to_pylist()
    assert any(row["position"] is not None for row in rows)
    assert any(row["position"] is None for row in rows)


def test_null_keys_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="never null"):
        opened("mrg_event_mor_v9_120").record_index.tag(pa.array(["1", None]))


def test_a_filter_on_the_key_finds_keys_that_stand_twice_although_the_index_knows_one_place() -> None:
    found = opened("dups_insert_cow_v6_0150")
    keys = found.scan(columns=["_hoodie_record_key"]).to_arrow().column(0).to_pylist()
    twice = next(key for key in keys if keys.count(key) > 1)
    filtered = found.scan(filter=f"_hoodie_record_key = '{twice}'").to_arrow()
    assert filtered.num_rows == keys.count(twice)


class TestHashedTables:
    """How keys are hashed is written down nowhere; a guess that fits by chance would lose rows."""

    FIELDS = pa.schema([("a", pa.string()), ("b", pa.string()), ("p", pa.string())])

    def hashed(self, folder: Path, rows: list[dict[str, str]], *, buckets: int, by: str = "a,b") -> headwater.Table:
        """A table as Hudi leaves it: its properties say nothing of the buckets."""
        said = {"hoodie.bucket.index.hash.field": by}
        shape: dict[str, Any] = {"key": ["a", "b"], "partition_by": "p", "index": {"bucket": buckets}}
        table = headwater.create(folder / "t", schema=self.FIELDS, properties=said, **shape)
        table.insert(rows)
        properties = folder / "t" / ".hoodie" / "hoodie.properties"
        properties.write_text(re.sub(r"hoodie\.(index|bucket)\..*\n", "", properties.read_text()))
        return headwater.open(folder / "t")

    @pytest.mark.parametrize(("partitions", "in_each"), [(1, 4), (24, 1)])
    def test_every_key_of_a_small_table_hashed_by_some_fields_is_found(
        self, tmp_path: Path, partitions: int, in_each: int
    ) -> None:
        for number in range(8):
            places = [f"p{at:02}" for at in range(partitions) for _ in range(in_each)]
            rows = [{"a": f"{number}x{at}", "b": str(at), "p": place} for at, place in enumerate(places)]
            table = self.hashed(tmp_path / str(number), rows, buckets=3, by="a")
            assert table.lookup([f"a:{row['a']},b:{row['b']}" for row in rows]).num_rows == len(rows)

    def test_the_number_of_buckets_is_found_out(self, tmp_path: Path) -> None:
        rows = [{"a": str(row), "b": "x", "p": "p"} for row in range(200)]
        table = self.hashed(tmp_path, rows, buckets=7)
        index = table.record_index
        assert index._bucket_count(index._all_slices()) == 7
        assert len(index.slices(pa.array(["a:5,b:x"]))) == 1
        assert table.lookup(["a:5,b:x"]).num_rows == 1
        (tmp_path / "t" / ".hoodie" / ".bucket_index" / "partition_bucket_index_meta").mkdir(parents=True)
        assert index._bucket_count(index._all_slices()) is None
