"""Page headers of Parquet files, looked at before Arrow takes memory for what they claim.

A column chunk that Arrow reads through a buffer (see `base_file`) is not whole in memory: a page gets as many bytes as
its header says, up to 2 GiB, before anyone sees that the file does not hold them.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence

import pyarrow.parquet as pq

# As every writer begins a header: i32 type, i32 uncompressed size, i32 compressed size; parquet-mr ends it, after the
# checksum, with one struct of small numbers. Whatever else is there is read field by field.
_NUMBER = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_USUAL = re.compile(
    rb"\x15[\x00-\x07]\x15(%b)\x15(%b)(?:\x15%b)?[\x1c\x2c\x3c\x4c\x5c](?:\x15%b)+(?:\x11|\x12)?\x00\x00"
    % (_NUMBER, _NUMBER, _NUMBER, _NUMBER),
    re.DOTALL,
)
_FIRST_LOOK = 64
_LONGEST_HEADER = 16 << 20
# Old writers left the header of the dictionary out of a chunk's size.
_SLACK = 1 << 16
_BOOLS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _MAP, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 11, 12


def check_pages(path: str, metadata: pq.FileMetaData, group: int, columns: Sequence[str]) -> None:
    """Raises a ValueError where a page of these columns claims more bytes than its column chunk has left.

    Four microseconds a page, and no byte of the pages themselves.
    """
    roots = {name.split(".", 1)[0] for name in columns}
    meta = metadata.row_group(group)
    with open(path, "rb", buffering=0) as file:
        for index in range(meta.num_columns):
            chunk = meta.column(index)
            if chunk.path_in_schema.split(".", 1)[0] in roots:
                start = chunk.data_page_offset
                if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                    start = min(start, chunk.dictionary_page_offset)
                _check_chunk(file, start, chunk.total_compressed_size, chunk.num_values)


def _check_chunk(file: io.FileIO, start: int, size: int, values: int) -> None:
    end = start + size
    if hasattr(os, "posix_fadvise"):
        # The chunk is about to be read: where it is not in memory yet, it comes in one go and not header by header.
        os.posix_fadvise(file.fileno(), start, size, os.POSIX_FADV_WILLNEED)
    at = start
    while at < end:
        length, claimed = _page(file, at, end)
        if at + length + claimed > end + _SLACK:
            raise ValueError(
                f"the page at byte {at} claims {claimed} bytes, and its column chunk of {values} values has "
                f"{max(end - at - length, 0)} left"
            )
        at += length + claimed


def _page(file: io.FileIO, at: int, end: int) -> tuple[int, int]:
    """How long the header at a place is, and how many bytes it says that the page has."""
    file.seek(at)
    found = _USUAL.match(file.read(_FIRST_LOOK))
    if found is not None:
        return found.end(), _unsigned(found[2])
    look = 16 * _FIRST_LOOK
    while True:
        file.seek(at)
        data = file.read(min(look, end - at))
        try:
            return _Header(data).end_and_size()
        except IndexError:
            if len(data) < look or look >= _LONGEST_HEADER:
                raise ValueError(f"the bytes at {at} are no page header") from None
            look *= 16


def _unsigned(number: bytes) -> int:
    """A size, which is never negative: the zigzag of a negative one is far beyond any chunk."""
    value = 0
    for shift, byte in enumerate(number):
        value |= (byte & 0x7F) << (7 * shift)
    return value >> 1 if not value & 1 else 1 << 40


class _Header:
    """A struct in Thrift's compact protocol; only its third field counts."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def end_and_size(self) -> tuple[int, int]:
        size, field = 0, 0
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._number() >> 1
            if field == 3 and head & 15 in _INTEGERS:
                number = self._number()
                size = number >> 1 if not number & 1 else 1 << 40
            else:
                self._skip(head & 15)
        return self._at, size

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _skip(self, kind: int, depth: int = 0) -> None:
        if depth > 8:
            raise ValueError("a page header nests deeper than any does")
        if kind == _BYTE:
            self._byte()
        elif kind in _INTEGERS:
            self._number()
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            length = self._number()
            self._at += length
        elif kind in _LISTS:
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._number()):
                self._skip(head & 15, depth + 1) if head & 15 not in _BOOLS else self._byte()
        elif kind == _STRUCT:
            while (head := self._byte()) != 0:
                if not head >> 4:
                    self._number()
                self._skip(head & 15, depth + 1)
        elif kind == _MAP:
            if count := self._number():
                kinds = self._byte()
                for _ in range(count):
                    self._skip(kinds >> 4, depth + 1)
                    self._skip(kinds & 15, depth + 1)
        elif kind not in _BOOLS:
            raise ValueError(f"a page header has a field of type {kind}, which none has")
