"""From rows to a plan: options, index, size of a row; tagging, placing and assigning put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.errors import DuplicateKeys, WriteRefused
from headwater.hudi.merge.fold import Rows
from headwater.hudi.merge.rules import merge_rules
from headwater.hudi.properties import TableConfig
from headwater.hudi.schema import META_COLUMNS
from headwater.hudi.table import HudiTable
from headwater.hudi.write.assignment import Assigner
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.execution import Job, Plan
from headwater.hudi.write.found_rows import FoundRows
from headwater.hudi.write.options import IndexKind, WriteOptions
from headwater.hudi.write.placement import Placement, place, with_stored_values
from headwater.hudi.write.row_size import row_bytes
from headwater.hudi.write.tagging import NO_TAGS, Tags, latest_slices, resolve_index, tag
from headwater.spec.expressions import Expression
from headwater.spec.model import FileSlice

Options = Mapping[str, Any] | None
NO_ROWS: Rows = np.zeros(0, np.int64)
NO_TEXTS = pa.array([], pa.string())


def write_options(table: HudiTable, given: Options) -> WriteOptions:
    """The options of a write; a table that cannot be written is refused here."""
    refuse_what_cannot_be_written(table.config, table.storage.uri)
    return WriteOptions.of(table.config, given)


def refuse_what_cannot_be_written(config: TableConfig, uri: str) -> None:
    """Tables that are read here and cannot be written."""
    problems = []
    if config.base_format != "PARQUET":
        problems.append(f"base files are {config.base_format}, and Parquet alone is written")
    if config.drop_partition_columns:
        problems.append("the files leave out the partition columns (hoodie.datasource.write.drop.partition.columns)")
    if config.is_metadata_table:
        problems.append("it is a metadata table, which its data table writes")
    if config.cdc_enabled and not config.is_merge_on_read and not config.populate_meta_fields:
        problems.append("it logs changes (hoodie.table.cdc.enabled) and stores no record keys")
    if problems:
        raise WriteRefused(f"{uri}: cannot be written: {'; '.join(problems)}; write it with Apache Hudi")


def statement_job(
    table: HudiTable, name: str, options: WriteOptions, *, replaces: bool = False, hudi_name: str | None = None
) -> Job:
    """A write that brings no new columns."""
    user = pa.schema([f for f in table.schema.arrow if f.name not in META_COLUMNS])
    return Job(name, user, options, merge_rules(table.config), replaces=replaces, hudi_name=hudi_name)


def assigner(state: HudiTable, batch: Batch, job: Job, index: IndexKind) -> Assigner:
    """Who assigns this batch's rows, knowing how large they are."""
    alive = np.flatnonzero(~batch.deleted)
    size = 1.0
    if len(alive):
        rows = batch.rows if len(alive) == len(batch) else batch.rows.take(pa.array(alive))
        size = row_bytes(rows, None, job.options.codec)
    return Assigner(state, job.options, index, size)


def upsert_plan(state: HudiTable, batch: Batch, job: Job, *, combine: bool, left_out: Sequence[str] = ()) -> Plan:
    """Tag, place and assign a batch. Columns that were left out are taken from the stored rows."""
    index = resolve_index(state, job.options)
    if combine:
        batch = batch.combined(job.rules, by_partition=not index.is_global)
    else:
        refuse_repeated(state, batch, by_partition=not index.is_global)
    tags = tag(state, batch, index, job.options)
    if left_out:
        batch = with_stored_values(state, batch, tags, left_out)
    placed = place(state, batch, tags, job.rules, moves=index.is_global and job.options.moves_with(index))
    works = assigner(state, batch, job, index).assign(batch, placed.tags, placed.leaving, placed.inserts)
    return Plan(batch, works)


