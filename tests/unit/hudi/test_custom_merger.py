"""Mergers of the user's own, and payload classes that nobody knows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.fixtures.suites import table

import headwater
from headwater.errors import UnknownMerger
from headwater.hudi.merge import custom

PAYLOAD = "com.example.LongestName"


class LongestName:
    """Keeps the version with the longer name; of equal ones the older."""

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        longer = pc.greater(pc.utf8_length(newer.column("name")), pc.utf8_length(older.column("name")))
        columns = [pc.if_else(longer, newer.column(n), older.column(n)) for n in older.column_names]
        return pa.Table.from_arrays(columns, names=older.column_names)


@pytest.fixture
def own_payload(tmp_path: Path) -> str:
    """A merge-on-read table whose properties name a payload class that is not Hudi's."""
    path = shutil.copytree(table("generated", "mrg_commit_mor_v6_120").path(), tmp_path / "t")
    properties = path / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "payload.class" not in line]
    properties.write_text("\n".join([*lines, f"hoodie.compaction.payload.class={PAYLOAD}"]) + "\n")
    return str(path)


@pytest.fixture
def registered() -> Iterator[None]:
    headwater.register_merger(PAYLOAD, LongestName())
    yield
    custom._REGISTERED.pop(PAYLOAD)


def test_an_unknown_payload_class_is_named_with_how_to_register_it(own_payload: str) -> None:
    with pytest.raises(UnknownMerger, match=r"com\.example\.LongestName.*register_merger"):
        headwater.open(own_payload).scan().to_arrow()


def test_reads_that_merge_nothing_need_no_merger(own_payload: str) -> None:
    assert headwater.open(own_payload).scan(mode="read_optimized").to_arrow().num_rows > 0


@pytest.mark.usefixtures("registered")
def test_a_merger_sees_whole_records_whatever_is_asked_for(own_payload: str) -> None:
    opened = headwater.open(own_payload)
    whole = opened.scan().to_arrow()
    assert sorted(opened.scan(columns=["id"]).to_arrow().column("id").to_pylist()) == sorted(whole["id"].to_pylist())
    assert opened.scan(columns=[]).count() == whole.num_rows


@pytest.mark.usefixtures("registered")
def test_a_registered_merger_decides_column_by_column_and_record_by_record(own_payload: str) -> None:
    opened = headwater.open(own_payload)
    base = {row["id"]: row["name"] for row in opened.scan(mode="read_optimized").to_arrow().to_pylist()}
    merged = {row["id"]: row["name"] for row in opened.scan().to_arrow().to_pylist()}
    both = base.keys() & merged.keys()
    assert both
    assert all(len(merged[key] or "") >= len(base[key] or "") for key in both)
    # The names of this table's versions are equally long, so the base rows stay where nothing was deleted.
    assert any(merged[key] == base[key] for key in both)


class Sum:
    """Adds the numbers up: what a merged row has stands in no file."""

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        return newer.set_column(newer.schema.get_field_index("x"), "x", pc.add(older["x"], newer["x"]))


def test_statistics_of_files_rule_out_no_value_that_a_merger_makes(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("x", pa.int64()), ("p", pa.string())])

    def rows(ids: str, x: int) -> pa.Table:
        count = len(ids)
        return pa.table({"id": list(ids), "ts": [x] * count, "x": [x] * count, "p": ["p"] * count}, schema=schema)

    made = headwater.create(tmp_path / "t", schema=schema, key="id", ordering="ts", partition_by="p", kind="mor")
    made.insert(rows("abc", 5))
    made.index.create("column_stats", "partition_stats")
    made.upsert(rows("ab", 7))
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "merge" not in line and "checksum" not in line]
    custom_merge = ["hoodie.record.merge.mode=CUSTOM", f"hoodie.compaction.payload.class={PAYLOAD}"]
    properties.write_text("\n".join([*lines, *custom_merge]) + "\n")
    headwater.register_merger(PAYLOAD, Sum())
    try:
        opened = headwater.open(tmp_path / "t")
        assert sorted(opened.scan().where("x > 10").to_arrow()["id"].to_pylist()) == ["a", "b"]
    finally:
        custom._REGISTERED.pop(PAYLOAD)
