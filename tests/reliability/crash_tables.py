"""The tables that writers die on, and what they were about to do: every operation of the public face.

A table has two partitions, file groups with base files and (merge on read) logs, and a metadata table with all indexes
that its version has.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from unittest import mock

import pyarrow as pa

import headwater
from headwater.hudi.metadata_table import services, writing
from headwater.hudi.table import HudiTable
from headwater.storage import Storage
from headwater.storage.faults import FaultyStorage, SimulatedCrash
from headwater.table import Table

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("city", pa.string()),
    ]
)
COLUMNS = SCHEMA.names
KINDS = ("cow", "mor")
VERSIONS = (6, 8, 9)

Row = tuple[object, ...]


def frame(ids: str, ts: int, name: str | None = None) -> pa.Table:
    """Rows with these keys; the first half of the alphabet lives in sf."""
    count = len(ids)
    cities = ["sf" if letter < "m" else "la" for letter in ids]
    columns = {"id": list(ids), "ts": [ts] * count, "name": [name] * count, "price": [ts / 2] * count, "city": cities}
    return pa.table(columns, schema=SCHEMA)


def indexes(version: int) -> tuple[str, ...]:
    """All that a table of this version can have."""
    return ("files", "column_stats", "bloom_filters", "record_index", *(("partition_stats",) if version >= 8 else ()))


def make(folder: Path, kind: str, version: int) -> None:
    """A table with a few commits, in both partitions, and with everything that a writer must keep in step."""
    table = headwater.create(
        folder, schema=SCHEMA, key="id", ordering="ts", partition_by="city", kind=kind, version=version, name="crash"
    )
    table.insert(frame("abcxy", 1, "one"))
    table.index.create(*indexes(version))
    table.upsert(frame("bqx", 2, "two"))


@cache
def made(kind: str, version: int, variant: str = "") -> Path:
    """Such a table, made once for all tests of a process: copy it, do not change it.

    `plain` has no metadata table, `maintained` one that the next write compacts and cleans; in `dead` a writer died
    right before its commit.
    """
    folder = Path(tempfile.mkdtemp(prefix="headwater-crash-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make(folder / "t", kind, version)
    if variant == "plain":
        headwater.open(folder / "t").index.drop()
    if variant == "maintained":
        with maintaining():
            for name in ("three", "four"):
                headwater.open(folder / "t").upsert(frame("bqx", 3, name))
    if variant == "dead":
        _die_before_the_commit(folder / "t")
    return folder / "t"


def _die_before_the_commit(path: Path) -> None:
    def write(storage: Storage) -> None:
        Table(HudiTable.open(storage)).upsert(frame("adxz", 4, "dead"))

    shutil.copytree(path, path.with_name("copy"))
    counting = FaultyStorage.over(Storage.at(path.with_name("copy")))
    write(counting)
    commits = [at for at, call in enumerate(counting.faults.calls) if re.match(r"create .*commit$", call)]
    with suppress(SimulatedCrash):
        write(FaultyStorage.over(Storage.at(path), at=commits[-1]))


@contextmanager
def maintaining() -> Iterator[None]:
    """Every write compacts the metadata table first, and cleans it."""
    always = mock.patch.object(writing, "maintain", partial(services.maintain, every=1))
    with always, mock.patch.object(services, "_worth", lambda writer, name: writer.slices(name)):
        yield


@dataclass(frozen=True)
class Operation:
    """What a writer was about to do."""

    name: str
    run: Callable[[Storage, str, int], object]
    """Given the storage, and what kind and version the table is or is to be."""
    may_end_later: bool = False
    """Whether the next writer ends what was begun: a rollback in the timeline is carried out, not taken back."""
    kinds: tuple[str, ...] = KINDS
    creates: bool = False
    maintains: bool = False
    """Whether the metadata table is compacted and cleaned on the way."""

    @property
    def variant(self) -> str:
        """What kind of table it is done on (`made`)."""
        return _VARIANTS.get(self.name, "")

    def start(self, storage: Storage, kind: str, version: int) -> object:
        if not self.maintains:
            return self.run(storage, kind, version)
        with maintaining():
            return self.run(storage, kind, version)


def _create(storage: Storage, kind: str, version: int) -> object:
    with mock.patch("headwater.table.Storage.at", return_value=storage):
        return headwater.create(
            storage.root,
            schema=SCHEMA,
            key="id",
            ordering="ts",
            partition_by="city",
            kind=kind,
            version=version,
            index="record_index",
            name="crash",
        )


def _merge(table: Table) -> object:
    changes = pa.concat_tables([frame("ab", 0, "gone"), frame("cx", 5, "five"), frame("ez", 5, "new")])
    return (
        table.merge(changes, on="id")
        .when_matched_delete(where="source.ts = 0")
        .when_matched_update(["ts", "name"])
        .when_not_matched_insert()
        .execute()
    )


def _opened(run: Callable[[Table], object]) -> Callable[[Storage, str, int], object]:
    return lambda storage, kind, version: run(Table(HudiTable.open(storage)))


def _on(name: str, run: Callable[[Table], object], **more: bool) -> Operation:
    return Operation(name, _opened(run), **more)  # type: ignore[arg-type]


def _partial(table: Table) -> object:
    return table.upsert(frame("ax", 5).select(["id", "ts", "price", "city"]), partial=True)


OPERATIONS = (
    Operation("create", _create, creates=True),
    _on("insert", lambda table: table.insert(frame("dz", 5, "new"))),
    _on("bulk_insert", lambda table: table.bulk_insert(frame("dz", 5, "new"), sort="global")),
    _on("upsert", lambda table: table.upsert(frame("axdz", 5, "five"))),
    _on("delete_by_key", lambda table: table.delete(["a", "x"])),
    _on("delete_by_filter", lambda table: table.delete(where="ts = 1")),
    _on("update", lambda table: table.update({"name": "set", "ts": 7}, where="ts < 2")),
    _on("insert_overwrite", lambda table: table.insert_overwrite(frame("ae", 5, "over"))),
    _on("overwrite", lambda table: table.overwrite(frame("awz", 5, "over"))),
    _on("delete_partitions", lambda table: table.delete_partitions(["la"])),
    _on("merge", _merge),
    Operation("partial_update", _opened(_partial), kinds=("mor",)),
    _on("index_create", lambda table: table.index.create(*indexes(table.version))),
    _on("index_drop", lambda table: table.index.drop("record_index")),
    _on("index_drop_all", lambda table: table.index.drop()),
    _on("index_rebuild", lambda table: table.index.rebuild()),
    _on("rollback", lambda table: table.rollback(table.hudi.timeline.commits[-1].requested_at), may_end_later=True),
    _on("upsert_after_a_death", lambda table: table.upsert(frame("axdz", 5, "five"))),
    _on("upsert_compacting", lambda table: table.upsert(frame("axdz", 5, "five")), maintains=True),
)
"""One for each operation of the public face; where indexes are made, the table has none before."""
_VARIANTS = {"index_create": "plain", "upsert_compacting": "maintained", "upsert_after_a_death": "dead"}
BY_NAME = {operation.name: operation for operation in OPERATIONS}
