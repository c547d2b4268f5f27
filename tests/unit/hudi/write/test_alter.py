"""ALTER TABLE: names, places and types of columns change, and stored rows are read as before, in every version."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater
from headwater.errors import ColumnNotFound, WriteRefused
from headwater.hudi.table import HudiTable
from headwater.hudi.write import alter
from headwater.hudi.write.alter import AddColumn, Change, ChangeColumn, DropColumn, Place, RenameColumn, alter_columns
from headwater.verify import verify

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("qty", pa.int32()),
        ("price", pa.float32()),
        ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("tags", pa.list_(pa.struct([("x", pa.int32())]))),
    ]
)
EVERY = [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")]


def row(key: str, ts: int = 1, **columns: Any) -> dict[str, Any]:
    return {
        "id": key,
        "ts": ts,
        "qty": 1,
        "price": 1.5,
        "st": {"a": 1, "b": "x"},
        "tags": [{"x": 1}],
        **columns,
    }


@pytest.fixture(params=EVERY, ids=[f"v{version}-{kind}" for version, kind in EVERY])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> headwater.Table:
    version, kind = request.param
    made = headwater.create(tmp_path / "t", schema=SCHEMA, key="id", ordering="ts", kind=kind, version=version)
    made.insert([row("a"), row("b")])
    return made


def change(table: headwater.Table, *changes: Change) -> headwater.Table:
    alter_columns(table.hudi, changes)
    return table.refresh()


def rows(table: headwater.Table, *columns: str) -> list[dict[str, Any]]:
    found = table.scan(columns=["id", *columns]).to_arrow().sort_by("id").to_pylist()
    assert verify(table).ok
    return found


def test_added_columns_are_plain_evolution(table: headwater.Table) -> None:
    table = change(
        table,
        AddColumn(("note",), pa.string(), comment="why", place=Place("id")),
        AddColumn(("first",), pa.int16(), place=Place()),
        AddColumn(("st", "c"), pa.date32()),
        ChangeColumn(("qty",), type=pa.int64()),
        ChangeColumn(("qty",), comment="pieces"),
    )
    assert table.schema.names[5:] == ["first", "id", "note", "ts", "qty", "price", "st", "tags"]
    assert table.hudi.schema.internal is None
    docs = {field["name"]: field.get("doc") for field in (table.hudi.schema.avro or {})["fields"]}
    assert (docs["note"], docs["qty"], docs["id"]) == ("why", "pieces", None)
    table.upsert([row("b", 2, note="new", qty=2**40, st={"a": 2, "b": "y", "c": date(2026, 1, 1)})])
    assert rows(table, "note", "qty") == [{"id": "a", "note": None, "qty": 1}, {"id": "b", "note": "new", "qty": 2**40}]


def test_renamed_and_dropped_columns_keep_the_stored_rows(table: headwater.Table) -> None:
    table = change(table, RenameColumn(("price",), "cost"), RenameColumn(("st", "b"), "bb"))
    table = change(table, DropColumn(("qty",)), RenameColumn(("tags", "element", "x"), "y"))
    assert table.schema.names[5:] == ["id", "ts", "cost", "st", "tags"]
    expected = {"cost": 1.5, "st": {"a": 1, "bb": "x"}, "tags": [{"y": 1}]}
    assert rows(table, "cost", "st", "tags") == [{"id": "a", **expected}, {"id": "b", **expected}]
    changed = {"cost": 9.5, "st": {"a": 2, "bb": "z"}, "tags": [{"y": 2}]}
    table.upsert([{"id": "b", "ts": 2, **changed}, {"id": "c", "ts": 2, **changed}])
    assert rows(table, "cost", "st", "tags") == [
        {"id": "a", **expected},
        {"id": "b", **changed},
        {"id": "c", **changed},
    ]
    # A name that comes again is another column.
    table = change(table, AddColumn(("qty",), pa.string()), AddColumn(("price",), pa.float64()))
    table.upsert([{"id": "c", "ts": 3, **changed, "qty": "many", "price": 2.5}])
    assert rows(table, "qty", "price", "cost") == [
        {"id": "a", "qty": None, "price": None, "cost": 1.5},
        {"id": "b", "qty": None, "price": None, "cost": 9.5},
        {"id": "c", "qty": "many", "price": 2.5, "cost": 9.5},
    ]
    table.delete(where="cost = 1.5")
    assert [one["id"] for one in rows(table)] == ["b", "c"]


def test_types_that_names_alone_cannot_follow(table: headwater.Table) -> None:
    table = change(table, ChangeColumn(("qty",), type=pa.string()), ChangeColumn(("price",), type=pa.float64()))
    table.upsert([row("b", 2, qty="two", price=2.25)])
    assert rows(table, "qty", "price") == [
        {"id": "a", "qty": "1", "price": 1.5},
        {"id": "b", "qty": "two", "price": 2.25},
    ]


def test_the_past_keeps_its_columns(table: headwater.Table) -> None:
    before = table.hudi.timeline.commits[-1].requested_at
    table = change(table, RenameColumn(("price",), "cost"))
    assert "price" in table.scan(as_of=before).to_arrow().column_names


def test_files_are_those_that_hudi_writes(table: headwater.Table) -> None:
    table = change(table, RenameColumn(("price",), "cost"))
    hudi = table.hudi
    instant = hudi.timeline.commits[-1]
    assert instant.action == ("deltacommit" if hudi.config.is_merge_on_read else "commit")
    assert hudi.timeline.metadata(instant).operation == "ALTER_SCHEMA"
    latest = json.loads(hudi.timeline.extra(instant)["latest_schema"])
    assert latest["version_id"] == int(instant.requested_at)
    assert [(field["id"], field["name"]) for field in latest["fields"]][4:9] == [
        (4, "_hoodie_file_name"),
        (5, "id"),
        (6, "ts"),
        (7, "qty"),
        (8, "cost"),
    ]
    assert latest["fields"][9]["type"]["fields"][0] == {"id": 11, "name": "a", "optional": True, "type": "long"}
    assert latest["fields"][10]["type"]["element_id"] == 13
    names = sorted(entry.name for entry in hudi.storage.list(".hoodie/.schema"))
    stem = instant.requested_at
    assert names[:2] == [f"{stem}.schemacommit", f"{stem}.schemacommit.inflight"] or names[:2] == [
        f"{stem}.schemacommit.inflight",
        f"{stem}.schemacommit.requested",
    ]
    history = next(name for name in names if name.endswith(".schemacommit"))
    assert ("_" in history) == (hudi.config.layout == 2)
    schemas = json.loads(hudi.storage.read_bytes(f".hoodie/.schema/{history}"))["schemas"]
    assert [schema["version_id"] for schema in schemas] == [int(stem), 0]
    assert schemas[0] == latest


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (RenameColumn(("id",), "key"), "record key"),
        (DropColumn(("ts",)), "ordering"),
        (ChangeColumn(("id",), type=pa.binary()), "record key"),
        (DropColumn(("_hoodie_file_name",)), "Hudi's own"),
        (RenameColumn(("qty",), "PRICE"), "already"),
        (RenameColumn(("qty",), "a b"), "begins with a letter"),
        (AddColumn(("qty",), pa.int32()), "already"),
        (AddColumn(("new",), pa.int32(), nullable=False), "NOT NULL"),
        (ChangeColumn(("price",), type=pa.int32()), "cannot become"),
        (ChangeColumn(("qty",), nullable=False), "may be null"),
        (ChangeColumn(("st",), type=pa.string()), "field by field"),
    ],
)
def test_what_would_corrupt_is_refused(tmp_path: Path, wanted: Change, message: str) -> None:
    made = headwater.create(tmp_path / "t", schema=SCHEMA, key="id", ordering="ts")
    with pytest.raises(WriteRefused, match=message):
        alter_columns(made.hudi, [wanted])
    assert not made.refresh().hudi.timeline.commits


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    made = headwater.create(tmp_path / "t", schema=SCHEMA, key="id")
    with pytest.raises(ColumnNotFound, match="no column nothing; there are: id, ts"):
        alter_columns(made.hudi, [DropColumn(("nothing",))])
    with pytest.raises(ColumnNotFound, match="behind 'nothing'"):
        alter_columns(made.hudi, [AddColumn(("new",), pa.int32(), place=Place("nothing"))])
    assert alter_columns(made.hudi, [DropColumn(("nothing",), if_exists=True)]) is None


def test_an_alter_that_dies_leaves_no_history(table: headwater.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        """As if the process were gone: nothing is tidied up."""

    def die(*given: object, **named: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(alter.Transaction, "complete", die)
        patched.setattr(alter.Transaction, "abort", lambda write: write._lock.forget())
        with pytest.raises(Killed):
            change(table, RenameColumn(("price",), "cost"))
    storage = table.hudi.storage
    assert storage.list(".hoodie/.schema")
    assert "price" in HudiTable.open(storage).schema.arrow.names
    table = table.refresh()
    table.upsert([row("c")])
    assert not storage.list(".hoodie/.schema")
    assert [one["price"] for one in rows(table, "price")] == [1.5, 1.5, 1.5]
