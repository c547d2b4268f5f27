"""The operations on a table, in this process: insert, bulk insert, upsert, update, delete, overwrite.

Each takes the table in any state, plans on the newest one with the lock held, and commits once. What a crash leaves is
told in `transaction`: a write that no reader sees and that the next writer undoes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from headwater import arguments
from headwater.errors import InvalidArgument, WriteRefused
from headwater.hudi.table import HudiTable
from headwater.hudi.write.assigned_values import Assignments, assign
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.bulk_writer import sorted_by_key
from headwater.hudi.write.execution import Plan, run, run_bulk
from headwater.hudi.write.found_rows import find_rows
from headwater.hudi.write.incoming import Shape, keys_to_delete
from headwater.hudi.write.input import chunks, to_reader, to_table
from headwater.hudi.write.log_writer import takes_partial_logs
from headwater.hudi.write.options import IndexKind, WriteOptions
from headwater.hudi.write.placement import place
from headwater.hudi.write.planning import (
    NO_ROWS,
    NO_TEXTS,
    Options,
    absent_rows,
    assigner,
    groups_of,
    refuse_taken,
    slices_for,
    statement_job,
    upsert_plan,
    write_options,
)
from headwater.hudi.write.result import WriteResult
from headwater.hudi.write.tagging import NO_TAGS, resolve_index, tag
from headwater.spec.expressions import Expression, bind

_IF_PRESENT = ("keep", "drop", "fail")
_SORTS = ("none", "partition", "global")


def upsert(table: HudiTable, data: Any, *, partial: bool = False, options: Options = None) -> WriteResult:
    """Rows of records that are stored replace them, by the table's merge mode; the others are new.

    With `partial`, columns that the rows do not have keep their stored values.
    """
    arguments.flag("partial", partial)
    chosen = write_options(table, options)
    rows = to_table(data)
    shape = Shape.of(table, rows.schema, chosen, partial=partial)
    shape.refuse_made_up_keys("upsert")
    job = shape.job("upsert", chosen)
    with job.watch.phase("prepare"):
        batch = shape.batch_of(rows)
    whole = bool(job.absent) and table.config.is_merge_on_read and not takes_partial_logs(table.config)
    left_out = sorted(job.absent) if whole else []
    job = replace(job, absent=frozenset()) if whole else job

    def plan(state: HudiTable, instant: str) -> Plan | None:
        return upsert_plan(state, batch, job, combine=chosen.combine_before_upsert, left_out=left_out)

    return run(table, job, plan)


def insert(table: HudiTable, data: Any, *, if_present: str = "keep", options: Options = None) -> WriteResult:
    """Rows as new ones; small files are filled up first.

    `if_present` says what to do about keys that are stored already, or twice among the rows: `"keep"` looks for none
    and may store a key twice, as Hudi does; `"drop"` leaves such rows out; `"fail"` refuses the write.
    """
    arguments.one_of("if_present", if_present, _IF_PRESENT)
    chosen = write_options(table, options)
    rows = to_table(data)
    shape = Shape.of(table, rows.schema, chosen)
    if if_present != "keep":
        shape.refuse_made_up_keys(f"insert with if_present={if_present!r}")
    job = shape.job("insert", chosen)
    with job.watch.phase("prepare"):
        prepared = shape.batch_of(rows)

    def plan(state: HudiTable, instant: str) -> Plan | None:
        index = resolve_index(state, chosen)
        batch = shape.keyed(prepared, instant, 0)
        batch = batch.take(np.flatnonzero(~batch.deleted))
        if if_present != "keep":
            batch = absent_rows(state, batch, index, job, refuse=if_present == "fail")
        elif chosen.combine_before_insert or index is IndexKind.BUCKET:
            batch = batch.combined(job.rules, by_partition=not index.is_global)
        if index is IndexKind.BUCKET:
            # The bucket has the last word on where a row goes, and it may be there: Hudi tags here, too.
            return upsert_plan(state, batch, job, combine=False)
        works = assigner(state, batch, job, index).assign(batch, NO_TAGS, np.zeros(0, bool), np.arange(len(batch)))
        return Plan(batch, works)

    return run(table, job, plan)


def bulk_insert(table: HudiTable, data: Any, *, sort: str = "none", options: Options = None) -> WriteResult:
    """Rows into new file groups, whatever is stored. A stream is written as it comes.

    `sort` puts the rows in order by partition and key: `"partition"` those that are in memory at a time, `"global"` all
    of them, which holds them in memory.
    """
    chosen = write_options(table, options)
    if resolve_index(table, chosen) is IndexKind.BUCKET and table.timeline.commits:
        # A bucket that is there takes its rows; a second file group of the same bucket would hide them.
        return insert(table, data, options=options)
    return _bulk(table, data, "bulk_insert", chosen, sort, None)


def insert_overwrite(table: HudiTable, data: Any, *, sort: str = "none", options: Options = None) -> WriteResult:
    """The rows take the place of all that is stored in their partitions."""
    return _bulk(table, data, "insert_overwrite", write_options(table, options), sort, "partitions")


def overwrite(table: HudiTable, data: Any, *, sort: str = "none", options: Options = None) -> WriteResult:
    """The rows take the place of all that is stored."""
    return _bulk(table, data, "overwrite", write_options(table, options), sort, "table")


def update(
    table: HudiTable, values: Assignments, where: Expression | None = None, *, options: Options = None
) -> WriteResult:
    """Set columns of the rows that match a filter.

    The changed rows are merged with the stored ones by the table's merge mode: by event time, an ordering value that is
    set lower loses. Setting a partition's column moves the row there. Record keys cannot be set.
    """
    chosen = write_options(table, options)
    job = statement_job(table, "update", chosen, hudi_name="upsert")
    taken = sorted(set(values) & set(table.config.record_key_fields))
    if taken:
        raise WriteRefused(
            f"{table.storage.uri}: {', '.join(taken)} is part of the record key, which stays; insert new rows"
        )
    assign(job.schema.empty_table(), values, job.schema.empty_table(), job.schema.empty_table())
    if where is not None:
        bind(where, table.schema.arrow)

    def plan(state: HudiTable, instant: str) -> Plan | None:
        shape = Shape.of_table(state, chosen)
        bound = None if where is None else bind(where, state.schema.arrow)
        found = find_rows(state, slices_for(state, bound), columns=job.schema.names, filter=bound)
        rows = assign(found.rows, values, found.rows, found.rows)
        batch = shape.batch_of(rows, keys=found.keys)
        placed = place(state, batch, found.tags(), job.rules, moves=True)
        index = resolve_index(state, chosen)
        refuse_taken(state, batch, placed, index, job)
        return Plan(
            batch, assigner(state, batch, job, index).assign(batch, placed.tags, placed.leaving, placed.inserts)
        )

    return run(table, job, plan)


def delete_keys(table: HudiTable, keys: Any, *, options: Options = None) -> WriteResult:
    """Delete records, whatever their ordering values; keys that are not there are passed over.

    `keys` are record keys as texts, or rows that have the key columns. Rows that have the partition's columns as well
    name the record of that partition alone.
    """
    chosen = write_options(table, options)
    wanted, partitions = keys_to_delete(table, keys, chosen)
    job = statement_job(table, "delete", chosen)

    def plan(state: HudiTable, instant: str) -> Plan | None:
        index = resolve_index(state, chosen)
        if partitions is None and not index.is_global:
            index = IndexKind.GLOBAL_BLOOM
        elif index is IndexKind.BUCKET:
            index = IndexKind.BLOOM
        paths = partitions if partitions is not None else pa.repeat("", len(wanted))
        batch = Batch.deletes(job.schema, wanted, paths, job.rules)
        batch = batch.combined(job.rules, by_partition=not index.is_global)
        tags = tag(state, batch, index, chosen, live=True)
        works = assigner(state, batch, job, index).assign(batch, tags, np.zeros(len(tags.row), bool), NO_ROWS)
        return Plan(batch, works)

    return run(table, job, plan)


def delete_where(table: HudiTable, where: Expression, *, options: Options = None) -> WriteResult:
    """Delete the rows that match a filter, whatever their ordering values."""
    chosen = write_options(table, options)
    job = statement_job(table, "delete", chosen)
    bind(where, table.schema.arrow)

    def plan(state: HudiTable, instant: str) -> Plan | None:
        bound = bind(where, state.schema.arrow)
        found = find_rows(state, slices_for(state, bound), columns=[], filter=bound)
        batch = Batch.deletes(job.schema, found.keys, found.partitions, job.rules)
        works = assigner(state, batch, job, IndexKind.SIMPLE).assign(
            batch, found.tags(), np.zeros(len(found), bool), NO_ROWS
        )
        return Plan(batch, works)

    return run(table, job, plan)


def delete_partitions(table: HudiTable, partitions: Sequence[str], *, options: Options = None) -> WriteResult:
    """All rows of some partitions go; their files stay until they are cleaned, for readers of the past."""
    if isinstance(partitions, str):
        raise InvalidArgument(f"partitions={partitions!r} is one text; give a list of partition paths")
    job = statement_job(
        table, "delete_partitions", write_options(table, options), replaces=True, hudi_name="delete_partition"
    )
    wanted = [path.strip("/") for path in partitions]

    def plan(state: HudiTable, instant: str) -> Plan | None:
        unknown = sorted(set(wanted) - set(state.listing.partitions()))
        if unknown:
            raise WriteRefused(
                f"{state.storage.uri}: no partition {', '.join(unknown)}; inspect.partitions() lists them"
            )
        return Plan(Batch.deletes(job.schema, NO_TEXTS, NO_TEXTS, job.rules), (), groups_of(state, wanted))

    return run(table, job, plan)


def _bulk(
    table: HudiTable, data: Any, name: str, options: WriteOptions, sort: str, replaces: str | None
) -> WriteResult:
    arguments.one_of("sort", sort, _SORTS)
    reader = to_reader(data)
    shape = Shape.of(table, reader.schema, options)
    hudi_name = "insert_overwrite_table" if replaces == "table" else None
    job = shape.job(name, options, replaces=replaces is not None, hudi_name=hudi_name)
    whole = not isinstance(data, pa.RecordBatchReader) or sort == "global"
    with job.watch.phase("prepare"):
        # What is in memory is checked before anything is written; a stream as it comes.
        known = [shape.batch_of(reader.read_all())] if whole else None

    def batches(instant: str) -> Iterator[Batch]:
        first = 0
        for batch in known if known is not None else map(shape.batch_of, chunks(reader, options.memory // 4)):
            batch = shape.keyed(batch, instant, first)
            first += len(batch)
            batch = batch.take(np.flatnonzero(~batch.deleted))
            if options.combine_before_insert:
                batch = batch.combined(job.rules, by_partition=True)
            yield sorted_by_key(batch) if sort != "none" else batch

    def replaced(state: HudiTable, written: set[str]) -> dict[str, list[str]]:
        return groups_of(state, None if replaces == "table" else sorted(written))

    return run_bulk(
        table,
        job,
        batches,
        lambda state: resolve_index(state, options),
        replaced if replaces is not None else None,
        is_all=whole,
    )
