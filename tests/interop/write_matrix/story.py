"""The life of one table: what Headwater does to it at first, what Hudi does, what Headwater does then.

Every step changes the table and the model in the same way. Batches come from the story's own seed, so each release of
Hudi goes on with the same rows.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.interop.write_matrix.model import Model
from tests.interop.write_matrix.rows import Row, Rows, has_text_times
from tests.interop.write_matrix.specs import OPERATIONS, PAYLOADS, Spec, metadata_indexes

import headwater
from headwater.hudi.table import HudiTable
from headwater.hudi.write import operations
from headwater.storage import Storage
from headwater.storage.faults import FaultyStorage, SimulatedCrash

PARTITIONS = {
    "simple": ("part",),
    "complex": ("part",),
    "complex2": ("part",),
    "custom": ("part:SIMPLE", "ev:TIMESTAMP"),
    "timestamp": ("ev",),
    "none": (),
    "auto": ("part",),
}
GENERATORS = {"complex": "complex", "complex2": "complex", "custom": "custom", "timestamp": "timestamp"}
PACKAGE = "org.apache.hudi.common.model."
BUCKETS = 2
PATH_FIELDS = "hoodie.datasource.write.partitionpath.field"


def time_options(spec: Spec) -> dict[str, str]:
    """How paths are made of times, where they are."""
    if spec.keys not in ("timestamp", "custom"):
        return {}
    options = {"output.dateformat": "yyyyMMdd", "timezone": "UTC", "timestamp.type": "EPOCHMILLISECONDS"}
    if has_text_times(spec):
        options |= {"timestamp.type": "DATE_STRING", "input.dateformat": "yyyy-MM-dd HH:mm:ss"}
    return {f"hoodie.keygen.timebased.{name}": value for name, value in options.items()}


ToFrame = Callable[[Rows, list[Row]], Any]


class Story:
    """One table on its way; `copied` goes on elsewhere, from the same state."""

    def __init__(self, name: str, spec: Spec, path: Path, seed: int, frame: ToFrame | None = None) -> None:
        self.name = name
        self.spec = spec
        self.path = path
        self.rows = Rows(spec, seed)
        self.model = Model(spec, self.rows.key_columns)
        self.frame = frame
        """Makes a Spark frame of rows, for tables that are written through Spark."""
        self.is_made_by_hudi = False

    def copied(self, path: Path) -> Story:
        shutil.copytree(self.path, path)
        story = copy.copy(self)
        story.path, story.frame = path, None
        story.rows, story.model = copy.deepcopy(self.rows), copy.deepcopy(self.model)
        return story

    @property
    def table(self) -> headwater.Table:
        return headwater.open(self.path)

    @property
    def model_is_exact(self) -> bool:
        """Payloads fold log records by ordering values first, and Hudi does not keep them with copy-on-write tables."""
        return not ((self.spec.is_merge_on_read or self.is_made_by_hudi) and self.spec.merge in PAYLOADS)

    # ------------------------------------------------------------------------------------------------- what we do

    def create(self) -> None:
        spec = self.spec
        properties = time_options(spec)
        if spec.merge in PAYLOADS:
            properties["hoodie.compaction.payload.class"] = PACKAGE + PAYLOADS[spec.merge]
        if spec.changes == "yes":
            mode = "data_before_after" if spec.version == 6 else "DATA_BEFORE_AFTER"
            properties |= {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": mode}
        headwater.create(
            self.path,
            schema=self.rows.schema,
            key=() if spec.keys == "auto" else self.rows.key_columns,
            ordering=spec.ordering,
            partition_by=PARTITIONS[spec.keys],
            kind=spec.kind,
            version=spec.version,
            merge="commit_time" if spec.merge in ("commit", "latest", "nondefaults") else None,
            index={"bucket": BUCKETS} if spec.index == "bucket" else spec.index if spec.keys != "auto" else None,
            name=self.name,
            key_generator=GENERATORS.get(spec.keys),
            hive_style="hive" in spec.style,
            url_encode="encoded" in spec.style,
            properties=properties,
        )

    def begin(self) -> None:
        """Create the table, and do all of its operations."""
        self.create()
        if self.spec.metadata_from == "start":
            self._index()
        for number, operation in enumerate(OPERATIONS[self.spec.operations]):
            if number == 2 and self.spec.metadata_from == "later":
                self._index()
            getattr(self, f"_{operation}")()
        if self.spec.failure == "ours":
            self._die()

    def go_on(self) -> None:
        """Write once more, after Hudi did: updates, rows with late ordering values, new rows, and deletes."""
        if self.spec.keys == "auto":
            self._insert()
            self._delete_where()
            return
        self._upsert()
        self._delete_keys()

    def _index(self) -> None:
        names = metadata_indexes(self.spec)
        if names:
            self.table.index.create(*names)

    @property
    def _options(self) -> Mapping[str, str]:
        options = {}
        if self.spec.is_merge_on_read and self.spec.log != "default":
            options["hoodie.logfile.data.block.format"] = self.spec.log
        if self.is_made_by_hudi and self.spec.index == "bucket":
            # Hudi leaves it to each writer to know the buckets; tables that we make say so.
            options |= {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": str(BUCKETS)}
        if self.is_made_by_hudi and self.spec.keys in ("custom", "timestamp"):
            # 0.15.0 does not keep in the table how its paths are made, later releases not for a custom key generator.
            options |= {**time_options(self.spec), PATH_FIELDS: ",".join(PARTITIONS[self.spec.keys])}
        return options

    def _frame(self, rows: list[Row]) -> Any:
        return self.frame(self.rows, rows) if self.frame is not None else self.rows.arrow(rows)

    def _bulk_insert(self) -> None:
        rows = self.rows.new(12)
        self.table.bulk_insert(self._frame(rows), options=self._options)
        self.model.insert(rows)

    def _insert(self) -> None:
        rows = self.rows.new(8)
        self.table.insert(self._frame(rows), options=self._options)
        self.model.insert(rows)

    def _upsert(self) -> None:
        rows = self.changed_rows()
        self.table.upsert(self._frame(rows), options=self._options)
        self.model.upsert(rows)

    def changed_rows(self) -> list[Row]:
        """Later, equal and late versions of stored rows, and new rows."""
        return self.rows.again(self.model.some(6), late=True) + self.rows.new(3)

    def _partial(self) -> None:
        """Without the column `name` and whatever else is not needed to find the row."""
        rows = self.rows.again(self.model.some(4, 3), late=True)
        given = [name for name in self.rows.columns if name in ("id", "id2", "ts", "ts2", "part", "ev", "price")]
        self.table.upsert(self.rows.arrow(rows, given), partial=True, options=self._options)
        self.model.upsert(rows, given)

    def _merge(self) -> None:
        rows = self.rows.again(self.model.some(4), late=False) + self.rows.new(2)
        statement = self.table.merge(self.rows.arrow(rows), on=self.rows.key_columns, options=self._options)
        statement.when_matched_update().when_not_matched_insert().execute()
        self.model.upsert(rows)

    def _update(self) -> None:
        self.table.update({"name": "set", "price": 1.25}, where="price > 0", options=self._options)
        for row in self.model.rows.values():
            if row["price"] is not None and row["price"] > 0:
                row |= {"name": "set", "price": 1.25}

    def _delete_keys(self) -> None:
        rows = self.model.some(2, 5)
        self.table.delete(self._frame(rows), options=self._options)
        self.model.delete(rows)

    def _delete_where(self) -> None:
        chosen = [row["id"] for row in self.model.some(2, 3)]
        texts = ", ".join(f"'{one}'" for one in chosen)
        self.table.delete(where=f"id IN ({texts})", options=self._options)
        self.model.keep(lambda row: row["id"] not in chosen)

    def _delete_marked(self) -> None:
        rows = [{**row, "_hoodie_is_deleted": True} for row in self.rows.again(self.model.some(3), late=True)]
        self.table.upsert(self._frame(rows), options=self._options)
        self.model.upsert(rows)

    def _insert_overwrite(self) -> None:
        rows = self.rows.new(2)
        self.table.insert_overwrite(self._frame(rows), options=self._options)
        places = {self.model.place(row) for row in rows}
        self.model.keep(lambda row: self.model.place(row) not in places)
        self.model.insert(rows)

    def _overwrite(self) -> None:
        rows = self.rows.new(9)
        self.table.overwrite(self._frame(rows), options=self._options)
        self.model.rows.clear()
        self.model.insert(rows)

    def _delete_partitions(self) -> None:
        row = self.model.some(1)[0]
        stored = self.table.scan(filter=f"id = '{row['id']}'", columns=["_hoodie_partition_path"]).to_arrow()
        self.table.delete_partitions([stored["_hoodie_partition_path"][0].as_py()])
        place = self.model.place(row)
        self.model.keep(lambda other: self.model.place(other) != place)

    def _evolve(self) -> None:
        self.rows.evolve()
        self.model.add_column("added")
        self._upsert()

    def _die(self) -> None:
        """A write that was stopped right before its commit: files, markers and an inflight instant stay."""
        rows = self.rows.arrow(self.rows.again(self.model.some(4), late=False) + self.rows.new(2))
        write = operations.insert if self.spec.keys == "auto" else operations.upsert
        storage = Storage.at(self.path)
        scratch = self.path.with_name(f"{self.path.name}.scratch")
        shutil.copytree(self.path, scratch)
        counted = FaultyStorage.over(Storage.at(scratch))
        write(HudiTable.open(counted), rows, options=self._options)
        shutil.rmtree(scratch)
        calls = counted.faults.calls
        at = next(n for n, call in enumerate(calls) if call.startswith("create .hoodie/") and call.endswith("commit"))
        try:
            write(HudiTable.open(FaultyStorage.over(storage, at=at)), rows, options=self._options)
        except SimulatedCrash:
            return
        raise AssertionError("the write was to die")
