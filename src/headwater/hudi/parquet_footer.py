"""Footers of Parquet files: read without the bloom filter in them, and looked at before Python is shown them.

Hudi keeps a bloom filter of the record keys in the footer, as text of a few hundred kilobytes beside two of all else.
Arrow copies it several times over, which is most of what opening a base file takes; few readers want it.

`FileMetaData.row_group(i).column(j)` ends the process (std::terminate) when a column chunk contradicts the schema, as
in a footer with a flipped bit. Reading rows goes through the same code behind a guard: an error comes out there.
"""

from __future__ import annotations

import io
import struct

import pyarrow as pa
import pyarrow.parquet as pq

BLOOM = b"org.apache.hudi.bloomfilter"
_LARGEST_FILE = 1 << 62
_ENDING = struct.Struct("<I4s")
# What Arrow fetches at first, too: where each read is a request, most footers take one.
_FIRST_READ = 64 * 1024
# In Thrift's compact protocol: a pair's key, and the head of the text that is its value.
_STRING = b"\x18"
_BLOOM_PAIR = _STRING + bytes([len(BLOOM)]) + BLOOM + _STRING
_SMALL_BLOOM = 4 * 1024


def read_footer(source: pa.NativeFile) -> pq.FileMetaData:
    """The footer of an open file; a large bloom filter in it is left out: its text is empty then.

    >>> table = pa.table({"x": [1]}).replace_schema_metadata({BLOOM: "A" * 10_000, "y": "z"})
    >>> sink = pa.BufferOutputStream()
    >>> pq.write_table(table, sink)
    >>> found = read_footer(pa.BufferReader(sink.getvalue()))
    >>> found.num_rows, found.metadata[BLOOM], found.metadata[b"y"]
    (1, b'', b'z')
    """
    size = source.size()
    first = min(size, _FIRST_READ)
    last: bytes = source.read_at(first, size - first)
    whole = _footer_length(last)
    if whole is None or whole > size or len(last) != first:
        return pq.read_metadata(source)  # damaged or unusual: Arrow says which
    # Of a large footer, its beginning: between the two may lie nothing but the bloom filter's text.
    beginning: bytes = last[-whole:] if whole <= first else source.read_at(min(_FIRST_READ, whole), size - whole)
    slim = _without_bloom(beginning, last, whole)
    if slim is not None:
        try:
            found = pq.read_metadata(pa.BufferReader(slim))
            if found.metadata is not None and found.metadata.get(BLOOM) == b"":
                return found
        except (pa.ArrowException, OSError, ValueError):
            pass  # what looked like a bloom filter was none: a column's bounds, say
    return pq.read_metadata(pa.BufferReader(beginning) if whole <= first else source)


def _footer_length(last: bytes) -> int | None:
    """How long the footer is together with its length and the magic bytes behind; None where these are not there."""
    if len(last) < _ENDING.size:
        return None
    length, magic = _ENDING.unpack_from(last, len(last) - _ENDING.size)
    return int(length) + _ENDING.size if magic == b"PAR1" else None


def _without_bloom(beginning: bytes, last: bytes, whole: int) -> bytes | None:
    """The footer with an empty text for the bloom filter, from its first bytes and the file's last ones.

    None where it has no large one, or more lies between the two than its text.
    """
    pair = beginning.find(_BLOOM_PAIR)
    if pair < 0:
        return None
    head = pair + len(_BLOOM_PAIR)
    length, at = 0, head
    for shift, byte in enumerate(beginning[head : head + 5]):
        length |= (byte & 0x7F) << 7 * shift
        at += 1
        if byte < 0x80:
            break
    behind = whole - at - length
    if length < _SMALL_BLOOM or not _ENDING.size < behind <= len(last):
        return None
    kept = beginning[:head] + b"\0" + last[-behind : -_ENDING.size]
    return kept + _ENDING.pack(len(kept), b"PAR1")


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
