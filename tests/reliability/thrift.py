"""Where the pages of a Parquet file lie that carry a CRC: the least of Thrift's compact protocol that tells it."""

from __future__ import annotations

import io

import pyarrow.parquet as pq

_BOOLS, _LISTS, _BINARY, _STRUCT = (1, 2), (9, 10), 8, 12
_COMPRESSED_SIZE, _CRC = 3, 4


def page_bodies(data: bytes) -> list[tuple[int, int]]:
    """The bytes of each page that its own CRC covers."""
    found: list[tuple[int, int]] = []
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            start = column.data_page_offset
            if column.has_dictionary_page and column.dictionary_page_offset:
                start = min(start, column.dictionary_page_offset)
            end = start + column.total_compressed_size
            while start < end:
                header = _Struct(data, start)
                size = header.numbers[_COMPRESSED_SIZE]
                if _CRC in header.numbers:
                    found.append((header.end, header.end + size))
                start = header.end + size
    return found


class _Struct:
    """The numbers of a struct by field, and where it ends."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.end = data, at
        self.numbers: dict[int, int] = {}
        field = 0
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            value = self._value(head & 15)
            if value is not None:
                self.numbers[field] = value

    def _byte(self) -> int:
        self.end += 1
        return self._data[self.end - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int) -> int | None:
        if kind in _BOOLS:
            return None
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            self.end += 8
        elif kind == _BINARY:
            length = self._varint()
            self.end += length
        elif kind in _LISTS:
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._value(head & 15)
        elif kind == _STRUCT:
            self.end = _Struct(self._data, self.end).end
        return None
