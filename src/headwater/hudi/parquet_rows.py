"""Some rows of a row group of Parquet: only the pages that hold them are read and decoded.

Arrow reads column chunks whole. So it is given another file, made of the wanted pages, byte for byte with their
checksums, behind a footer in which the row group has these rows alone. Which rows a page holds, its header says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.hudi.parquet_pages import DATA, DATA_V2, DICTIONARY, chunk_start, read_page_header
from headwater.hudi.thrift import (
    LONG,
    STRUCT,
    Field,
    number,
    read_list,
    read_struct,
    text_of,
    write_list,
    write_struct,
)

Run = tuple[int, int]
"""Rows of a row group: from the first to before the second."""

_MAGIC = b"PAR1"
# Numbers of fields in the structs of Parquet's format.
_SCHEMA, _ROWS, _GROUPS, _METADATA_PAIRS = 2, 3, 4, 5
_GROUP_COLUMNS, _GROUP_ROWS = 1, 3
_CHUNK_FILE, _CHUNK_OFFSET, _CHUNK_META = 1, 2, 3
_VALUES, _COMPRESSED, _FIRST_DATA, _FIRST_DICTIONARY, _STATISTICS = 5, 7, 9, 11, 12
_ARROW_SCHEMA = b"ARROW:schema"


class _Page(NamedTuple):
    offset: int
    size: int
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The pages of a column; `dictionary` is where that page lies and how long it is."""

    dictionary: Run | None
    pages: tuple[_Page, ...]

    def firsts(self) -> tuple[int, ...]:
        return tuple(page.first for page in self.pages)