def absent_rows(state: HudiTable, batch: Batch, index: IndexKind, job: Job, *, refuse: bool) -> Batch:
    """The rows whose keys are not stored, each key once; or a refusal where there are others."""
    by_partition = not index.is_global
    search = IndexKind.BLOOM if index is IndexKind.BUCKET else index
    if refuse:
        refuse_repeated(state, batch, by_partition=by_partition)
    batch = batch.combined(job.rules, by_partition=by_partition)
    tags = tag(state, batch, search, job.options, live=True)
    if refuse and len(tags.row):
        rows = np.unique(tags.row)
        some = batch.keys.take(pa.array(rows[:3])).to_pylist()
        raise DuplicateKeys(
            f"{state.storage.uri}: {len(rows):,} of {len(batch):,} record keys are stored already, "
            f"such as {', '.join(map(repr, some))}; use upsert, or if_present='drop'"
        )
    return batch.take(tags.absent(len(batch)))


def refuse_repeated(state: HudiTable, batch: Batch, *, by_partition: bool) -> None:
    """A batch must not have a key twice where each row is written as it is."""
    code, count = batch.codes(by_partition=by_partition)
    if count == len(batch):
        return
    repeated = np.flatnonzero(np.bincount(code) > 1)
    _, first = np.unique(code, return_index=True)
    some = batch.keys.take(pa.array(first[repeated[:3]])).to_pylist()
    raise DuplicateKeys(
        f"{state.storage.uri}: {len(repeated):,} record keys stand more than once among the rows, such as "
        f"{', '.join(map(repr, some))}; leave one row for each key"
    )


def refuse_taken(state: HudiTable, batch: Batch, placed: Placement, index: IndexKind, job: Job) -> None:
    """A row that moves to a partition which has a record of its key would be there twice."""
    rows = np.intersect1d(placed.tags.row[placed.leaving], placed.inserts)
    if index.is_global or not len(rows):
        return
    search = IndexKind.BLOOM if index is IndexKind.BUCKET else index
    moved = batch.take(rows)
    known = tag(state, moved, search, job.options, live=True)
    if len(known.row):
        some = moved.keys.take(pa.array(known.row[:3])).to_pylist()
        raise DuplicateKeys(
            f"{state.storage.uri}: {len(known.row):,} rows would move to a partition that has their record key, "
            f"such as {', '.join(map(repr, some))}; delete one of the two first"
        )


def groups_of(state: HudiTable, partitions: Sequence[str] | None) -> dict[str, list[str]]:
    """Partition → its file groups; of all partitions or of some."""
    found: dict[str, list[str]] = {}
    for slice_ in latest_slices(state, partitions):
        found.setdefault(slice_.group.partition, []).append(slice_.group.file_id)
    return found


def slices_for(state: HudiTable, bound: Expression | None) -> list[FileSlice]:
    """The slices that may hold a row that matches."""
    return [slice_ for found in state.file_index().list_files_at(None, bound) for slice_ in found.slices]


def joined_batch(
    updates: Batch, places: FoundRows, gone: FoundRows, new: Batch, tags: Tags | None, job: Job
) -> tuple[Batch, Tags]:
    """Updates of found rows, deletes of others, and new rows, as one batch with the places of all that have one."""
    deletes = Batch.deletes(job.schema, gone.keys, gone.partitions, job.rules)
    batch = Batch.concatenated([updates, deletes, new])
    slices = list(places.slices)
    number = {slice_.group: at for at, slice_ in enumerate(slices)}
    new_tags = NO_TAGS if tags is None else tags
    for slice_ in new_tags.slices:
        if slice_.group not in number:
            number[slice_.group] = len(slices)
            slices.append(slice_)
    renumbered = np.array([number[slice_.group] for slice_ in new_tags.slices], np.int64)
    first = len(updates) + len(deletes)
    return batch, Tags(
        np.concatenate([np.arange(first), first + new_tags.row]),
        np.concatenate([places.slice, gone.slice, renumbered[new_tags.slice]]),
        np.concatenate([places.position, gone.position, new_tags.position]),
        tuple(slices),
    )
