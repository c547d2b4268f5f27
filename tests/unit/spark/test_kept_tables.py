"""Tables that the driver's sidecar keeps open: used again while nothing changed, and never once something did."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater
from headwater.errors import TableNotFound
from headwater.hudi.table import HudiTable
from headwater.hudi.write.properties_file import update_table_properties
from headwater.hudi.write.transaction import begin
from headwater.spark.sidecar import definitions, kept_tables
from headwater.spark.sidecar.kept_tables import KeptTables, marks
from headwater.spark.sidecar.tables import OpenTable
from headwater.storage import Storage
from headwater.table import Table, create_table

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("city", pa.string())])
NOTE = "headwater.note"


def rows(ids: str, ts: int, name: str) -> pa.Table:
    cities = ["sf" if letter < "m" else "la" for letter in ids]
    return pa.table({"id": list(ids), "ts": [ts] * len(ids), "name": [name] * len(ids), "city": cities}, schema=SCHEMA)


def make(path: Path, *, version: int = 9, kind: str = "mor") -> Table:
    table = create_table(
        path,
        schema=SCHEMA,
        key="id",
        ordering="ts",
        partition_by="city",
        kind=kind,
        version=version,
        properties={NOTE: "a"},
    )
    table.insert(rows("abxy", 1, "first"))
    table.index.create("files")
    table.upsert(rows("ax", 2, "second"))
    return table


@pytest.fixture(params=[6, 9], ids=["v6", "v9"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make(tmp_path / "t", version=request.param)
    return tmp_path / "t"


def seen(opened: OpenTable) -> dict[str, Any]:
    """All that a query can find out, asked in the way that fills whatever a table keeps."""
    hudi = opened.table.hudi
    found = opened.scan.to_arrow().sort_by("id")
    return {
        "rows": found.to_pylist(),
        "schema": opened.schema,
        "described": opened.describe(),
        "partitions": [one.path for one in opened.partitions],
        "values": opened.partition_values.table.to_pylist(),
        "files": [task.slice for task in opened.scan.plan().tasks],
        "by metadata": hudi.metadata is not None,
        "definitions": None if hudi.metadata is None else hudi.metadata.definitions,
        "renames": hudi.history,
        "instants": hudi.timeline.instants,
    }


def fresh(path: Path, **options: str) -> dict[str, Any]:
    return seen(KeptTables().open(str(path), options, {}))


def alter(path: Path, **change: Any) -> None:
    definitions.alter({"path": str(path), "changes": [change]})


def undo(path: Path) -> None:
    table = headwater.open(path)
    table.rollback(table.hudi.timeline.commits[-1].requested_at)


def make_again(path: Path) -> None:
    shutil.rmtree(path)
    make(path)


def put_in_place(path: Path) -> None:
    """Another table with the very names and sizes of the old one's timeline, as a backup of it could have."""
    shutil.copytree(path, path.with_name("other"), copy_function=shutil.copyfile)
    for file in path.with_name("other").rglob("*"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    shutil.rmtree(path)
    path.with_name("other").rename(path)


def set_property(path: Path) -> None:
    """In place, with the same length and the same time: as a second change within a clock's tick would look."""
    file = path / ".hoodie" / "hoodie.properties"
    before = file.stat()
    text = file.read_text()
    assert f"{NOTE}=a" in text
    file.write_text(text.replace(f"{NOTE}=a", f"{NOTE}=b"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def begin_a_write(path: Path) -> None:
    begin(HudiTable.open(Storage.at(path)), "deltacommit", "UPSERT")


CHANGES: dict[str, Callable[[Path], object]] = {
    "insert": lambda path: headwater.open(path).insert(rows("q", 1, "new")),
    "insert into a new partition": lambda path: headwater.open(path).insert(
        rows("r", 1, "new").set_column(3, "city", pa.array(["nyc"]))
    ),
    "upsert": lambda path: headwater.open(path).upsert(rows("b", 3, "third")),
    "delete": lambda path: headwater.open(path).delete(where="id = 'a'"),
    "overwrite": lambda path: headwater.open(path).overwrite(rows("z", 1, "only")),
    "dropped partition": lambda path: headwater.open(path).delete_partitions(["la"]),
    "rollback": undo,
    "truncate": lambda path: definitions.truncate({"path": str(path)}),
    "property": lambda path: update_table_properties(Storage.at(path), {NOTE: "c"}),
    "property of the same length in the same tick": set_property,
    "new column": lambda path: alter(
        path, change="AddColumn", column=["more"], type="long", nullable=True, comment=None
    ),
    "new index": lambda path: headwater.open(path).index.create("column_stats"),
    "dropped metadata table": lambda path: headwater.open(path).index.drop(),
    "metadata table made anew": lambda path: headwater.open(path).index.rebuild(),
    "table made again": make_again,
    "table of the same names": put_in_place,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("metadata", ["true", "false"], ids=["by metadata", "by folders"])
def test_a_change_is_seen_by_the_next_query(path: Path, metadata: str, change: Callable[[Path], object]) -> None:
    tables, options = KeptTables(), {"metadata": metadata}
    before = tables.open(str(path), options, {})
    seen(before)
    change(path)
    after = tables.open(str(path), options, {})
    assert after.table.hudi is not before.table.hudi
    assert after.table.hudi.timeline is not before.table.hudi.timeline
    assert seen(after) == fresh(path, **options)


def test_a_table_that_did_not_change_is_the_one_that_is_open(path: Path) -> None:
    tables = KeptTables()
    first = tables.open(str(path), {}, {})
    found = seen(first)
    again = tables.open(f"file:{path}", {}, {"conf": {}})
    assert again is first
    assert seen(again) == found == fresh(path)


def test_reads_with_other_options_share_the_table_and_nothing_else(path: Path) -> None:
    tables = KeptTables()
    newest = tables.open(str(path), {}, {})
    seen(newest)
    first = newest.table.hudi.timeline.commits[0].requested_at
    old = tables.open(str(path), {"as-of": first}, {})
    assert old.table.hudi is newest.table.hudi
    assert {row["name"] for row in seen(old)["rows"]} == {"first"}
    assert {row["name"] for row in seen(newest)["rows"]} == {"first", "second"}
    optimized = tables.open(str(path), {}, {"conf": {"spark.headwater.read.mode": "read_optimized"}})
    assert optimized.options.mode == "read_optimized"
    assert tables.open(str(path), {}, {}) is newest
    assert tables.open(str(path), {"as-of": first}, {}) is old


def test_a_read_without_the_metadata_table_has_a_table_of_its_own(path: Path) -> None:
    tables = KeptTables()
    by_metadata = tables.open(str(path), {}, {})
    by_folders = tables.open(str(path), {"metadata": "false"}, {})
    assert by_metadata.table.hudi.metadata is not None
    assert by_folders.table.hudi.metadata is None


def test_folders_are_listed_anew_for_each_query_and_commits_are_not_read_again(path: Path) -> None:
    tables, options = KeptTables(), {"metadata": "false"}
    first = tables.open(str(path), options, {})
    assert len(seen(first)["rows"]) == 4
    for file in (path / "la").iterdir():
        file.unlink()  # no action of a table: nothing in the timeline shows it
    second = tables.open(str(path), options, {})
    assert len(seen(second)["rows"]) == 2
    assert second.table.hudi.timeline is first.table.hudi.timeline


def test_the_timeline_alone_shows_a_commit(path: Path) -> None:
    """Without a metadata table, whose own timeline would show most of them."""
    headwater.open(path).index.drop()
    tables = KeptTables()
    before = tables.open(str(path), {}, {})
    seen(before)
    shutil.copytree(path, path.with_name("later"))
    headwater.open(path.with_name("later")).insert(rows("q", 1, "new"))
    shutil.copy2(path / ".hoodie" / "hoodie.properties", path.with_name("later") / ".hoodie" / "hoodie.properties")
    shutil.rmtree(path)
    path.with_name("later").rename(path)
    after = tables.open(str(path), {}, {})
    assert after.table.hudi.timeline is not before.table.hudi.timeline
    assert len(seen(after)["rows"]) == 5


def test_a_write_that_has_begun_or_was_given_up_is_a_change(path: Path) -> None:
    tables = KeptTables()
    before = tables.open(str(path), {}, {})
    begin_a_write(path)
    begun = tables.open(str(path), {}, {})
    seen(begun)
    assert begun.table.hudi is not before.table.hudi
    assert not begun.table.hudi.timeline.instants[-1].is_completed
    assert tables.open(str(path), {}, {}) is begun


def test_the_metadata_table_alone_may_change(path: Path) -> None:
    tables = KeptTables()
    before = tables.open(str(path), {}, {})
    seen(before)
    found = [*(path / ".hoodie" / "metadata" / ".hoodie").rglob("*.deltacommit")]
    shutil.copyfile(found[-1], found[-1].with_name("99" + found[-1].name))
    assert tables.open(str(path), {}, {}).table.hudi is not before.table.hudi
    shutil.rmtree(path / ".hoodie" / "metadata")
    gone = tables.open(str(path), {}, {})
    assert gone.table.hudi.metadata is None
    assert len(seen(gone)["rows"]) == 4


def test_a_table_that_is_gone_is_not_found(path: Path) -> None:
    tables = KeptTables()
    tables.open(str(path), {}, {})
    shutil.rmtree(path)
    with pytest.raises(TableNotFound):
        tables.open(str(path), {}, {})


def test_nothing_is_kept_of_storage_that_tells_no_times(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Storage.list

    def without_times(self: Storage, folder: str, *, recursive: bool = False) -> list[Any]:
        return [replace(entry, modified_at=0) for entry in listed(self, folder, recursive=recursive)]

    tables = KeptTables()
    monkeypatch.setattr(Storage, "list", without_times)
    assert marks(Storage.at(path)) is None
    first = tables.open(str(path), {}, {})
    assert tables.open(str(path), {}, {}).table.hudi is not first.table.hudi
    assert len(seen(first)["rows"]) == 4


def test_nothing_is_kept_of_a_timeline_in_a_folder_of_its_own(tmp_path: Path) -> None:
    make(tmp_path / "t")
    update_table_properties(Storage.at(tmp_path / "t"), {"hoodie.timeline.path": "elsewhere"})
    (tmp_path / "t" / ".hoodie" / "timeline").rename(tmp_path / "t" / ".hoodie" / "elsewhere")
    tables, options = KeptTables(), {"metadata": "false"}
    assert len(seen(tables.open(str(tmp_path / "t"), options, {}))["rows"]) == 4
    headwater.open(tmp_path / "t").insert(rows("q", 1, "new"))
    assert len(seen(tables.open(str(tmp_path / "t"), options, {}))["rows"]) == 5


def test_few_tables_and_few_reads_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_tables, "_MOST_TABLES", 2)
    monkeypatch.setattr(kept_tables, "_MOST_READS", 2)
    tables = KeptTables()
    for name in "abc":
        make(tmp_path / name)
        for size in ("1m", "2m", "3m"):
            seen(tables.open(str(tmp_path / name), {"split-size": size}, {}))
    assert [key[0].rsplit("/", 1)[-1] for key in tables._kept] == ["b", "c"]
    assert [len(kept.reads) for kept in tables._kept.values()] == [2, 2]
