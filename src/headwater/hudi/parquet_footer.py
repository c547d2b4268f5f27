"""Footers of Parquet files that Arrow's Python side must not be shown.

`FileMetaData.row_group(i).column(j)` ends the process (std::terminate) when a column chunk contradicts the schema, as
in a footer with a flipped bit. Reading rows goes through the same code behind a guard: an error comes out there.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

_LARGEST_FILE = 1 << 62


def check_column_chunks(metadata: pq.FileMetaData) -> None:
    """Raises what Arrow raises over a column chunk that cannot be; no byte of the file is read.

    Arrow looks at all chunks when it is asked to read them, before the first byte, which is where this ends it. About
    0.3 µs a chunk.
    """
    file = pq.ParquetFile(pa.PythonFile(_NoBytes(), mode="r"), metadata=metadata, pre_buffer=True)
    groups, columns = list(range(metadata.num_row_groups)), list(range(metadata.num_columns))
    try:
        file.reader.read_row_groups(groups, column_indices=columns, use_threads=False)
    except _BytesAskedForError:
        return
    finally:
        # The reader keeps the error, the error its traceback, and that this frame with the reader in it, where no
        # garbage collection sees it: everything on the stack would stay for ever.
        del file


class _BytesAskedForError(Exception):
    """All chunks have passed."""


class _NoBytes(io.RawIOBase):
    """A file that is large enough for every footer, and cannot be read."""

    def __init__(self) -> None:
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: _LARGEST_FILE}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        raise _BytesAskedForError
