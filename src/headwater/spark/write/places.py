"""Tagging through Spark: where the records of a frame are stored, by whichever index the table has.

A place is a slice's number, and the record's row in its base file where that is known. Buckets are hashed; the record
index is asked on the executors; with bloom and simple indexes the key columns of the slices that may hold the records
are joined with those of the frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidArgument
from headwater.hudi.base_file import BaseFile, RowGroup, open_base_file
from headwater.hudi.footer_index import key_range
from headwater.hudi.index.bucket import bucket_ids_of_keys, bucket_of_file_id
from headwater.hudi.keys import key_columns, record_keys
from headwater.hudi.merge.fold import Rows
from headwater.hudi.record_index import HudiRecordIndex
from headwater.hudi.schema import RECORD_KEY
from headwater.hudi.table import HudiTable
from headwater.hudi.write.options import IndexKind, WriteOptions
from headwater.hudi.write.tagging import UNKNOWN, bucket_count, latest_slices
from headwater.spark.write.frames import Batches, cores_of, mapped, our_python
from headwater.spark.write.keys import KEY, PARTITION
from headwater.spec.model import FileSlice

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SLICE = "__headwater_slice"
POSITION = "__headwater_position"
BUCKET = "__headwater_bucket"
_PLACE_KEY = "__headwater_place_key"
_PLACE_PARTITION = "__headwater_place_partition"
_ALIVE = "__headwater_alive"
_BORN = "__headwater_born"
_NAMES = (_PLACE_KEY, _PLACE_PARTITION, SLICE, POSITION, _ALIVE, _BORN)
_ROWS = 65_536
_PLACES = (
    f"{_PLACE_KEY} string, {_PLACE_PARTITION} string, {SLICE} int, {POSITION} long, {_ALIVE} boolean, {_BORN} string"
)


@dataclass(frozen=True)
class Tagged:
    """A frame whose rows have `SLICE` and `POSITION`, null where the record is not stored; and the slices."""

    frame: DataFrame
    slices: tuple[FileSlice, ...]
    buckets: int | None = None


@dataclass(frozen=True)
class Tagger:
    """Finds the records of keyed frames in one state of a table."""

    table: HudiTable
    index: IndexKind
    options: WriteOptions
    live: bool = False
    """Whether records that a log has deleted are passed over."""
    only_new: bool = False
    """Whether nothing that is stored counts: rows get a bucket where there are any, and no place."""

    def tag(self, keyed: DataFrame) -> Tagged:
        """Each row of the frame, once for each place of its record; once without one where there is none."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

        if self.index is IndexKind.BUCKET:
            return self._by_bucket(keyed)
        if not self.table.timeline.commits or self.only_new:
            nowhere = keyed.withColumn(SLICE, F.lit(None).cast("int")).withColumn(POSITION, F.lit(None).cast("long"))
            return Tagged(nowhere, ())
        if self.index is IndexKind.RECORD_INDEX:
            slices = tuple(latest_slices(self.table))
            keys = keyed.select(KEY).distinct().repartition(cores_of(keyed.sparkSession), KEY)
            places = mapped(keys, _AskIndex(self.table, slices), _PLACES)
        else:
            ranges = self._ranges(keyed)
            slices = tuple(latest_slices(self.table, None if self.index.is_global else sorted(ranges)))
            session = keyed.sparkSession
            tasks = max(min(len(slices), 4 * cores_of(session)), 1)
            numbers = session.range(0, len(slices), 1, tasks)
            places = mapped(numbers, _ReadKeys(self.table, slices, ranges, self.index.is_global, self.live), _PLACES)
        return Tagged(self._joined(keyed, places, slices), slices)

    def _ranges(self, keyed: DataFrame) -> dict[str, tuple[str, str]]:
        """Partition → the smallest and the largest key that the frame has there."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

        found = keyed.groupBy(PARTITION).agg(F.min(KEY), F.max(KEY)).collect()
        return {row[0]: (row[1], row[2]) for row in found if row[0] is not None and row[1] is not None}

    def _joined(self, keyed: DataFrame, places: DataFrame, slices: Sequence[FileSlice]) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

        same: Column = F.col(KEY) == F.col(_PLACE_KEY)
        if not self.index.is_global:
            same = same & (F.col(PARTITION) == F.col(_PLACE_PARTITION))
        joined = keyed.join(places, same, "left")
        if any(slice_.delta_files for slice_ in slices) and not self.live:
            joined = _without_dead_places(joined)
        return joined.drop(_PLACE_KEY, _PLACE_PARTITION, _ALIVE, _BORN)

    def _by_bucket(self, keyed: DataFrame) -> Tagged:
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

        count = bucket_count(self.table, self.options)
        fields = self.options.bucket_fields or self.table.config.record_key_fields
        slices = tuple(latest_slices(self.table)) if self.table.timeline.commits and not self.only_new else ()
        hashed = _hashed(keyed, count, tuple(fields))
        rows = []
        for number, slice_ in enumerate(slices):
            bucket = bucket_of_file_id(slice_.group.file_id)
            if bucket is None or bucket >= count:
                raise InvalidArgument(
                    f"{self.table.storage.describe(slice_.group.partition)}: file group {slice_.group.file_id} is none "
                    f"of {count} buckets; the table is not hashed so: give the index and buckets it was written with"
                )
            rows.append((slice_.group.partition, bucket, number))
        found = hashed.withColumn(SLICE, F.lit(None).cast("int"))
        if rows:
            places = keyed.sparkSession.createDataFrame(rows, f"p string, b int, {SLICE} int")
            same = (F.col(PARTITION) == F.col("p")) & (F.col(BUCKET) == F.col("b"))
            found = hashed.join(F.broadcast(places), same, "left").drop("p", "b")
        return Tagged(found.withColumn(POSITION, F.lit(None).cast("long")), slices, count)


def _without_dead_places(joined: DataFrame) -> DataFrame:
    """Of a record with several places, those where it lives; where it lives in none, the newest.

    A record that was deleted in a log and then inserted anew stands in two groups: a new version that went to both
    would bring the deleted one back.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    record = Window.partitionBy(KEY, PARTITION)
    lives, newest = "__headwater_lives", "__headwater_newest"
    marked = joined.withColumn(lives, F.max(_ALIVE).over(record)).withColumn(newest, F.max(_BORN).over(record))
    kept = F.col(SLICE).isNull() | F.when(F.col(lives), F.col(_ALIVE)).otherwise(F.col(_BORN) == F.col(newest))
    return marked.where(kept).drop(lives, newest)


