"""Page headers of Parquet files: read one by one, and looked at before Arrow takes memory for what they claim.

A column chunk that Arrow reads through a buffer (see `base_file`) is not whole in memory: a page gets as many bytes as
its header says, up to 2 GiB, before anyone sees that the file does not hold them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from headwater.hudi.thrift import int_of, read_struct

DATA, DICTIONARY, DATA_V2 = 0, 2, 3
# As most writers write a header: type, sizes, perhaps a checksum, and one struct of small numbers, the first of which
# counts values. Whatever else there is, is read field by field.
_NUMBER = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_USUAL = re.compile(
    rb"\x15([\x00\x02\x04\x06])\x15%b\x15(%b)(?:\x15%b)?[\x1c\x2c\x3c\x4c\x5c]\x15(%b)(?:\x15%b)*(?:\x11|\x12)?\x00\x00"
    % ((_NUMBER,) * 5),
    re.DOTALL,
)
_KIND, _SIZE, _COUNT = 1, 3, 1
_OF_KIND = {DATA: 5, DICTIONARY: 7, DATA_V2: 8}
_FIRST_LOOK = 64
_LONGEST_HEADER = 16 << 20
# Old writers left the header of the dictionary out of a chunk's size.
_SLACK = 1 << 16


class PageHeader(NamedTuple):
    """What a header says: the page's kind, its bytes behind the header, its values; and how long the header is."""

    kind: int
    size: int
    values: int | None
    length: int


def chunk_start(chunk: Any) -> int:
    """Where the first page of a column chunk lies."""
    start: int = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    return start


def read_page_header(read: Callable[[int, int], bytes], at: int, end: int) -> PageHeader:
    """The header at a place of a chunk that ends at another; `read` gives so many bytes from a place on.

    Bytes that are no header raise a ValueError.
    """
    look = _FIRST_LOOK
    while at < end:
        data = read(at, min(look, end - at))
        try:
            return page_header(data)
        except IndexError:
            if len(data) < look or look >= _LONGEST_HEADER:
                break
        look *= 16
    raise ValueError(f"the bytes at {at} are no page header")


def page_header(data: bytes) -> PageHeader:
    """The header that some bytes begin with; IndexError where it goes on behind them.

    >>> page_header(b"\\x15\\x00\\x15\\x50\\x15\\x3c\\x2c\\x15\\x14\\x15\\x00\\x15\\x06\\x15\\x06\\x00\\x00")
    PageHeader(kind=0, size=30, values=10, length=17)
    """
    found = _USUAL.match(data)
    if found is not None:
        return PageHeader(found[1][0] >> 1, _number(found[2]), _number(found[3]), found.end())
    fields, length = read_struct(data, 0)
    if _KIND not in fields or _SIZE not in fields:
        raise ValueError("a page header without type or size")
    kind = int_of(fields[_KIND])
    inner = fields.get(_OF_KIND.get(kind, -1))
    values = None if inner is None else read_struct(inner.raw, 0)[0].get(_COUNT)
    return PageHeader(kind, int_of(fields[_SIZE]), None if values is None else int_of(values), length)


def _number(raw: bytes) -> int:
    """A zigzag number of a few bytes, least first. There is one of these for each page of a file."""
    value = 0
    for byte in reversed(raw):
        value = value << 7 | byte & 0x7F
    return value >> 1 ^ -(value & 1)


def check_pages(path: str, metadata: pq.FileMetaData, group: int, columns: Sequence[str]) -> None:
    """Raises a ValueError where a page of these columns claims more bytes than its column chunk has left.

    No byte of the pages themselves is read.
    """
    roots = {name.split(".", 1)[0] for name in columns}
    meta = metadata.row_group(group)
    with open(path, "rb", buffering=0) as file:

        def read(offset: int, length: int) -> bytes:
            if hasattr(os, "pread"):
                return os.pread(file.fileno(), length, offset)
            file.seek(offset)
            return file.read(length) or b""

        for index in range(meta.num_columns):
            chunk = meta.column(index)
            if chunk.path_in_schema.split(".", 1)[0] in roots:
                start, size = chunk_start(chunk), chunk.total_compressed_size
                if hasattr(os, "posix_fadvise"):
                    # It is about to be read: where it is not in memory yet, it comes in one go, not header by header.
                    os.posix_fadvise(file.fileno(), start, size, os.POSIX_FADV_WILLNEED)
                _check_chunk(read, start, start + size, chunk.num_values)


def _check_chunk(read: Callable[[int, int], bytes], start: int, end: int, values: int) -> None:
    at = start
    while at < end:
        header = read_page_header(read, at, end)
        behind = at + header.length
        if header.size < 0 or behind + header.size > end + _SLACK:
            raise ValueError(
                f"the page at byte {at} claims {header.size} bytes, and its column chunk of {values} values has "
                f"{max(end - behind, 0)} left"
            )
        at = behind + header.size
