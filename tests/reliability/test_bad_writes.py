"""What people and disks do wrong when tables are written: a typed error that says what to do, not a byte changed."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.reliability.crash_walk import check_clean, verified

import headwater
from headwater.errors import (
    ColumnNotFound,
    DuplicateKeys,
    HeadwaterError,
    OutcomeUnknown,
    StorageError,
    TableExists,
    TableNotFound,
    WriteRefused,
)
from headwater.hudi.table import HudiTable
from headwater.storage import Storage
from headwater.storage.faults import FaultyStorage
from headwater.table import Table

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("city", pa.string()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int32())])),
    ]
)
# What an error proposes, or the names to choose from.
TO_DO = re.compile(
    r"\b(give|leave|cast|change|use|open it|create the|they have|the columns are|name columns|check|try again)\b",
    re.IGNORECASE,
)
KINDS = [("cow", 6), ("mor", 6), ("mor", 9)]
every_kind = pytest.mark.parametrize(("kind", "version"), KINDS)


def row(id: str | None, **changes: Any) -> dict[str, Any]:
    return {"id": id, "ts": 5, "city": "sf", "price": 1.0, "tags": ["t"], "place": {"x": 1}, **changes}


def make(folder: Path, kind: str, version: int, **more: Any) -> headwater.Table:
    table = headwater.create(
        folder, schema=SCHEMA, key="id", ordering="ts", partition_by="city", kind=kind, version=version, **more
    )
    table.insert(pa.Table.from_pylist([row("a", ts=1), row("b", ts=1, city="la")], schema=SCHEMA))
    table.index.create("files", "column_stats")
    return headwater.open(folder)


def digest(folder: Path) -> dict[str, str]:
    """Every file and folder, and what is in it; the lock's claims come and go."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not name.startswith(".hoodie/.locks"):
            found[name] = "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def refused(folder: Path, call: Callable[[], Any], kind: type[HeadwaterError], says: str) -> None:
    """Asserts that the call is refused in words, and that nothing was written."""
    before = digest(folder)
    with pytest.raises(HeadwaterError, match=says) as caught:
        call()
    assert isinstance(caught.value, kind), repr(caught.value)
    assert TO_DO.search(str(caught.value)), str(caught.value)
    assert digest(folder) == before


def merge(table: headwater.Table, rows: Any) -> Any:
    return table.merge(rows, on="id").when_matched_update().when_not_matched_insert().execute()


OPERATIONS: dict[str, Callable[[headwater.Table, Any], Any]] = {
    "insert": lambda table, rows: table.insert(rows),
    "bulk_insert": lambda table, rows: table.bulk_insert(rows),
    "upsert": lambda table, rows: table.upsert(rows),
    "insert_overwrite": lambda table, rows: table.insert_overwrite(rows),
    "overwrite": lambda table, rows: table.overwrite(rows),
    "merge": merge,
}


def typed(rows: list[dict[str, Any]], **types: pa.DataType) -> pa.Table:
    """Rows in the table's columns, but for some types."""
    fields = [pa.field(field.name, types.get(field.name, field.type)) for field in SCHEMA]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


