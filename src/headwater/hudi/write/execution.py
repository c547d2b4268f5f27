"""Running a write: plan on the table as it is with the lock held, mark and write the files, commit.

Until the completed file is made no reader sees any of it. A plan that is refused leaves no trace; files of a write that
fails or dies are rolled back, at once or by the next writer (`transaction`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.merge.fold import Rows
from headwater.hudi.merge.rules import MergeRules
from headwater.hudi.metadata_table.reader import RECORD_INDEX
from headwater.hudi.table import HudiTable
from headwater.hudi.write.assignment import GroupWork, How
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.bulk_writer import BulkWriter
from headwater.hudi.write.group_writer import GroupWriter, Target, Written
from headwater.hudi.write.model import RECORD_MOVES
from headwater.hudi.write.options import IndexKind, WriteOptions
from headwater.hudi.write.reconcile import evolved_avro
from headwater.hudi.write.result import Stopwatch, WriteResult
from headwater.hudi.write.tagging import bucket_count, buckets_of, latest_slices, resolve_index
from headwater.hudi.write.transaction import Action, Transaction, begin

# A file group that is written holds about so much at a time: batches, a row group, the columns being encoded.
_HELD = 256 * 1024 * 1024


@dataclass(frozen=True)
class Job:
    """What a write is, whatever its rows."""

    name: str
    """For people, and in capitals Hudi's name of the operation."""
    schema: pa.Schema
    """The table's columns from this commit on."""
    options: WriteOptions
    rules: MergeRules
    replaces: bool = False
    absent: frozenset[str] = frozenset()
    hudi_name: str | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def operation(self) -> str:
        return (self.hudi_name or self.name).upper()

    def action(self, table: HudiTable) -> Action:
        if self.replaces:
            return "replacecommit"
        return "deltacommit" if table.config.is_merge_on_read else "commit"

    def target(self, write: Transaction) -> Target:
        indexed = RECORD_INDEX in write.table.config.metadata_partitions
        known = indexed and resolve_index(write.table, self.options) is IndexKind.RECORD_INDEX
        return Target(
            write.table,
            write.instant,
            self.schema,
            self.options,
            self.rules,
            self.absent,
            indexes_records=indexed,
            places_known=known,
        )

    def nothing(self) -> WriteResult:
        """The result where there is nothing to write."""
        return WriteResult(self.name, None, seconds=dict(self.watch.seconds))


@dataclass(frozen=True)
class Plan:
    """What goes where."""

    batch: Batch
    works: Sequence[GroupWork]
    replaced: Mapping[str, Sequence[str]] = field(default_factory=dict)


def run(table: HudiTable, job: Job, plan: Callable[[HudiTable, str], Plan | None]) -> WriteResult:
    """Commit what `plan` makes of the table as it then is, given the new instant; None: nothing is to be done."""
    watch = job.watch
    with begin_job(table, job) as write:
        with watch.phase("plan"):
            made = plan(write.table, write.instant)
        if made is None or not (made.works or made.replaced):
            return job.nothing()
        with watch.phase("write"):
            written = _write_groups(write, job.target(write), made)
        return complete_job(write, job, written, made.replaced)


def run_bulk(
    table: HudiTable,
    job: Job,
    batches: Callable[[str], Iterable[Batch]],
    index: Callable[[HudiTable], IndexKind],
    replaced: Callable[[HudiTable, set[str]], Mapping[str, Sequence[str]]] | None = None,
    *,
    is_all: bool = False,
) -> WriteResult:
    """Commit new file groups of all batches; `replaced` tells, given the partitions written to, which groups go."""
    watch = job.watch
    with begin_job(table, job) as write:
        hashed = index(write.table) is IndexKind.BUCKET
        writer = BulkWriter(
            job.target(write),
            lambda partition, name: write.mark(partition, name, "CREATE"),
            _hasher(write.table, job.options) if hashed else None,
        )
        try:
            with watch.phase("write"):
                for batch in batches(write.instant):
                    writer.add(batch, is_all=is_all)
                written = writer.finish()
        finally:
            writer.abandon()
        gone = {} if replaced is None else replaced(write.table, writer.partitions)
        if not written and not gone:
            return job.nothing()
        return complete_job(write, job, written, gone)


