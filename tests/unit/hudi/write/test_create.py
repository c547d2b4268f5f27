"""New tables: the same properties and folders as Hudi's, and what is refused."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests import places

import headwater
from headwater.errors import HeadwaterError, InvalidArgument, TableExists
from headwater.hudi.properties import PROPERTIES_FILE, KeyGenerator, load_config, parse_java_properties
from headwater.hudi.write.create import create_table
from headwater.hudi.write.properties_file import render_java_properties, update_table_properties
from headwater.storage import Storage
from headwater.storage.faults import FaultyStorage, SimulatedCrash

SCHEMA = pa.schema(
    [("id", pa.int32()), ("name", pa.string()), ("price", pa.float64()), ("ts", pa.int64()), ("city", pa.string())]
)

# Hudi does not keep them for a custom key generator, and then needs to be given them with every write.
TIMESTAMPS = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
}


def create(storage: Storage, **changes: Any) -> None:
    given: dict[str, Any] = {
        "name": "t",
        "schema": SCHEMA,
        "record_key": ["id"],
        "ordering": ["ts"],
        "partition_by": ["city"],
    }
    create_table(storage, **{**given, **changes})


REAL = [
    ("mrg_event_mor_v9_120", {"version": 9, "kind": "mor", "hive_style": True}),
    ("mrg_commit_mor_v9_111", {"version": 9, "kind": "mor", "hive_style": True, "merge_mode": "commit_time"}),
    ("rb_done_cow_v9_120", {"version": 9, "kind": "cow", "hive_style": True, "partition_by": []}),
    ("kg_customstr_cow_v9_120", {"version": 9, "partition_by": ["city:simple", "ev:timestamp"]}),
    ("kg_complex2_mor_v9_120", {"version": 9, "kind": "mor", "record_key": ["id", "name"]}),
    ("evo_types_mor_v8_102", {"version": 8, "kind": "mor", "hive_style": True, "partition_by": []}),
    ("nbcc_commit_mor_v8_102", {"version": 8, "kind": "mor", "partition_by": [], "merge_mode": "commit_time"}),
    ("mrg_commit_mor_v6_0150", {"version": 6, "kind": "mor", "hive_style": True, "merge_mode": "commit_time"}),
    ("idx_bucket_mor_v6_0150", {"version": 6, "kind": "mor", "hive_style": True}),
    ("dups_insert_cow_v6_0150", {"version": 6, "partition_by": []}),
]
OURS_ALONE = {"hoodie.table.create.schema", "hoodie.datasource.write.partitionpath.field"}
"""Hudi writes the schema where SQL created the table."""
HUDIS_ALONE = {"hoodie.table.partition_extractor_class", "hoodie.table.legacy.payload.class"}
"""For syncing to a catalog, and for going back to the payload that was given."""
OF_LOGS = {"hoodie.compaction.payload.class", "hoodie.compaction.record.merger.strategy"}
"""0.15.0 notes them for merge-on-read only; who reads a table wants to know of each how it merges."""
GIVEN = {
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.table.checksum",
    "hoodie.table.name",
}


@pytest.mark.parametrize(("real", "given"), REAL)
def test_properties_are_those_of_a_table_made_by_hudi(tmp_path: Path, real: str, given: dict[str, Any]) -> None:
    text = places.files(f"generated/{real}", lambda path: path == PROPERTIES_FILE)[PROPERTIES_FILE].decode()
    theirs = parse_java_properties(text)
    if "kg_" in real:
        given = {**given, "schema": SCHEMA.append(pa.field("ev", pa.string())).append(pa.field("region", pa.string()))}
    if real == "kg_complex2_mor_v9_120":
        given["partition_by"] = ["city", "region"]
    create(Storage.at(tmp_path), properties=TIMESTAMPS if "customstr" in real else {}, **given)
    ours = parse_java_properties((tmp_path / PROPERTIES_FILE).read_text())
    for values in (ours, theirs):
        for key in OURS_ALONE | HUDIS_ALONE | GIVEN | {*TIMESTAMPS} | (OF_LOGS if "cow_v6" in real else set()):
            values.pop(key, None)
    assert ours == theirs


@pytest.mark.parametrize("version", [6, 8, 9])
def test_an_empty_table_is_read_with_its_columns(tmp_path: Path, version: int) -> None:
    create(Storage.at(tmp_path / "t"), version=version)
    table = headwater.open(tmp_path / "t")
    read = table.scan().to_arrow()
    assert read.num_rows == 0
    assert [name for name in read.column_names if not name.startswith("_hoodie")] == SCHEMA.names


@pytest.mark.parametrize("version", [6, 9])
def test_folders_are_hudis(tmp_path: Path, version: int) -> None:
    create(Storage.at(tmp_path), version=version)
    real = f"generated/{'mrg_commit_mor_v6_0150' if version == 6 else 'mrg_event_mor_v9_120'}"
    with_data = {path.split("/")[1] for path in places.files(real, lambda path: path.startswith(".hoodie/"))}
    made = {path.name for path in (tmp_path / ".hoodie").iterdir()}
    assert made >= {name for name in with_data if not name[0].isdigit()}


def test_the_key_generator_is_found_from_the_columns(tmp_path: Path) -> None:
    wide = SCHEMA.append(pa.field("ev", pa.int64()))
    cases: list[tuple[dict[str, Any], KeyGenerator]] = [
        ({}, KeyGenerator.SIMPLE),
        ({"partition_by": []}, KeyGenerator.NON_PARTITION),
        ({"record_key": ["id", "name"]}, KeyGenerator.COMPLEX),
        ({"record_key": [], "ordering": []}, KeyGenerator.SIMPLE),
        ({"key_generator": "complex"}, KeyGenerator.COMPLEX),
        ({"key_generator": "org.apache.hudi.keygen.ComplexAvroKeyGenerator"}, KeyGenerator.COMPLEX),
        ({"partition_by": ["city:SIMPLE"]}, KeyGenerator.CUSTOM),
        (
            {"schema": wide, "partition_by": ["ev"], "key_generator": "timestamp", "properties": TIMESTAMPS},
            KeyGenerator.TIMESTAMP,
        ),
    ]
    for number, (given, expected) in enumerate(cases):
        for version in (6, 8, 9):
            storage = Storage.at(tmp_path / f"{number}_{version}")
            create(storage, version=version, **given)
            assert load_config(storage).key_generator is expected, (given, version)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"version": 7}, "versions 6, 8, 9"),
        ({"kind": "both"}, "copy on write"),
        ({"name": ""}, "cannot be a table's name"),
        ({"record_key": ["nope"]}, "no column 'nope'"),
        ({"record_key": "id"}, "list of columns"),
        ({"ordering": ["id", "id"]}, "twice"),
        ({"ordering": [], "merge_mode": "event_time"}, "needs ordering"),
        ({"ordering": ["ts", "price"], "version": 8}, "one ordering column"),
        ({"merge_mode": "magic"}, "event_time, commit_time"),
        ({"key_generator": "magic"}, "one of simple"),
        ({"key_generator": "timestamp"}, "timestamp.type"),
        ({"partition_by": ["city:LATER"]}, "SIMPLE or TIMESTAMP"),
        ({"schema": pa.schema([("_hoodie_record_key", pa.string())])}, "Hudi's own columns"),
        ({"schema": pa.schema([("a", pa.string()), ("A", pa.string())])}, "differ in case"),
        ({"schema": pa.schema([])}, "at least one column"),
        ({"schema": pa.schema([("id", pa.list_(pa.int32())), ("ts", pa.int32()), ("city", pa.string())])}, "plain"),
        ({"properties": {"hoodie.table.version": "6"}}, "give name= and version="),
        ({"properties": {"hoodie.table.timeline.timezone": "MOON"}}, "LOCAL, UTC"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    with pytest.raises(HeadwaterError, match=told):
        create(Storage.at(tmp_path / "t"), **given)
    assert not (tmp_path / "t").exists()


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    create(Storage.at(tmp_path / "table"))
    with pytest.raises(TableExists, match="a table already"):
        create(Storage.at(tmp_path / "table"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "part-0.parquet").write_bytes(b"")
    with pytest.raises(TableExists, match="part-0"):
        create(Storage.at(tmp_path / "other"))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TableExists, match="is a file"):
        create(Storage.at(tmp_path / "file"))


def test_a_crash_leaves_no_table_or_a_whole_one_and_creating_works_again(tmp_path: Path) -> None:
    counting = FaultyStorage.over(Storage.at(tmp_path / "counted"))
    create(counting)
    for fault in ("before", "after"):
        for number in range(len(counting.faults.calls)):
            storage = Storage.at(tmp_path / f"{fault}{number}")
            with pytest.raises(SimulatedCrash):
                create(FaultyStorage.over(storage, at=number, fault=fault))
            if storage.find(PROPERTIES_FILE) is None:
                create(storage)
            assert load_config(storage).name == "t"


def test_java_escapes_come_back(tmp_path: Path) -> None:
    values = {"a key": " lead = : # ! \\ \t \n end ", "ü": "naïve 日本 🙂"}
    assert parse_java_properties(render_java_properties(values, "t").decode()) == values


@pytest.mark.parametrize("fault", ["before", "after"])
def test_changed_properties_are_the_old_ones_or_the_new_after_a_crash(tmp_path: Path, fault: str) -> None:
    for number in range(3):
        storage = Storage.at(tmp_path / str(number))
        create(storage)
        with pytest.raises(SimulatedCrash):
            update_table_properties(
                FaultyStorage.over(storage, at=number, fault=fault),  # type: ignore[arg-type]
                {"hoodie.table.metadata.partitions": "files"},
            )
        assert load_config(storage).metadata_partitions in ((), ("files",))
        update_table_properties(storage, {"hoodie.table.metadata.partitions": None, "x": "y"})
        assert load_config(storage).metadata_partitions == ()
        assert load_config(storage).properties["x"] == "y"


def test_a_custom_generator_of_version_6_keeps_the_kinds_beside_the_names(tmp_path: Path) -> None:
    create(Storage.at(tmp_path), version=6, partition_by=["city:simple"])
    values = load_config(Storage.at(tmp_path)).properties
    assert values["hoodie.table.partition.fields"] == "city"
    assert values["hoodie.datasource.write.partitionpath.field"] == "city:SIMPLE"


def test_a_type_that_avro_does_not_have_is_refused(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("x", pa.month_day_nano_interval()))
    with pytest.raises(HeadwaterError):
        create(Storage.at(tmp_path / "t"), schema=schema)
    assert not (tmp_path / "t").exists()
    assert issubclass(InvalidArgument, ValueError)


@pytest.mark.parametrize("fault", ["after", "failed"])
def test_the_first_write_makes_the_record_index_where_creating_the_table_did_not_get_so_far(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FaultyStorage.over(Storage.at(tmp_path), at=20, fault=fault, times=100)  # type: ignore[arg-type]
    monkeypatch.setattr("headwater.table.Storage.at", lambda path, filesystem=None: storage)
    with contextlib.suppress(SimulatedCrash):
        headwater.create(tmp_path, schema=pa.schema([("id", pa.string())]), key="id", index="record_index")
    monkeypatch.undo()
    table = headwater.open(tmp_path)
    assert table.index.names == ()
    table.upsert([{"id": "a"}])
    assert table.index.names == ("files", "record_index")
    assert table.lookup(["a"], columns=["id"]).to_pylist() == [{"id": "a"}]


def test_an_answer_that_was_lost_is_no_other_table(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string())])
    counting = FaultyStorage.over(Storage.at(tmp_path / "counted"))
    create_table(counting, name="t", schema=schema, record_key=["id"])
    last = counting.faults.calls.index("create .hoodie/hoodie.properties")
    storage = FaultyStorage.over(Storage.at(tmp_path / "t"), at=last, fault="lost")
    create_table(storage, name="t", schema=schema, record_key=["id"])
    with pytest.raises(TableExists):
        create_table(Storage.at(tmp_path / "t"), name="t", schema=schema, record_key=["id"])
