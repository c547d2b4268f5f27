"""What a write made: the files, what is in them, and where each record went.

File writers give these values, the commit and the metadata table take them; they travel between processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

# Where records went: one row for each key that is new, moved or gone.
RECORD_MOVES = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("instant", pa.string(), nullable=False),
        pa.field("deleted", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Statistics of one column of one file; no bounds where all values are null or the type has no order."""

    column: str
    minimum: Any
    maximum: Any
    null_count: int
    value_count: int
    size: int = 0
    uncompressed_size: int = 0


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A base file or a log file that a write has finished.

    `rows` counts the rows of a base file or the records of a log file, deletes among them; `inserted`, `updated` and
    `deleted` count what changed. `previous_instant` is the base instant of the slice that the file replaces or adds to,
    None for a new file group; `base_file` is the name of that slice's base file.
    """

    partition: str
    file_id: str
    name: str
    size: int
    rows: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    previous_instant: str | None = None
    base_file: str | None = None
    is_log: bool = False
    log_version: int = 1
    earlier_logs: tuple[str, ...] = ()
    ranges: tuple[ColumnRange, ...] = ()
    bloom: str | None = None
    """The serialized bloom filter of a base file's keys, as its footer holds it."""
    smallest_key: str | None = None
    largest_key: str | None = None
    blocks: int = 0
    change_files: tuple[tuple[str, int], ...] = ()
    """Change logs of the same commit and group: paths relative to the table, and sizes."""
    milliseconds: int = 0

    @property
    def path(self) -> str:
        """Relative to the table."""
        return f"{self.partition}/{self.name}" if self.partition else self.name
