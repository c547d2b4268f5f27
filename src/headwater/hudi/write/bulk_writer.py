"""Rows into new file groups as they come: in each partition one file of the target size after the other.

Nothing that is stored is looked at. A crash leaves files that no commit names; markers tell the next writer which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.merge.fold import Rows
from headwater.hudi.write.assignment import new_bucket_file_id, new_file_id
from headwater.hudi.write.base_writer import BaseFileWriter
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.group_writer import Target, Written
from headwater.hudi.write.model import RECORD_MOVES
from headwater.hudi.write.row_size import measured_row_bytes, row_bytes, rows_in

_PART = 128 * 1024
# What an open file may hold of rows before it writes a row group, where many are open at once.
_HELD = 16 * 1024 * 1024


@dataclass
class _OpenFile:
    writer: BaseFileWriter
    rows: int
    most_rows: int
    moves: list[pa.Table]


class BulkWriter:
    """Takes batches; gives the files when it is finished.

    Parameters
    ----------
    mark
        Called with the partition and the name of each file before it is made.
    buckets
        Batch → the bucket of each row, where the table is hashed: a bucket is one file, whatever its size.
    task
        Which of several writers of the same commit this is.
    """

    def __init__(
        self,
        target: Target,
        mark: Callable[[str, str], None],
        buckets: Callable[[Batch], Rows] | None = None,
        task: int = 0,
    ) -> None:
        self._target = target
        self._mark = mark
        self._buckets = buckets
        self._open: dict[tuple[str, int], _OpenFile] = {}
        self._done: list[Written] = []
        self._task = task
        self._rows = 0
        self._row_bytes: float | None = None
        self.partitions: set[str] = set()

    def add(self, batch: Batch, *, is_all: bool = False) -> None:
        """Write a batch. With `is_all` none comes after it: a partition's file is closed when its rows are through."""
        if not len(batch):
            return
        if self._row_bytes is None:
            self._row_bytes = row_bytes(batch.rows, batch.keys, self._target.options.codec)
        codes, paths = batch.partition_codes
        buckets = np.zeros(len(batch), np.int64) if self._buckets is None else self._buckets(batch)
        span = int(buckets.max(initial=0)) + 1
        place = codes * span + buckets
        order = np.argsort(place, kind="stable")
        bounds = np.flatnonzero(np.r_[True, place[order][1:] != place[order][:-1], True])
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            rows = order[start:end]
            number = int(place[rows[0]])
            key = (paths[number // span], number % span)
            self._add(key, batch, rows)
            if is_all:
                self._close(key)
        self._make_room()

    def finish(self) -> list[Written]:
        """Close what is open; every file that was written."""
        for key in list(self._open):
            self._close(key)
        return self._done

    def abandon(self) -> None:
        """Let go of files that are not finished."""
        for file in self._open.values():
            file.writer.abandon()

    def _add(self, key: tuple[str, int], batch: Batch, rows: Rows) -> None:
        self.partitions.add(key[0])
        while len(rows):
            file = self._open.get(key) or self._start(key)
            self._open[key] = self._open.pop(key)  # used last, closed last
            room = min(file.most_rows - file.rows, _PART)
            taken, rows = rows[:room], rows[room:]
            new, keys = batch.rows_and_keys(taken)
            part = self._target.stamped(new, keys, key[0], file.writer.name, self._task, self._rows)
            file.writer.write(part)
            file.rows += len(taken)
            self._rows += len(taken)
            if self._target.indexes_records:
                file.moves.append(self._moves(keys, key[0], file.writer.file_id))
            if file.rows >= file.most_rows:
                self._close(key)

    def _start(self, key: tuple[str, int]) -> _OpenFile:
        partition, bucket = key
        file_id = new_file_id() if self._buckets is None else new_bucket_file_id(bucket)
        name = self._target.base_name(file_id, self._task)
        self._mark(partition, name)
        most = rows_in(self._target.options.target_file_size, self._row_bytes or 1)
        file = _OpenFile(
            self._target.open_base(partition, name),
            0,
            most if self._buckets is None else 2**62,
            [],
        )
        self._open[key] = file
        return file

    def _close(self, key: tuple[str, int]) -> None:
        file = self._open.pop(key, None)
        if file is None:
            return
        try:
            written = file.writer.finish(inserted=file.rows)
        except BaseException:
            # A file that stays open keeps its room on a full disk, although it is deleted.
            file.writer.abandon()
            raise
        if file.rows > _PART:
            # What a file really took tells better than the sample; small files are mostly footer.
            self._row_bytes = measured_row_bytes(written.size, file.rows)
        moves = pa.concat_tables(file.moves) if file.moves else RECORD_MOVES.empty_table()
        self._done.append(Written(written, moves))

    def _make_room(self) -> None:
        """Not more files are open than the budget allows; the one that got no rows for longest is closed."""
        if self._buckets is not None:
            return
        while len(self._open) * _HELD > max(self._target.options.memory // 2, _HELD):
            self._close(next(iter(self._open)))

    def _moves(self, keys: pa.Array, partition: str, file_id: str) -> pa.Table:
        count = len(keys)
        texts = (partition, file_id, self._target.instant)
        columns = [keys, *(pa.repeat(text, count) for text in texts), pa.repeat(False, count)]
        return pa.Table.from_arrays(columns, schema=RECORD_MOVES)


def sorted_by_key(batch: Batch) -> Batch:
    """The rows by partition and record key."""
    table = pa.table({"partition": batch.partitions, "key": batch.keys})
    order = pc.sort_indices(table, [("partition", "ascending"), ("key", "ascending")])
    return batch.take(np.asarray(order).astype(np.int64))
