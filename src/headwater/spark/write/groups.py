"""Writing file groups in a task: rows come by work and record key; each work becomes a file.

New groups are written as their rows come. A group that is rewritten, or gets a log file, holds the rows it gets and
goes through its base file batch by batch. Of several rows of a record one is taken, here, where they have met: that
needs no shuffle of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import WriteRefused
from headwater.hudi.merge.fold import Rows
from headwater.hudi.write import markers
from headwater.hudi.write.assignment import GroupWork, How
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.group_writer import GroupWriter, Target, Written
from headwater.hudi.write.incoming import Shape
from headwater.hudi.write.model import RECORD_MOVES
from headwater.hudi.write.planning import refuse_repeated
from headwater.hudi.write.tagging import UNKNOWN
from headwater.spark.write.frames import Batches
from headwater.spark.write.keys import KEY
from headwater.spark.write.places import POSITION, SLICE
from headwater.spark.write.reports import Attempt, reported
from headwater.spark.write.routes import LEAVING, WORK

_OURS = (KEY, WORK, SLICE, POSITION, LEAVING)
_ROWS = 128 * 1024
_BYTES = 64 * 1024 * 1024
# Rows of a log file are held in several forms on their way into it.
_SHARE = 4


@dataclass(frozen=True)
class GroupTask:
    """Writes the works whose rows come to one task."""

    target: Target
    shape: Shape
    works: tuple[GroupWork, ...]
    combine: bool = True
    """Whether one row of a record is taken; else each is written."""
    unique: bool = False
    """Whether rows of the same record are refused."""
    deletes: bool = False
    """Whether the rows are keys of records to delete."""

    def __call__(self, batches: Batches) -> Batches:
        attempt = Attempt.current()
        seen = _Seen()
        target = replace(self.target, attempt=attempt.token)
        written = self._written(target, seen.counted(batches))
        yield from reported(target.table.storage, target.instant, attempt, written, seen)

    def _written(self, target: Target, batches: Batches) -> Iterator[Written]:
        for number, parts in by_work(batches):
            work = self.works[number]
            if work.how is How.CREATE and not self.deletes:
                one = self._created(target, work, number, parts)
                if one is not None:
                    yield one
            elif work.how is How.APPEND:
                yield from self._appended(target, work, number, parts)
            else:
                one = self._changed(GroupWriter(target, work, number), pa.concat_tables(parts))
                if one is not None:
                    yield one

    # -------------------------------------------------------------------------------------------- a new base file

    def _created(self, target: Target, work: GroupWork, number: int, parts: Iterator[pa.Table]) -> Written | None:
        partition, name = work.group.partition, target.base_name(work.group.file_id, number)
        self._mark(target, partition, name, How.CREATE)
        count, moves = 0, []
        with target.open_base(partition, name) as writer:
            for rows in whole_keys(parts) if self.combine or self.unique else parts:
                batch = self.shape.keyed(self._batch(rows), target.instant, count, number)
                batch = batch.take(np.flatnonzero(~batch.deleted)) if not self.combine else self._combined(batch)
                writer.write(target.stamped(batch.rows, batch.keys, partition, name, number, count))
                count += len(batch)
                if target.indexes_records:
                    moves.append(_arrived(batch.keys, work, target.instant))
            if not count:
                return None
            return Written(writer.finish(inserted=count), pa.concat_tables([RECORD_MOVES.empty_table(), *moves]))

    def _combined(self, batch: Batch) -> Batch:
        batch = batch.combined(self.shape.rules, by_partition=True)
        return batch.take(np.flatnonzero(~batch.deleted)) if batch.deleted.any() else batch

    # ------------------------------------------------------------------------------------------- a group that is there

    def _appended(self, target: Target, work: GroupWork, number: int, parts: Iterator[pa.Table]) -> Iterator[Written]:
        """Log files, each of as many rows as may be held; no record is in two of them."""
        writer = GroupWriter(target, work, number)
        for rows in gathered(whole_keys(parts), max(target.options.memory // _SHARE, 1)):
            one = self._changed(writer, rows)
            if one is not None:
                yield one
            writer = replace(writer, part=writer.part + 1, first=writer.first + rows.num_rows)

    def _changed(self, empty: GroupWriter, rows: pa.Table) -> Written | None:
        target, work = empty.target, empty.work
        batch = self.shape.keyed(self._batch(rows, work), target.instant, empty.first, empty.task)
        writer = replace(empty, work=self._placed(batch, work, rows))
        self._mark(target, work.group.partition, writer.name, work.how)
        if writer.change_log is not None:
            self._mark(target, work.group.partition, writer.change_log, How.APPEND)
        return writer.write(batch)

    def _placed(self, batch: Batch, work: GroupWork, rows: pa.Table) -> GroupWork:
        """The work with its rows: of each record the one that wins, at all of its places."""
        stored = np.asarray(rows.column(SLICE).is_valid())
        positions = np.asarray(pc.fill_null(rows.column(POSITION), UNKNOWN)).astype(np.int64)
        leaving = np.zeros(len(batch), bool)
        if LEAVING in rows.column_names:
            leaving = np.asarray(pc.fill_null(rows.column(LEAVING), False)).astype(bool)
        every = np.arange(len(batch))
        if not self.combine:
            at = np.flatnonzero(stored)
            return replace(work, rows=at, positions=positions[at], leaving=leaving[at], inserts=np.flatnonzero(~stored))
        code, count = batch.codes(by_partition=False)
        winner: Rows = every
        if count < len(batch):
            winner = batch.winners(self.shape.rules, code)
            # A place counts once, however many rows of the record have come.
            order = np.lexsort((positions, code, ~stored))
            same = (code[order][1:] == code[order][:-1]) & (positions[order][1:] == positions[order][:-1])
            every = np.sort(order[np.r_[True, ~same]])
        else:
            winner = np.empty(count, np.int64)
            winner[code] = every
        at, new = every[stored[every]], every[~stored[every]]
        return replace(
            work,
            rows=winner[code[at]],
            positions=positions[at],
            leaving=leaving[at],
            inserts=np.unique(winner[code[new]]),
        )

    def _batch(self, rows: pa.Table, work: GroupWork | None = None) -> Batch:
        keys = rows.column(KEY).combine_chunks()
        keys = pa.concat_arrays(keys.chunks) if isinstance(keys, pa.ChunkedArray) else keys
        if self.deletes:
            assert work is not None
            return Batch.deletes(self.shape.schema, keys, pa.repeat(work.group.partition, len(keys)), self.shape.rules)
        batch = self.shape.batch_of(rows.drop_columns([name for name in _OURS if name in rows.column_names]))
        if not self.shape.makes_keys and not batch.keys.equals(keys):
            raise WriteRefused(
                f"{self.target.table.storage.uri}: Spark spelled record keys otherwise than the key generator does; "
                "give the key columns as texts"
            )
        if self.unique:
            refuse_repeated(self.target.table, batch, by_partition=True)
        return batch

    def _mark(self, target: Target, partition: str, name: str, how: How) -> None:
        table = target.table
        markers.write_markers(table.storage, table.config, target.instant, partition, [name], how.value)


class _Seen:
    """Counts the rows that come to a task."""

    def __init__(self) -> None:
        self.rows = 0

    def counted(self, batches: Batches) -> Batches:
        for batch in batches:
            self.rows += batch.num_rows
            yield batch


def by_work(batches: Batches) -> Iterator[tuple[int, Iterator[pa.Table]]]:
    """The rows of each work, in parts; all parts of one are to be taken before the next work.

    >>> rows = pa.table({WORK: pa.array([3, 3, 5], pa.int32()), "id": [1, 2, 3]}).to_batches(max_chunksize=2)
    >>> [(work, [part.column("id").to_pylist() for part in parts]) for work, parts in by_work(iter(rows))]
    [(3, [[1, 2]]), (5, [[3]])]
    """
    runs = _runs(batches)
    following = next(runs, None)

    def parts(number: int) -> Iterator[pa.Table]:
        nonlocal following
        held: list[pa.RecordBatch] = []
        rows = size = 0
        while following is not None and following[0] == number:
            held.append(following[1])
            rows += following[1].num_rows
            size += following[1].nbytes
            if rows >= _ROWS or size >= _BYTES:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
            following = next(runs, None)
        if held:
            yield pa.Table.from_batches(held)

    while following is not None:
        number = following[0]
        yield number, parts(number)


def _runs(batches: Batches) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        if not batch.num_rows:
            continue
        works = np.asarray(batch.column(batch.schema.get_field_index(WORK)))
        bounds = np.flatnonzero(np.r_[True, works[1:] != works[:-1], True])
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            yield int(works[start]), batch.slice(start, end - start)


def whole_keys(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Parts of rows in the order of their keys, cut anew so that no key is in two of them.

    >>> cut = whole_keys(iter([pa.table({KEY: ["a", "b"]}), pa.table({KEY: ["b", "c"]})]))
    >>> [part.column(KEY).to_pylist() for part in cut]
    [['a'], ['b', 'b'], ['c']]
    """
    held: list[pa.Table] = []
    for part in parts:
        keys = part.column(KEY)
        last = max(pc.index(keys, keys[-1]).as_py(), 0)  # none is found for null, which is refused later
        if last > 0:
            yield pa.concat_tables([*held, part.slice(0, last)])
            held = []
        held.append(part.slice(last))
    if held:
        yield pa.concat_tables(held)


def gathered(parts: Iterator[pa.Table], most_bytes: int) -> Iterator[pa.Table]:
    """Parts put together as far as a limit of bytes allows.

    >>> [part.num_rows for part in gathered(iter([pa.table({"a": [1, 2]})] * 3), 40)]
    [4, 2]
    """
    held: list[pa.Table] = []
    size = 0
    for part in parts:
        if held and size + part.nbytes > most_bytes:
            yield pa.concat_tables(held)
            held, size = [], 0
        held.append(part)
        size += part.nbytes
    if held:
        yield pa.concat_tables(held)


def _arrived(keys: pa.Array, work: GroupWork, instant: str) -> pa.Table:
    count = len(keys)
    texts = (work.group.partition, work.group.file_id, instant)
    columns = [keys, *(pa.repeat(text, count) for text in texts), pa.repeat(False, count)]
    return pa.Table.from_arrays(columns, schema=RECORD_MOVES)
