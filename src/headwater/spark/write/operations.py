"""The operations that take Spark data frames; the same names and meanings as in `headwater.hudi.write.operations`.

A frame that is small is brought to the driver and written by it: no shuffle, no task. A larger one never leaves the
executors.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater import arguments
from headwater.errors import ColumnNotFound, DuplicateKeys, WriteRefused
from headwater.hudi.table import HudiTable
from headwater.hudi.write import operations as in_process
from headwater.hudi.write.allocators import giving_back
from headwater.hudi.write.execution import begin_job, complete_job
from headwater.hudi.write.incoming import Shape
from headwater.hudi.write.options import IndexKind, WriteOptions
from headwater.hudi.write.planning import Options, groups_of, statement_job, write_options
from headwater.hudi.write.result import WriteResult
from headwater.hudi.write.tagging import resolve_index
from headwater.spark.write import reports
from headwater.spark.write.bulk import BulkTask
from headwater.spark.write.deciding import DRIVER_LIMIT, brought, is_plain
from headwater.spark.write.frames import mapped, schema_of, without_meta
from headwater.spark.write.keys import KEY, with_keys
from headwater.spark.write.pipeline import Pipeline
from headwater.spark.write.places import POSITION, SLICE, Tagged, Tagger
from headwater.spark.write.running import run_tasks, told_as_ours
from headwater.spark.write.sorting import sorted_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SORTS = ("none", "partition", "global")


def bulk_insert(table: HudiTable, data: DataFrame, *, sort: str = "none", options: Options = None) -> WriteResult:
    """Rows into new file groups, whatever is stored.

    `sort` puts the rows in order by partition and key: `"partition"` within each of the frame's own partitions,
    `"global"` all of them.
    """
    chosen = write_options(table, options)
    if resolve_index(table, chosen) is IndexKind.BUCKET and table.timeline.commits:
        return insert(table, data, options=options)
    return _bulk(table, data, "bulk_insert", chosen, sort, None)


def insert_overwrite(table: HudiTable, data: DataFrame, *, sort: str = "none", options: Options = None) -> WriteResult:
    """The rows take the place of all that is stored in their partitions."""
    return _bulk(table, data, "insert_overwrite", write_options(table, options), sort, "partitions")


def overwrite(table: HudiTable, data: DataFrame, *, sort: str = "none", options: Options = None) -> WriteResult:
    """The rows take the place of all that is stored."""
    return _bulk(table, data, "overwrite", write_options(table, options), sort, "table")


def overwrite_where(
    table: HudiTable,
    data: DataFrame,
    replaced: Callable[[HudiTable], Sequence[str]],
    *,
    sort: str = "none",
    options: Options = None,
) -> WriteResult:
    """The rows take the place of the partitions that `replaced` names, and are added to others."""
    return _bulk(table, data, "insert_overwrite", write_options(table, options), sort, replaced)


@giving_back
def upsert(table: HudiTable, data: DataFrame, *, partial: bool = False, options: Options = None) -> WriteResult:
    """Rows of records that are stored replace them, by the table's merge mode; the others are new.

    With `partial`, columns that the rows do not have keep their stored values.
    """
    arguments.flag("partial", partial)
    chosen = write_options(table, options)
    data = without_meta(data)
    shape = Shape.of(table, schema_of(data), chosen, partial=partial)
    shape.refuse_made_up_keys("upsert")
    with brought(data, rewrites=not table.config.is_merge_on_read) as (rows, frame):
        if rows is not None:
            return in_process.upsert(table, rows, partial=partial, options=options)
        job = shape.job("upsert", chosen)
        combine = chosen.combine_before_upsert
        pipeline = Pipeline(shape, job, combine, unique=not combine, at_hand=True)
        return pipeline.run(table, with_keys(frame, shape), lambda state: _tagger(state, chosen))


@giving_back
def insert(table: HudiTable, data: DataFrame, *, if_present: str = "keep", options: Options = None) -> WriteResult:
    """Rows as new ones; small files are filled up first.

    `if_present` says what to do about keys that are stored already, or twice among the rows: `"keep"` looks for none
    and may store a key twice, as Hudi does; `"drop"` leaves such rows out; `"fail"` refuses the write.
    """
    arguments.one_of("if_present", if_present, ("keep", "drop", "fail"))
    chosen = write_options(table, options)
    data = without_meta(data)
    shape = Shape.of(table, schema_of(data), chosen)
    if if_present != "keep":
        shape.refuse_made_up_keys(f"insert with if_present={if_present!r}")
    with brought(data, rewrites=not table.config.is_merge_on_read) as (rows, frame):
        if rows is not None:
            return in_process.insert(table, rows, if_present=if_present, options=options)
        job = shape.job("insert", chosen)
        combine = if_present == "drop" or (if_present == "keep" and chosen.combine_before_insert)
        keyed = with_keys(frame, shape)
        if if_present == "keep":
            hashed = resolve_index(table, chosen) is IndexKind.BUCKET
            pipeline = Pipeline(shape, job, combine or hashed, at_hand=True)
            return pipeline.run(table, keyed, lambda state: _tagger(state, chosen) if hashed else None)
        pipeline = Pipeline(shape, job, combine, unique=if_present == "fail")
        return pipeline.run(
            table,
            keyed,
            lambda state: _searcher(state, chosen),
            functools.partial(_absent, chosen, if_present == "fail"),
        )


@giving_back
def delete_keys(table: HudiTable, keys: DataFrame, *, options: Options = None) -> WriteResult:
    """Delete records, whatever their ordering values; keys that are not there are passed over.

    The frame has the key columns; where it has the partition's as well, the record of that partition alone is meant.
    """
    chosen = write_options(table, options)
    shape = Shape.of_table(table, chosen)
    shape.refuse_made_up_keys("delete by key")
    key_columns(table, keys)
    with brought(keys, rewrites=not table.config.is_merge_on_read) as (rows, frame):
        if rows is not None:
            return in_process.delete_keys(table, rows, options=options)
        names, has_partition = key_columns(table, frame)
        keyed = with_keys(frame.select(*(f"`{name}`" for name in names)), shape, partitions=has_partition)
        job = statement_job(table, "delete", chosen)

        def tagger(state: HudiTable) -> Tagger:
            index = resolve_index(state, chosen)
            if not has_partition and not index.is_global:
                index = IndexKind.GLOBAL_BLOOM
            elif index is IndexKind.BUCKET:
                index = IndexKind.BLOOM
            return Tagger(state, index, chosen, live=True)

        return Pipeline(shape, job, combine=True, deletes=True).run(table, keyed, tagger, _present)


def merge_source(source: DataFrame) -> pa.Table:
    """The rows of a merge's source, on the driver, where conditions are evaluated; refused where they are too many."""
    with brought(source, rewrites=False) as (rows, _):
        if rows is None:
            raise WriteRefused(
                "merge: the source is too large for the driver, where its conditions are evaluated; use upsert and "
                f"delete, merge in parts, or raise {DRIVER_LIMIT}"
            )
        return rows


