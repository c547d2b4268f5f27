"""The tables that writers die on, and what they were about to do: every operation of the public face.

A table has two partitions, file groups with base files and (merge on read) logs, and a metadata table with all indexes
that its version has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pyarrow as pa

import headwater
from headwater.hudi.metadata_table import services, writing
from headwater.hudi.table import HudiTable
from headwater.storage import Storage
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

    def start(self, storage: Storage, kind: str, version: int) -> object:
        if not self.maintains:
            return self.run(storage, kind, version)
        with mock.patch.object(
            writing, "maintain", lambda writer, instant: services.maintain(writer, instant, every=1)
        ):
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
    _on("upsert_compacting", lambda table: table.upsert(frame("axdz", 5, "five")), maintains=True),
)
"""One for each operation of the public face; where indexes are made, the table has none before."""
BY_NAME = {operation.name: operation for operation in OPERATIONS}