BAD_ROWS: dict[str, tuple[pa.Table, type[HeadwaterError], str]] = {
    "a null key": (typed([row("x"), row(None)]), WriteRefused, "no record key"),
    "an empty key": (typed([row("")]), WriteRefused, "no record key"),
    "a null partition": (typed([row("x", city=None)]), WriteRefused, "no city"),
    "a partition outside": (typed([row("x", city="../elsewhere")]), WriteRefused, "no folder of its own"),
    "a null ordering value": (typed([row("x", ts=None)]), WriteRefused, "no ts"),
    "no key column": (typed([row("x")]).drop_columns(["id"]), ColumnNotFound, "id"),
    "no ordering column": (typed([row("x")]).drop_columns(["ts"]), ColumnNotFound, "ts"),
    "no partition column": (typed([row("x")]).drop_columns(["city"]), ColumnNotFound, "city"),
    "text for a number": (typed([row("x", price="much")], price=pa.string()), WriteRefused, "price"),
    "a number for a list": (typed([row("x", tags=1)], tags=pa.int32()), WriteRefused, "tags"),
    "a list for a struct": (typed([row("x", place=[1])], place=pa.list_(pa.int32())), WriteRefused, "place"),
    "a field of another type": (
        typed([row("x", place={"x": "one"})], place=pa.struct([("x", pa.string())])),
        WriteRefused,
        "place",
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("case", BAD_ROWS)
@every_kind
def test_rows_that_cannot_be_stored(kind: str, version: int, case: str, operation: str, tmp_path: Path) -> None:
    table = make(tmp_path, kind, version)
    rows, error, says = BAD_ROWS[case]
    if operation == "merge" and case in ("no ordering column", "no partition column"):
        pytest.skip("a merge takes what a source lacks from the target, or refuses it by its own rule")
    if operation == "merge":
        # The statement has errors of its own for columns that it cannot match or set.
        error, says = HeadwaterError, "id|no " if "key" in case else says
    refused(tmp_path, lambda: OPERATIONS[operation](table, rows), error, says)


@every_kind
def test_keys_that_are_there_twice_where_they_may_not_be(kind: str, version: int, tmp_path: Path) -> None:
    table = make(tmp_path, kind, version)
    stored, twice = typed([row("a")]), typed([row("x"), row("x", ts=6)])
    for rows in (stored, twice):
        refused(tmp_path, partial(table.insert, rows, if_present="fail"), DuplicateKeys, "'[ax]'")
    refused(tmp_path, lambda: merge(table, typed([row("a"), row("a", ts=6)])), HeadwaterError, "a")


@every_kind
def test_keys_to_delete_that_cannot_be(kind: str, version: int, tmp_path: Path) -> None:
    table = make(tmp_path, kind, version)
    refused(tmp_path, lambda: table.delete(pa.table({"name": ["a"]})), ColumnNotFound, "id")
    refused(tmp_path, lambda: table.delete(pa.table({"id": pa.array([None], pa.string())})), WriteRefused, "key")
    refused(tmp_path, lambda: table.delete(where="nothing = 1"), HeadwaterError, "nothing")


# ------------------------------------------------------------------------------------------------- what is there


def iceberg(folder: Path) -> str:
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "v1.metadata.json").write_text('{"format-version": 2}')
    (folder / "metadata" / "version-hint.text").write_text("1")
    (folder / "data").mkdir()
    pq.write_table(pa.table({"a": [1]}), folder / "data" / "0.parquet")
    return "Iceberg"


def delta(folder: Path) -> str:
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "_delta_log" / "00000000000000000000.json").write_text('{"protocol": {"minReaderVersion": 1}}')
    return "Delta"


def plain_parquet(folder: Path) -> str:
    folder.mkdir()
    pq.write_table(pa.table({"a": [1]}), folder / "part-0.parquet")
    return "part-0.parquet"


def another_table(folder: Path) -> str:
    make(folder, "cow", 9)
    return "there is a table already"


def no_table_of_a_table(folder: Path) -> str:
    make(folder, "cow", 6)
    (folder / ".hoodie" / "hoodie.properties").unlink()
    return "no .hoodie/hoodie.properties"


def something_else(folder: Path) -> str:
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    return "notes.txt"


OTHERS = (iceberg, delta, plain_parquet, another_table, no_table_of_a_table, something_else)


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.__name__)
def test_a_table_is_not_created_over_something_else(other: Callable[[Path], str], tmp_path: Path) -> None:
    says = other(tmp_path / "t")
    refused(tmp_path, lambda: headwater.create(tmp_path / "t", schema=SCHEMA, key="id"), TableExists, says)


@pytest.mark.parametrize("other", [o for o in OTHERS if o is not another_table], ids=lambda other: other.__name__)
def test_something_else_is_not_opened_to_be_written(other: Callable[[Path], str], tmp_path: Path) -> None:
    other(tmp_path / "t")
    refused(tmp_path, lambda: headwater.open(tmp_path / "t"), TableNotFound, "no Hudi table here")


