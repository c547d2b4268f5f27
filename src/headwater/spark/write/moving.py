"""Records that change their partition: with a global index a key is one record in all of the table.

The record is deleted where it is stored and new where it goes: its row is sent to both groups. By event time, a row
that is older than what is stored moves nothing; which those are is looked up in the slices that they would leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.errors import UnsupportedTable
from headwater.hudi.merge.log_rows import IS_DELETED, OPERATION
from headwater.hudi.table import HudiTable
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.incoming import Shape, nullable
from headwater.hudi.write.placement import late_records
from headwater.hudi.write.planning import refuse_repeated
from headwater.hudi.write.reconcile import fit_rows
from headwater.hudi.write.tagging import Tags
from headwater.spark.write.frames import Batches, mapped
from headwater.spark.write.groups import by_work, whole_keys
from headwater.spark.write.keys import KEY, ORDER, PARTITION
from headwater.spark.write.places import POSITION, SLICE, Tagged
from headwater.spark.write.routes import LEAVING, WORK
from headwater.spec.model import FileSlice

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ROWS = 65_536


def combined(keyed: DataFrame, shape: Shape, *, refuse: bool) -> DataFrame:
    """One row for each key, whatever its partition; `refuse`: none may come twice."""
    task = _Combine(shape, refuse)
    return mapped(keyed.repartition(KEY).sortWithinPartitions(KEY, ORDER), task, keyed.schema)


@dataclass(frozen=True)
class _Combine:
    shape: Shape
    refuse: bool

    def __call__(self, batches: Batches) -> Batches:
        for rows in whole_keys(pa.Table.from_batches([batch]) for batch in batches if batch.num_rows):
            batch = self.shape.batch_of(rows.drop_columns([KEY, ORDER, PARTITION]))
            if self.refuse:
                refuse_repeated(self.shape.table, batch, by_partition=False)
            code, count = batch.codes(by_partition=False)
            if count < len(batch):
                rows = rows.take(pa.array(np.sort(batch.winners(self.shape.rules, code))))
            yield from rows.combine_chunks().to_batches(max_chunksize=_ROWS)


def moved(tagged: Tagged, shape: Shape, table: HudiTable) -> Tagged:
    """Rows of records that are stored in another partition, twice: `LEAVING` there, and new where they go."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    session = tagged.frame.sparkSession
    homes = session.createDataFrame(
        [(number, slice_.group.partition) for number, slice_ in enumerate(tagged.slices)], "hs int, home string"
    )
    frame = tagged.frame.join(F.broadcast(homes), F.col(SLICE) == F.col("hs"), "left")
    leaves = F.col("home").isNotNull() & (F.col("home") != F.col(PARTITION)) & ~_deletes(shape, frame.columns)
    frame = frame.withColumn(LEAVING, leaves).drop("hs", "home")
    if shape.rules.merges_columns and frame.where(F.col(LEAVING)).limit(1).count():
        raise UnsupportedTable(
            f"{table.storage.uri}: records change their partition, and this table merges columns of old and new "
            "versions; delete them first, or keep them in place with hoodie.simple.index.update.partition.path=false"
        )
    if shape.rules.by_event_time:
        candidates = frame.where(F.col(LEAVING)).withColumn(WORK, F.col(SLICE))
        names = [f"`{name.split('.')[0]}`" for name in shape.rules.ordering_fields]
        found = candidates.select(KEY, ORDER, WORK, *dict.fromkeys(names)).repartition(WORK).sortWithinPartitions(WORK)
        late = mapped(found, _FindLate(table, shape, tagged.slices), "late long")
        frame = frame.join(late, F.col(ORDER) == F.col("late"), "left_anti")
    there = frame.where(F.col(SLICE).isNotNull() & ~F.col(LEAVING)).select(F.col(KEY).alias("there"))
    new = frame.where(F.col(LEAVING)).dropDuplicates([KEY]).join(there, F.col(KEY) == F.col("there"), "left_anti")
    nowhere = {SLICE: F.lit(None).cast("int"), POSITION: F.lit(None).cast("long"), LEAVING: F.lit(False)}
    return Tagged(frame.unionByName(new.withColumns(nowhere)), tagged.slices, tagged.buckets)


def _deletes(shape: Shape, columns: list[str]) -> Column:
    """Whether a row says of itself that it deletes its record."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    found = F.lit(False)
    if IS_DELETED in columns:
        found = found | F.coalesce(F.col(IS_DELETED).cast("boolean"), F.lit(False))
    if OPERATION in columns:
        found = found | F.coalesce(F.col(OPERATION).isin("D", "-U"), F.lit(False))
    if shape.rules.delete_field in columns:
        text = F.col(f"`{shape.rules.delete_field}`").cast("string")
        found = found | F.coalesce(text == F.lit(shape.rules.delete_marker), F.lit(False))
    return found


@dataclass(frozen=True)
class _FindLate:
    """Of rows that would leave a slice, those that are older than what is stored there; by their `ORDER`."""

    table: HudiTable
    shape: Shape
    slices: tuple[FileSlice, ...]

    def __call__(self, batches: Batches) -> Batches:
        names = [name.split(".")[0] for name in self.shape.rules.ordering_fields]
        fields = nullable(pa.schema([self.shape.schema.field(name) for name in dict.fromkeys(names)]))
        for number, parts in by_work(batches):
            rows = pa.concat_tables(parts)
            keys = pa.concat_arrays(rows.column(KEY).chunks)
            batch = Batch.of(
                fit_rows(rows.select(fields.names), fields), keys, pa.repeat("", len(keys)), self.shape.rules
            )
            places = np.arange(len(keys))
            tags = Tags(places, np.zeros(len(keys), np.int64), np.full(len(keys), -1), (self.slices[number],))
            late = late_records(self.table, batch, tags, np.ones(len(keys), bool), self.shape.rules)
            order = rows.column(ORDER).take(pa.array(np.flatnonzero(late))).combine_chunks()
            yield from pa.table({"late": order}).to_batches()
