"""What tasks of a write tell the driver: files and moved records, or why the write is refused.

A report is a row of the frame that `mapInArrow` gives. Spark hands the driver the rows of one attempt at each task;
what other attempts have written is known from its marker alone, and removed when the write is completed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from headwater.errors import HeadwaterError, StorageError
from headwater.hudi.write import markers
from headwater.hudi.write.group_writer import Written
from headwater.hudi.write.model import RECORD_MOVES
from headwater.storage import Storage

SCHEMA = "kind string, body binary"
_ARROW = pa.schema([("kind", pa.string()), ("body", pa.binary())])
_WRITTEN, _REFUSED, _SEEN = "written", "refused", "seen"
# Moves beyond this go through a file: the driver would hold every key of a large load at once.
_INLINE = 1024 * 1024


@dataclass(frozen=True)
class StoredMoves:
    """Record moves in a file beside the markers, which goes when they do."""

    storage: Storage
    path: str

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        with self.storage.open(self.path) as source, pa.ipc.open_stream(source) as reader:
            yield from reader


@dataclass(frozen=True)
class Attempt:
    """One try of Spark at one task."""

    partition: int
    stage: int
    number: int

    @classmethod
    def current(cls) -> Attempt:
        """The one that this process is in."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            return cls(0, 0, 0)
        return cls(context.partitionId(), context.stageId(), context.taskAttemptId())

    @property
    def token(self) -> str:
        """The end of a write token: no other attempt has the same."""
        return f"{self.stage}-{self.number}"


class Seen(Protocol):
    """How many rows came to a task."""

    rows: int


@dataclass(frozen=True)
class Reports:
    """What all tasks of a job have told."""

    written: list[Written]
    rows: int
    """Rows that came to tasks that count them."""


def reported(
    storage: Storage, instant: str, attempt: Attempt, written: Iterable[Written], seen: Seen | None = None
) -> Iterator[pa.RecordBatch]:
    """The reports of a task. What cannot be written is told, not raised: Spark would try it again, in vain."""
    try:
        for number, one in enumerate(written):
            yield _row(_WRITTEN, _lighter(storage, instant, attempt, number, one))
        if seen is not None:
            yield _row(_SEEN, seen.rows)
    except StorageError:
        raise
    except HeadwaterError as error:
        yield _row(_REFUSED, error)


def _lighter(storage: Storage, instant: str, attempt: Attempt, number: int, one: Written) -> Written:
    if one.moves.nbytes <= _INLINE:
        return one
    path = f"{markers.FOLDER}/{instant}/moves_{attempt.partition}-{attempt.token}_{number}.arrow"
    with storage.open_output(path) as sink, pa.ipc.new_stream(sink, RECORD_MOVES) as stream:
        stream.write_table(one.moves)
    return replace(one, moves=StoredMoves(storage, path))


def _row(kind: str, body: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"kind": kind, "body": pickle.dumps(body)}], schema=_ARROW)


def read_reports(rows: Sequence[Any]) -> Reports:
    """What was written; raises what a task refused."""
    refused = [row for row in rows if row[0] == _REFUSED]
    if refused:
        error: HeadwaterError = pickle.loads(bytes(refused[0][1]))
        raise error
    written = [pickle.loads(bytes(row[1])) for row in rows if row[0] == _WRITTEN]
    return Reports(written, sum(pickle.loads(bytes(row[1])) for row in rows if row[0] == _SEEN))