def _hashed(keyed: DataFrame, count: int, fields: tuple[str, ...]) -> DataFrame:
    """The rows with the bucket of their key; only keys are sent to Python."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    def of_arrow(keys: pa.Array) -> pa.Array:
        return pa.array(bucket_ids_of_keys(keys, count, fields=fields))

    def of_pandas(keys):  # type: ignore[no-untyped-def] # PySpark reads annotations, and knows pandas' alone
        import pandas

        return pandas.Series(bucket_ids_of_keys(pa.array(keys, pa.string(), from_pandas=True), count, fields=fields))

    with our_python(keyed.sparkSession):
        if hasattr(F, "arrow_udf"):  # Spark 4.1 on: no text becomes a Python object on its way
            return keyed.withColumn(BUCKET, F.arrow_udf(of_arrow, "int")(F.col(KEY)))
        from pyspark.sql.pandas.functions import pandas_udf

        hashing: Any = pandas_udf(of_pandas, "int")  # type: ignore[call-overload]
        return keyed.withColumn(BUCKET, hashing(F.col(KEY)))


@dataclass(frozen=True)
class _AskIndex:
    """Looks the keys of a task up in the metadata table, all at once: each block of the index is read once."""

    table: HudiTable
    slices: tuple[FileSlice, ...]

    def __call__(self, batches: Batches) -> Batches:
        keys = [batch.column(0) for batch in batches]
        wanted = pa.concat_arrays(keys).drop_null() if keys else pa.array([], pa.string())
        if not len(wanted):
            return
        located = HudiRecordIndex(self.table).tag(wanted)
        located = located.filter(located.column("file_id").is_valid())
        number = pa.table(
            {
                "partition": pa.array([slice_.group.partition for slice_ in self.slices], pa.string()),
                "file_id": pa.array([slice_.group.file_id for slice_ in self.slices], pa.string()),
                "slice": pa.array(np.arange(len(self.slices)), pa.int32()),
            }
        )
        found = located.select(["key", "partition", "file_id"]).join(
            number, ["partition", "file_id"], join_type="inner"
        )
        # Positions that the index may note are those of the file that the record was first written to.
        count = found.num_rows
        places = pa.table(
            [
                found.column("key"),
                found.column("partition"),
                found.column("slice"),
                pa.nulls(count, pa.int64()),
                pa.repeat(True, count),
                pa.repeat("", count),
            ],
            names=_NAMES,
        )
        yield from places.combine_chunks().to_batches(max_chunksize=_ROWS)


@dataclass(frozen=True)
class _ReadKeys:
    """Gives the keys of slices, by their numbers. Files and row groups whose keys are all outside of those wanted are
    left out."""

    table: HudiTable
    slices: tuple[FileSlice, ...]
    ranges: Mapping[str, tuple[str, str]]
    is_global: bool
    live: bool

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._places(number)

    def _places(self, number: int) -> Batches:
        slice_ = self.slices[number]
        low, high = self._range(slice_.group.partition)
        if not slice_.delta_files:
            for keys, positions in self._base_keys(slice_, low, high):
                yield _batch(keys, slice_, number, positions, True)
            return
        alive = [(keys, _ints(at)) for keys, at in self.table.reader(self.table.schema).keys_of(slice_)]
        for keys, positions in alive:
            yield _batch(keys, slice_, number, positions, True)
        if self.live:
            return
        # A key that a log deletes still belongs to its group: a later version is compared with the delete there.
        living = pa.concat_arrays([_one(keys) for keys, _ in alive] or [pa.array([], pa.string())])
        for keys, positions in (*self._base_keys(slice_, low, high), *self._log_keys(slice_)):
            dead = pc.invert(pc.is_in(keys, value_set=living))
            yield _batch(keys.filter(dead), slice_, number, positions[np.asarray(dead)], False)

    def _range(self, partition: str) -> tuple[str, str]:
        if not self.is_global:
            return self.ranges[partition]
        return min(low for low, _ in self.ranges.values()), max(high for _, high in self.ranges.values())

    def _base_keys(self, slice_: FileSlice, low: str, high: str) -> Iterator[tuple[pa.Array, Rows]]:
        if slice_.base_file is None:
            return
        base = open_base_file(self.table.storage, slice_.base_file.path)
        known = key_range(base)
        if known is not None and (known[0] > high or known[1] < low):
            return
        names = key_columns(self.table.config)
        for start, part in base.batches(
            names, [group for group in base.row_groups if _overlaps(base, group, low, high)]
        ):
            keys = _one(part.column(0) if names == (RECORD_KEY,) else record_keys(self.table.config, part))
            yield keys, np.arange(start, start + len(keys))

    def _log_keys(self, slice_: FileSlice) -> Iterator[tuple[pa.Array, Rows]]:
        config = self.table.config
        schema = pa.schema([self.table.schema.arrow.field(name) for name in key_columns(config)])
        for part in self.table.reader(self.table.schema).project(schema).merge_over_base(slice_):
            rows = part.added
            keys = _one(rows.column(0) if config.populate_meta_fields else record_keys(config, rows))
            yield keys, np.full(len(keys), UNKNOWN)


def _overlaps(base: BaseFile, group: RowGroup, low: str, high: str) -> bool:
    known = base.statistics(group).get(RECORD_KEY)
    if known is None or not isinstance(known.minimum, str) or not isinstance(known.maximum, str):
        return True
    return known.minimum <= high and known.maximum >= low


def _batch(keys: pa.Array, slice_: FileSlice, number: int, positions: Rows, alive: bool) -> pa.RecordBatch:
    count = len(keys)
    columns = [
        _one(keys),
        pa.repeat(slice_.group.partition, count),
        pa.array(np.full(count, number, np.int32)),
        pa.array(positions, pa.int64(), mask=positions < 0),
        pa.repeat(alive, count),
        pa.repeat(slice_.base_instant, count),
    ]
    return pa.RecordBatch.from_arrays(columns, names=_NAMES)


def _ints(positions: pa.Array) -> Rows:
    found: Rows = np.asarray(pc.fill_null(positions, UNKNOWN)).astype(np.int64)
    return found


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
