"""Bulk insert through Spark: every task writes new base files of its rows, one after the other in each partition.

Nothing is shuffled unless a sort is asked for. A task that dies leaves files whose markers are there; the attempt that
takes its place makes files of other names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.hudi.write import markers
from headwater.hudi.write.bulk_writer import BulkWriter
from headwater.hudi.write.group_writer import Target, Written
from headwater.hudi.write.incoming import Shape
from headwater.spark.write.frames import Batches
from headwater.spark.write.reports import Attempt, reported

# Rows that a task holds before it hands them to the writer, and what they may take in memory.
_ROWS = 128 * 1024
_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class BulkTask:
    """Writes the rows of one partition of a frame."""

    target: Target
    shape: Shape
    combine: bool = False

    def __call__(self, batches: Batches) -> Batches:
        attempt = Attempt.current()
        written = self._written(batches, attempt)
        yield from reported(self.target.table.storage, self.target.instant, attempt, written)

    def _written(self, batches: Batches, attempt: Attempt) -> Iterator[Written]:
        target = replace(self.target, attempt=attempt.token)
        writer = BulkWriter(target, self._mark, task=attempt.partition)
        first = 0
        try:
            for rows in in_chunks(batches, _ROWS, _BYTES):
                batch = self.shape.batch_of(rows)
                batch = self.shape.keyed(batch, self.target.instant, first, attempt.partition)
                first += len(batch)
                if batch.deleted.any():
                    batch = batch.take(np.flatnonzero(~batch.deleted))
                if self.combine:
                    batch = batch.combined(self.shape.rules, by_partition=True)
                writer.add(batch)
            yield from writer.finish()
        finally:
            writer.abandon()

    def _mark(self, partition: str, name: str) -> None:
        table = self.target.table
        markers.write_markers(table.storage, table.config, self.target.instant, partition, [name], "CREATE")


def in_chunks(batches: Batches, most_rows: int, most_bytes: int) -> Iterator[pa.Table]:
    """Batches put together to tables of about so many rows or bytes.

    >>> parts = pa.table({"id": range(10)}).to_batches(max_chunksize=2)
    >>> [part.num_rows for part in in_chunks(iter(parts), 4, 1000)]
    [4, 4, 2]
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= most_rows or size >= most_bytes:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)
