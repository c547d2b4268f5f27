"""Where a record key lives."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pyarrow as pa

LOCATION_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("partition", pa.string()),
        pa.field("file_id", pa.string()),
        pa.field("instant", pa.string()),
        pa.field("position", pa.int64()),
    ]
)
"""What `RecordIndex.tag` gives: one row per key and place, in the order of the keys; nulls where the key is absent."""


@runtime_checkable
class RecordIndex(Protocol):
    """Finds records by their key."""

    def tag(self, keys: pa.Array) -> pa.Table:
        """The location of each key, as `LOCATION_SCHEMA`.

        A key that stands in several partitions has a row for each of them.
        """
