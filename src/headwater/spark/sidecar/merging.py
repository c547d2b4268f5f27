"""What an executor asks for: the rows of a slice, or the difference that its logs make to its base file."""

from __future__ import annotations

import json
import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.hudi.evolution import conform
from headwater.hudi.slice_reader import HudiSliceReader
from headwater.spec.model import FileGroupId, FileRef, FileSlice

FILE, POSITION, PARTITION = "_file", "_pos", "_partition"
METADATA_COLUMNS = (FILE, POSITION, PARTITION)

_POSITION_COLUMN = "\x00position"
_ENCODER = json.JSONEncoder(separators=(",", ":"))
# Few enough that a batch stays in a core's cache on its way from the pipe into Spark's vectors.
_BATCH_ROWS = 8 * 1024
_BATCH_BYTES = 8 * 1024 * 1024


class OtherVersion(HeadwaterError, RuntimeError):
    """The driver and the executor run different releases of this package."""


def encode_slice(slice_: FileSlice) -> bytes:
    """A slice as the payload of a task; its statistics stay behind.

    >>> slice_ = FileSlice(FileGroupId("p", "f"), "1", FileRef("p/f.parquet", 10), (FileRef("p/.f.log", None),))
    >>> decode_slice(encode_slice(slice_)) == slice_
    True
    """
    base = slice_.base_file
    found = [
        slice_.group.partition,
        slice_.group.file_id,
        slice_.base_instant,
        None if base is None else [base.path, base.size],
        [[ref.path, ref.size] for ref in slice_.delta_files],
        None if slice_.instants is None else sorted(slice_.instants),
        slice_.as_of,
    ]
    return _ENCODER.encode(found).encode("utf-8")


def decode_slice(payload: bytes) -> FileSlice:
    partition, file_id, instant, base, deltas, instants, as_of = json.loads(payload)
    return FileSlice(
        FileGroupId(partition, file_id),
        instant,
        None if base is None else FileRef(*base),
        tuple(FileRef(*ref) for ref in deltas),
        None if instants is None else frozenset(instants),
        as_of,
    )


@dataclass(frozen=True)
class SliceScan:
    """Reads the slices of one plan. Executors get it from the driver by pickle: they see the state that was planned."""

    reader: HudiSliceReader
    output: pa.Schema
    """The asked-for columns in the types that Spark reads."""
    metadata_columns: tuple[str, ...] = ()
    partition_type: pa.DataType | None = None
    """The struct of the partition columns."""
    remembers: bool = True
    """Whether outcomes of merging are kept for later queries."""

    def to_bytes(self, version: str) -> bytes:
        return version.encode("ascii") + b"\n" + zlib.compress(pickle.dumps(self, protocol=5), 1)

    @classmethod
    def from_bytes(cls, data: bytes, version: str) -> SliceScan:
        made_by, _, content = bytes(data).partition(b"\n")
        if made_by != version.encode("ascii"):
            raise OtherVersion(
                f"the driver runs headwater {made_by.decode('ascii', 'replace')[:40]} and this executor {version}; "
                "install the same release on all machines"
            )
        found = pickle.loads(zlib.decompress(content))
        assert isinstance(found, cls)
        return found

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the rows that are sent: the asked-for columns, then metadata columns."""
        types = {FILE: pa.string(), POSITION: pa.int64(), PARTITION: self.partition_type}
        return pa.schema([*self.output, *(pa.field(name, types[name]) for name in self.metadata_columns)])

    def merge(self, slice_: FileSlice, *, rows: bool) -> Iterator[tuple[npt.NDArray[np.int64], pa.Table | None, bool]]:
        """Parts of the difference: positions that go, rows that come (if wanted), and whether it is the last part."""
        reader = self.reader if rows else replace(self.reader, schema=pa.schema([]), filter=None)
        for part in reader.merge_over_base(slice_):
            added = self._for_spark(part.added, slice_) if rows and part.added.num_rows else None
            yield part.dropped, added, part.is_last

    def read(self, slice_: FileSlice) -> Iterator[pa.Table]:
        """All rows of a slice."""
        reader = self.reader.with_positions(_POSITION_COLUMN) if POSITION in self.metadata_columns else self.reader
        for batch in reader.open(slice_):
            yield self._for_spark(pa.Table.from_batches([batch]), slice_)

    def _for_spark(self, table: pa.Table, slice_: FileSlice) -> pa.Table:
        rows = table.num_rows
        found = conform(table, self.output) if len(self.output) else table.select([])
        for name in self.metadata_columns:
            field = self.schema.field(name)
            if name == FILE:
                column: Any = pa.repeat(pa.scalar(slice_.paths[0]), rows)
            elif name == PARTITION:
                column = pa.repeat(pa.scalar(self._partition(slice_), field.type), rows)
            elif _POSITION_COLUMN in table.column_names:
                column = table.column(_POSITION_COLUMN)
            else:
                column = pa.nulls(rows, field.type)
            found = found.append_column(field, column)
        return found

    def _partition(self, slice_: FileSlice) -> dict[str, Any]:
        assert self.partition_type is not None
        known = self.reader.context.constants(slice_.group.partition)
        return {field.name: known.get(field.name) for field in self.partition_type}


def bitmap(positions: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.uint8]:
    """Positions as the bytes of 64-bit little-endian words: bit i of word w is row 64·w + i.

    >>> bitmap([np.array([0, 9]), np.array([64])]).tobytes().hex()
    '01020000000000000100000000000000'
    """
    highest = max((int(part[-1]) for part in positions if len(part)), default=-1)
    flags = np.zeros(-(-(highest + 1) // 64) * 64, bool)
    for part in positions:
        flags[part] = True
    return np.packbits(flags, bitorder="little")


def batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Batches of a size that is sent at once: not many small ones, and none that is large."""
    rows = table.num_rows
    if not table.num_columns:
        empty = pa.record_batch({"rows": pa.nulls(min(rows, _BATCH_ROWS))}).select([])
        for start in range(0, rows, _BATCH_ROWS):
            yield empty.slice(0, min(_BATCH_ROWS, rows - start))
        return
    if any(column.num_chunks > 1 for column in table.columns):
        table = table.combine_chunks()
    most = max(1024, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, table.nbytes)))
    yield from table.to_batches(max_chunksize=most)
