"""Where the metadata table keeps what: its file groups, and which of them a key goes to (facts 8.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import UnsupportedTable
from headwater.hudi.index import hashing
from headwater.hudi.metadata_table.reader import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataTable,
)

WRITABLE = (FILES, COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS, RECORD_INDEX)
"""The partitions of the metadata table that this library keeps up to date, in the order in which they are made."""

_PREFIXES = {
    FILES: "files-",
    COLUMN_STATS: "col-stats-",
    PARTITION_STATS: "partition-stats-",
    BLOOM_FILTERS: "bloom-filters-",
    RECORD_INDEX: "record-index-",
}
_COUNTS = {FILES: 1, COLUMN_STATS: 2, PARTITION_STATS: 1, BLOOM_FILTERS: 4}
_FEWEST_OF_RECORD_INDEX = 10
_RECORDS_PER_GROUP = 4_000_000

DATA_BLOCK_SIZE = {RECORD_INDEX: 16 << 10}
"""Where single keys are looked up, a block is what one of them costs to read."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Records of a partition of the metadata table: keys and Avro values, an empty one for a record that is gone."""

    keys: pa.Array
    values: pa.Array

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, records: dict[str, bytes]) -> Entries:
        keys = [key.encode() for key in records]
        return cls(pa.array(keys, pa.binary()), pa.array(list(records.values()), pa.binary()))


def file_group_count(partition: str, records: int = 0) -> int:
    """How many file groups a new partition gets; it keeps them for good.

    >>> file_group_count("files"), file_group_count("record_index", 1000), file_group_count("record_index", 10**8)
    (1, 10, 25)
    """
    if partition == RECORD_INDEX:
        return max(_FEWEST_OF_RECORD_INDEX, -(-records // _RECORDS_PER_GROUP))
    return _COUNTS[partition]


def file_id(partition: str, index: int) -> str:
    """The id of a file group.

    >>> file_id("record_index", 7)
    'record-index-0007-0'
    """
    return f"{_PREFIXES[partition]}{index:04d}-0"


def by_group(entries: Entries, count: int) -> Iterator[tuple[int, Entries]]:
    """The entries of each file group that gets some, sorted by key; of equal keys the last one that is not gone.

    A record that moves to another partition of the table is gone here and there again.

    >>> keys = pa.array([b"b", b"a", b"b"], pa.binary())
    >>> values = pa.array([b"", b"1", b"2"], pa.binary())
    >>> [(index, part.keys.to_pylist(), part.values.to_pylist()) for index, part in by_group(Entries(keys, values), 1)]
    [(0, [b'a', b'b'], [b'1', b'2'])]
    """
    import polars as pl

    if not len(entries):
        return
    groups = hashing.file_group_indexes(entries.keys, count)
    keys = pl.Series(entries.keys.cast(pa.large_binary()))
    rows = keys.arg_sort().to_numpy().astype(np.int64)
    ordered = entries.keys.take(pa.array(rows))
    if len(ordered) > 1 and pc.any(pc.equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1))).as_py():
        rows = _last_that_is_there(keys, entries.values)
    rows = rows[np.argsort(groups[rows], kind="stable")]
    numbers = groups[rows]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        chosen = pa.array(rows[start:stop])
        yield int(numbers[start]), Entries(entries.keys.take(chosen), entries.values.take(chosen))


def _last_that_is_there(keys: Any, values: pa.Array) -> npt.NDArray[np.int64]:
    """Rows sorted by key, of equal keys one; `keys` is a series of Polars."""
    import polars as pl

    there = pc.greater(pc.binary_length(values), 0)
    frame = pl.DataFrame({"key": keys, "there": pl.Series(there), "row": np.arange(len(keys), dtype=np.int64)})
    ordered = frame.sort("key", "there", "row").unique("key", keep="last", maintain_order=True)
    rows: npt.NDArray[np.int64] = ordered.get_column("row").to_numpy()
    return rows


def refuse_other_indexes(metadata: MetadataTable) -> None:
    """Raise where the table has an index that this library does not keep: it would go stale and hide rows."""
    config = metadata.data.config
    others = [name for name in config.metadata_partitions if name not in WRITABLE]
    if RECORD_INDEX in config.metadata_partitions and metadata.index_is_partitioned:
        others.append(f"{RECORD_INDEX} (kept by partition)")
    if others:
        raise UnsupportedTable(
            f"{metadata.data.storage.uri}: has indexes that this library does not keep up to date: "
            f"{', '.join(others)}; drop them, and make them anew with Apache Hudi when they are needed"
        )