def key_columns(table: HudiTable, keys: DataFrame) -> tuple[list[str], bool]:
    """The columns that name records, and whether the partition's are among them."""
    config = table.config
    missing = [name for name in config.record_key_fields if name.split(".")[0] not in keys.columns]
    if missing:
        raise ColumnNotFound(f"keys: no column {', '.join(missing)}; give the key columns")
    has_partition = all(name.split(".")[0] in keys.columns for name in config.partition_fields)
    names = [*config.record_key_fields, *(config.partition_fields if has_partition else ())]
    return list(dict.fromkeys(name.split(".")[0] for name in names)), has_partition


def _present(state: HudiTable, tagged: Tagged) -> Tagged:
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    return Tagged(tagged.frame.where(F.col(SLICE).isNotNull()), tagged.slices, tagged.buckets)


def _tagger(state: HudiTable, options: WriteOptions) -> Tagger:
    return Tagger(state, resolve_index(state, options), options)


def _searcher(state: HudiTable, options: WriteOptions) -> Tagger:
    """A tagger that tells whether a record is there: a bucket only tells where it would be."""
    index = resolve_index(state, options)
    return Tagger(state, IndexKind.BLOOM if index is IndexKind.BUCKET else index, options, live=True)


def _absent(options: WriteOptions, refuse: bool, state: HudiTable, tagged: Tagged) -> Tagged:
    """The rows whose records are not stored; or a refusal where there are others."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    if refuse:
        some = [row[0] for row in tagged.frame.where(F.col(SLICE).isNotNull()).select(KEY).limit(3).collect()]
        if some:
            raise DuplicateKeys(
                f"{state.storage.uri}: record keys are stored already, such as {', '.join(map(repr, some))}; use "
                "upsert, or if_present='drop'"
            )
    new = tagged.frame.where(F.col(SLICE).isNull())
    if resolve_index(state, options) is IndexKind.BUCKET:
        return _tagger(state, options).tag(new.drop(SLICE, POSITION))
    return Tagged(new, tagged.slices)


def _bulk(
    table: HudiTable,
    data: DataFrame,
    name: str,
    options: WriteOptions,
    sort: str,
    replaces: str | Callable[[HudiTable], Sequence[str]] | None,
) -> WriteResult:
    arguments.one_of("sort", sort, _SORTS)
    data = without_meta(data)
    shape = Shape.of(table, schema_of(data), options)
    hudi_name = "insert_overwrite_table" if replaces == "table" else None
    job = shape.job(name, options, replaces=replaces is not None, hudi_name=hudi_name)

    def replaced(state: HudiTable, written: set[str]) -> Mapping[str, Sequence[str]]:
        if callable(replaces):
            return groups_of(state, replaces(state))
        return groups_of(state, None if replaces == "table" else sorted(written))

    gone = None if replaces is None else replaced
    if resolve_index(table, options) is IndexKind.BUCKET:
        # All rows of a bucket are one file's, wherever they come from.
        at_hand = is_plain(data)
        pipeline = Pipeline(shape, job, options.combine_before_insert, creates=True, replaced=gone, at_hand=at_hand)
        hashed = Tagger(table, IndexKind.BUCKET, options, only_new=True)
        return pipeline.run(table, with_keys(data, shape), lambda state: dataclasses.replace(hashed, table=state))
    with told_as_ours(), begin_job(table, job) as write:
        frame = sorted_frame(data, shape, sort)
        task = BulkTask(job.target(write), shape, options.combine_before_insert)
        with job.watch.phase("write"):
            written = run_tasks(write, mapped(frame, task, reports.SCHEMA), name).written
        removed = {} if gone is None else gone(write.table, {one.file.partition for one in written})
        if not written and not removed:
            return job.nothing()
        return complete_job(write, job, written, removed)