def _hasher(table: HudiTable, options: WriteOptions) -> Callable[[Batch], Rows]:
    count = bucket_count(table, options)
    return lambda batch: buckets_of(batch, table, count, options)


def begin_job(table: HudiTable, job: Job) -> Transaction:
    """Take the lock and a new instant for a write."""
    with job.watch.phase("begin"):
        return begin(table, job.action(table), job.operation)


def _write_groups(write: Transaction, target: Target, plan: Plan) -> list[Written]:
    writers = [GroupWriter(target, work, task) for task, work in enumerate(plan.works)]
    for (partition, how), names in _names(writers).items():
        write.mark(partition, names, how.value)
    for writer in writers:
        if writer.change_log is not None:
            write.mark(writer.work.group.partition, writer.change_log, "APPEND")
    workers = min(os.cpu_count() or 1, 8, max(target.options.memory // _HELD, 1), max(len(writers), 1))
    if workers == 1:
        found = [writer.write(plan.batch) for writer in writers]
    else:
        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(lambda writer: writer.write(plan.batch), writers))
    return [one for one in found if one is not None]


def _names(writers: Sequence[GroupWriter]) -> dict[tuple[str, How], list[str]]:
    found: dict[tuple[str, How], list[str]] = {}
    for writer in writers:
        found.setdefault((writer.work.group.partition, writer.work.how), []).append(writer.name)
    return found


def complete_job(
    write: Transaction, job: Job, written: Sequence[Written], replaced: Mapping[str, Sequence[str]]
) -> WriteResult:
    files = [one.file for one in written]
    with job.watch.phase("commit"):
        instant = write.complete(
            files,
            schema=evolved_avro(write.table.schema.avro, job.schema, write.table.config.name),
            extra=_carried(write.table),
            replaced=replaced,
            moves=_moves(write.table, written, replaced),
        )
        pa.default_memory_pool().release_unused()
    return WriteResult(
        job.name,
        instant,
        sum(file.inserted for file in files),
        sum(file.updated for file in files),
        sum(file.deleted for file in files),
        # The commit was the last to ask for bloom filters; a result may be kept for long.
        tuple(replace(file, bloom=None) for file in files),
        {partition: tuple(ids) for partition, ids in replaced.items()},
        dict(job.watch.seconds),
    )


def _carried(table: HudiTable) -> dict[str, str]:
    """What every commit of a table with schema on read repeats: the ids of its columns."""
    if table.schema.internal is None:
        return {}
    for instant in reversed(table.timeline.commits):
        text = table.timeline.extra(instant).get("latest_schema")
        if text:
            return {"latest_schema": text}
    return {}


def _moves(
    table: HudiTable, written: Sequence[Written], replaced: Mapping[str, Sequence[str]]
) -> Iterator[pa.RecordBatch]:
    """Where records went: those of the files written, and those of replaced groups that did not come again."""
    for one in written:
        yield from one.moves.to_batches()
    if RECORD_INDEX not in table.config.metadata_partitions or not replaced:
        return
    came = pa.chunked_array([chunk for one in written for chunk in one.moves.column("key").chunks], pa.string())
    again = came.combine_chunks() if came.num_chunks else pa.array([], pa.string())
    reader = table.reader(table.schema)
    for slice_ in latest_slices(table, sorted(replaced)):
        if slice_.group.file_id not in replaced[slice_.group.partition]:
            continue
        for keys, _ in reader.keys_of(slice_):
            gone = keys.filter(pc.invert(pc.is_in(keys, value_set=again)))
            count = len(gone)
            texts = (slice_.group.partition, slice_.group.file_id, slice_.base_instant)
            columns = [gone, *(pa.repeat(text, count) for text in texts), pa.repeat(True, count)]
            yield from pa.Table.from_arrays(columns, schema=RECORD_MOVES).to_batches()