class SparseGroup:
    """A row group of which some rows are read."""

    def __init__(self, source: pa.NativeFile, metadata: pq.FileMetaData, group: int, columns: Sequence[str]) -> None:
        """The metadata must have passed `check_column_chunks`. A file that is not as most are raises ValueError."""
        self._source, self._size = source, source.size()
        self._group, self._columns = group, list(columns)
        self._meta = metadata.row_group(group)
        leaves = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
        if any(name not in leaves or metadata.schema.column(leaves[name]).max_repetition_level for name in columns):
            raise ValueError("columns of several values a row")
        self._leaves = {name: leaves[name] for name in columns}
        self._chunks = {name: self._chunk(leaf) for name, leaf in self._leaves.items()}
        self._footer: dict[int, Field] | None = None

    def share(self, runs: Sequence[Run]) -> float:
        """How much of the columns' bytes the pages of these runs are."""
        wanted = sum(page.size for chunk in self._chunks.values() for page in _pages_of(chunk, runs))
        every = sum(page.size for chunk in self._chunks.values() for page in chunk.pages)
        return wanted / max(every, 1)

    def parts(self, runs: Sequence[Run], most_rows: int) -> Iterator[list[Run]]:
        """The runs, a few at a time: so many that decoding their pages gives about so many rows."""
        pages = max(len(chunk.pages) for chunk in self._chunks.values())
        usual = self._meta.num_rows // max(pages, 1)
        part: list[Run] = []
        rows = 0
        for start, end in runs:
            for first in range(start, end, most_rows):
                run = (first, min(first + most_rows, end))
                if part and rows + usual + run[1] - first > most_rows:
                    yield part
                    part, rows = [], 0
                part.append(run)
                rows += usual + run[1] - first
        if part:
            yield part

    def read(self, runs: Sequence[Run]) -> list[pa.Table]:
        """The rows of each run, which rise and do not overlap."""
        by_layout: dict[tuple[int, ...], list[str]] = {}
        for name in self._columns:
            by_layout.setdefault(self._chunks[name].firsts(), []).append(name)
        columns: list[dict[str, pa.ChunkedArray]] = [{} for _ in runs]
        for names in by_layout.values():
            pages = _pages_of(self._chunks[names[0]], runs)
            table = self._decode(names, runs, sum(page.rows for page in pages))
            for found, (start, end) in zip(columns, runs, strict=True):
                at = 0
                for page in pages:
                    if page.first + page.rows > start:
                        at += max(start - page.first, 0)
                        break
                    at += page.rows
                part = table.slice(at, end - start)
                found.update(zip(names, part.columns, strict=True))
        return [pa.table({name: found[name] for name in self._columns}) for found in columns]

    def _chunk(self, leaf: int) -> _Chunk:
        meta = self._meta.column(leaf)
        start = chunk_start(meta)
        end = start + meta.total_compressed_size
        if start < 0 or end > self._size:
            raise ValueError("a column chunk lies outside its file")
        dictionary: Run | None = None
        pages: list[_Page] = []
        at, rows = start, 0
        while rows < self._meta.num_rows:
            header = read_page_header(self._read, at, end)
            size, values = header.length + header.size, header.values
            if header.size < 0 or values is None or values < 0 or at + size > end:
                raise ValueError(f"the page at byte {at} is longer than its column chunk, or of no known kind")
            if header.kind == DICTIONARY and not pages and dictionary is None:
                dictionary = (at, size)
            elif header.kind in (DATA, DATA_V2):
                pages.append(_Page(at, size, rows, values))
                rows += values
            else:
                raise ValueError(f"a page of kind {header.kind}")
            at += size
        if rows != self._meta.num_rows:
            raise ValueError(f"pages of {rows} rows in a row group of {self._meta.num_rows}")
        return _Chunk(dictionary, tuple(pages))

    def _read(self, offset: int, length: int) -> bytes:
        return bytes(self._source.read_at(length, offset))

    def _decode(self, names: Sequence[str], runs: Sequence[Run], rows: int) -> pa.Table:
        parts = [_MAGIC]  # a dictionary at byte 0 would count as none
        at = len(_MAGIC)
        places: dict[int, tuple[int, int, int]] = {}
        for name in names:
            chunk = self._chunks[name]
            ranges = [(page.offset, page.size) for page in _pages_of(chunk, runs)]
            bodies = [self._read(offset, size) for offset, size in _joined(ranges)]
            offset, size = chunk.dictionary or (0, 0)
            head = self._read(offset, size)
            size = len(head) + sum(map(len, bodies))
            places[self._leaves[name]] = (at, len(head), size)
            parts += [head, *bodies]
            at += size
        footer = self._footer_of(places, rows)
        parts += [footer, len(footer).to_bytes(4, "little"), _MAGIC]
        file = pq.ParquetFile(
            pa.BufferReader(b"".join(parts)),
            coerce_int96_timestamp_unit="us",
            pre_buffer=False,
            page_checksum_verification=True,
        )
        table = file.read(columns=list(names), use_threads=False).select(list(names))
        if table.num_rows != rows:
            raise ValueError(f"{table.num_rows} rows in pages that should hold {rows}")
        return table

    def _footer_of(self, places: dict[int, tuple[int, int, int]], rows: int) -> bytes:
        """The file's footer with one row group, whose chunks lie at other places and hold fewer rows."""
        if self._footer is None:
            self._footer = self._read_footer()
        footer = self._footer
        group, _ = read_struct(read_list(footer[_GROUPS])[self._group], 0)
        chunks = []
        for leaf, raw in enumerate(read_list(group[_GROUP_COLUMNS])):
            if leaf not in places:
                chunks.append(raw)  # nobody reads it
                continue
            at, dictionary, size = places[leaf]
            chunk, _ = read_struct(raw, 0)
            meta, _ = read_struct(chunk[_CHUNK_META].raw, 0)
            meta.pop(_STATISTICS, None)
            meta.pop(_FIRST_DICTIONARY, None)
            if dictionary:
                meta[_FIRST_DICTIONARY] = Field(LONG, number(at))
            meta[_VALUES] = Field(LONG, number(rows))
            meta[_COMPRESSED] = Field(LONG, number(size))
            meta[_FIRST_DATA] = Field(LONG, number(at + dictionary))
            moved = {_CHUNK_OFFSET: Field(LONG, number(at)), _CHUNK_META: Field(STRUCT, write_struct(meta))}
            if _CHUNK_FILE in chunk:
                raise ValueError("a column chunk in another file")
            chunks.append(write_struct(moved))
        kept = {_GROUP_COLUMNS: write_list(STRUCT, chunks), _GROUP_ROWS: Field(LONG, number(rows))}
        changed = {
            _ROWS: Field(LONG, number(rows)),
            _GROUPS: write_list(STRUCT, [write_struct({**group, **kept})]),
        }
        return write_struct({**footer, **changed})

    def _read_footer(self) -> dict[int, Field]:
        size = self._size
        length = int.from_bytes(self._read(size - 8, 4), "little")
        if self._read(size - 4, 4) != _MAGIC or length > size - 8:
            raise ValueError("no footer as most are")
        footer, _ = read_struct(self._read(size - 8 - length, length), 0)
        if _METADATA_PAIRS in footer:
            # Among them are bloom filters of a megabyte. Arrow asks for one pair alone.
            pairs = [raw for raw in read_list(footer[_METADATA_PAIRS]) if _key(raw) == _ARROW_SCHEMA]
            del footer[_METADATA_PAIRS]
            if pairs:
                footer[_METADATA_PAIRS] = write_list(STRUCT, pairs)
        return footer


def _key(pair: bytes) -> bytes:
    return text_of(read_struct(pair, 0)[0][1])


def _pages_of(chunk: _Chunk, runs: Sequence[Run]) -> list[_Page]:
    """The pages that hold some row of the runs, each once."""
    firsts = chunk.firsts()
    chosen: dict[int, None] = {}
    for start, end in runs:
        at = bisect_right(firsts, start) - 1
        while at < len(firsts) and firsts[at] < end:
            chosen.setdefault(at)
            at += 1
    return [chunk.pages[at] for at in chosen]


def _joined(ranges: Sequence[Run]) -> list[Run]:
    """Offsets and sizes, neighbours as one."""
    found: list[Run] = []
    for offset, size in ranges:
        if found and sum(found[-1]) == offset:
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((offset, size))
    return found