# ---------------------------------------------------------------------------------------- disks that do not take it


@pytest.mark.parametrize("operation", OPERATIONS)
@every_kind
def test_a_table_that_may_not_be_written(kind: str, version: int, operation: str, tmp_path: Path) -> None:
    make(tmp_path, kind, version)
    before = digest(tmp_path)
    storage = FaultyStorage.over(Storage.at(tmp_path), at=0, fault="failed", times=10**9)
    rows = typed([row("x")])
    with pytest.raises(StorageError, match="failed on purpose") as caught:
        OPERATIONS[operation](Table(HudiTable.open(storage)), rows)
    assert not isinstance(caught.value, OutcomeUnknown)
    assert digest(tmp_path) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"NOT TESTED: no disk can be mounted here ({made.stderr.strip()}); run as root to test it")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def long_rows(count: int) -> pa.Table:
    return typed([row(f"k{n}", tags=[os.urandom(500).hex()]) for n in range(count)])


@every_kind
def test_a_disk_that_fills_up_leaves_the_table_as_it_was(kind: str, version: int, small_disk: Path) -> None:
    path = small_disk / "t"
    table = make(path, kind, version)
    expected = table.scan(columns=["id", "ts"]).to_arrow().sort_by("id")
    for operation in OPERATIONS:
        with pytest.raises(StorageError, match="No space left"):
            OPERATIONS[operation](headwater.open(path), long_rows(1500))
        for metadata in (True, False):
            found = headwater.open(path, metadata=metadata).scan(columns=["id", "ts"]).to_arrow().sort_by("id")
            assert found.equals(expected), operation
    # With room for it, the next write goes on.
    assert headwater.open(path).upsert(typed([row("a"), row("z")])).updated == 1
    assert headwater.open(path).scan().count() == 3
    check_clean(verified(path))


def fill(path: Path) -> None:
    with suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


@every_kind
def test_a_disk_without_a_byte_left_leaves_the_table_as_it_was(kind: str, version: int, small_disk: Path) -> None:
    path = small_disk / "t"
    make(path, kind, version)
    fill(small_disk / "filler")
    with pytest.raises(StorageError, match="No space left"):
        headwater.open(path).upsert(typed([row("a")]))
    assert headwater.open(path).scan().count() == 2
    (small_disk / "filler").unlink()
    assert headwater.open(path).upsert(typed([row("a")])).updated == 1
    check_clean(verified(path))


@every_kind
def test_a_disk_that_is_read_only(kind: str, version: int, small_disk: Path) -> None:
    path = small_disk / "t"
    make(path, kind, version)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for operation in OPERATIONS:
        table = headwater.open(path)
        refused(
            path, lambda do=OPERATIONS[operation], table=table: do(table, typed([row("x")])), StorageError, "Read-only"
        )
    refused(path, lambda: headwater.create(small_disk / "new", schema=SCHEMA, key="id"), StorageError, "Read-only")


LIMITED = """
import resource, sys
import headwater, pyarrow as pa
table = headwater.open(sys.argv[1])
rows = pa.table({"id": [str(n) for n in range(20000)], "ts": range(20000), "city": ["sf"] * 20000})
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    table.upsert(rows, partial=False)
except headwater.errors.StorageError as error:
    print("refused", error)
"""


@every_kind
def test_a_file_that_may_grow_no_longer(kind: str, version: int, tmp_path: Path) -> None:
    """A limit of the process, which needs no disk of its own."""
    table = make(tmp_path, kind, version)
    expected = table.scan(columns=["id", "ts"]).to_arrow().sort_by("id")
    told = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "refused" in told.stdout, told.stderr
    assert "too large" in told.stdout
    assert headwater.open(tmp_path).scan(columns=["id", "ts"]).to_arrow().sort_by("id").equals(expected)
    assert headwater.open(tmp_path).upsert(typed([row("a")])).updated == 1
    check_clean(verified(tmp_path))
