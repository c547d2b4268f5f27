"""Where records went, sorted to the file groups of the record index; on disk where they are too many for memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.index import hashing
from headwater.hudi.metadata_table.encoding import location_values
from headwater.hudi.metadata_table.layout import Entries, by_group

_IN_MEMORY = 256 << 20
_SPILLED = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def entries_by_group(
    moves: Iterable[pa.RecordBatch], count: int, version: int, *, in_utc: bool, budget: int = _IN_MEMORY
) -> Iterator[tuple[int, Entries]]:
    """The record index's entries for each of its `count` file groups, sorted by key.

    Up to `budget` bytes they stay in memory; beyond, they wait in temporary files, and one file group is in memory at
    a time.

    >>> from headwater.hudi.write.model import RECORD_MOVES
    >>> row = ("k1", "p", "7615f770-1c61-323c-bfc4-d5a37c3f2e39-0", "20260101000000000", False)
    >>> batch = pa.record_batch([[value] for value in row], schema=RECORD_MOVES)
    >>> [(index, len(part)) for index, part in entries_by_group([batch], 10, 9, in_utc=True)]
    [(6, 1)]
    """
    kept: list[Entries] = []
    size = 0
    rest = iter(moves)
    for batch in rest:
        part = _entries(batch, version, in_utc=in_utc)
        kept.append(part)
        size += part.keys.nbytes + part.values.nbytes
        if size > budget:
            break
    else:
        yield from by_group(_joined(kept), count)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-")))
        _spill(folder, count, kept, (_entries(batch, version, in_utc=in_utc) for batch in rest))
        for index in range(count):
            with pa.OSFile(str(folder / str(index))) as source, pa.ipc.open_stream(source) as reader:
                table = reader.read_all().combine_chunks()
            if table.num_rows:
                found = Entries(_flat(table.column("key")), _flat(table.column("value")))
                # All of them belong to this group: they need only be put in order.
                for _, part in by_group(found, 1):
                    yield index, part


def _spill(folder: Path, count: int, kept: list[Entries], rest: Iterable[Entries]) -> None:
    with ExitStack() as stack:
        writers = []
        for index in range(count):
            sink = stack.enter_context(pa.OSFile(str(folder / str(index)), "wb"))
            writers.append(stack.enter_context(pa.ipc.new_stream(sink, _SPILLED)))
        while kept:
            _write(writers, kept.pop(0))
        for part in rest:
            _write(writers, part)


def _write(writers: list[pa.RecordBatchStreamWriter], part: Entries) -> None:
    groups = hashing.file_group_indexes(part.keys, len(writers))
    for index in np.unique(groups).tolist():
        rows = pa.array(np.flatnonzero(groups == index))
        writers[index].write_batch(pa.record_batch([part.keys.take(rows), part.values.take(rows)], schema=_SPILLED))


def _entries(batch: pa.RecordBatch, version: int, *, in_utc: bool) -> Entries:
    keys = batch.column("key")
    if pa.types.is_dictionary(keys.type):
        keys = pc.cast(keys, pa.string())
    return Entries(keys.cast(pa.binary()), location_values(batch, version, in_utc=in_utc))


def _joined(parts: list[Entries]) -> Entries:
    if not parts:
        return Entries(pa.array([], pa.binary()), pa.array([], pa.binary()))
    return Entries(pa.concat_arrays([p.keys for p in parts]), pa.concat_arrays([p.values for p in parts]))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
