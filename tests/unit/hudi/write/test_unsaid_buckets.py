"""Bucket indexes of tables that Hudi made: nothing in the table says so, but the names of its file groups."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import headwater
from headwater.errors import InvalidArgument, UnsupportedTable
from headwater.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64())])
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}


@pytest.fixture
def hashed(tmp_path: Path) -> Table:
    """A table as Hudi leaves it: in buckets, and its properties say nothing of them."""
    table = headwater.create(tmp_path / "t", schema=SCHEMA, key="id", ordering="ts", index={"bucket": 2})
    table.insert([{"id": id, "ts": 1} for id in "abcdef"])
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    properties.write_text(re.sub(r"hoodie\.(index|bucket)\..*\n", "", properties.read_text()))
    return headwater.open(tmp_path / "t")


def test_a_write_that_does_not_say_the_index_is_refused(hashed: Table) -> None:
    with pytest.raises(InvalidArgument, match=r"hoodie\.bucket\.index\.num\.buckets"):
        hashed.upsert([{"id": "g", "ts": 1}])
    with pytest.raises(InvalidArgument, match="bucket index"):
        hashed.insert([{"id": "g", "ts": 1}])
    assert hashed.refresh().scan().count() == 6


def test_a_write_that_says_it_finds_every_key_in_its_bucket(hashed: Table) -> None:
    result = hashed.upsert([{"id": "a", "ts": 2}, {"id": "g", "ts": 1}], options=BUCKETS)
    assert (result.inserted, result.updated) == (1, 1)
    assert len({file.name[:8] for file in result.files} - {"00000000", "00000001"}) == 0


@pytest.mark.parametrize("options", [None, BUCKETS])
@pytest.mark.parametrize(
    ("folder", "says"), [("consistent_hashing_metadata", "consistently"), ("partition_bucket_index_meta", "differ")]
)
def test_other_hashing_is_refused(
    hashed: Table, tmp_path: Path, folder: str, says: str, options: dict[str, str] | None
) -> None:
    (tmp_path / "t" / ".hoodie" / ".bucket_index" / folder).mkdir(parents=True)
    with pytest.raises(UnsupportedTable, match=says):
        hashed.upsert([{"id": "g", "ts": 1}], options=options)
