"""Reading an HFile: whole, by key, by key prefix, by key range; only the blocks that are needed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import UnsupportedTable
from headwater.hudi.hfile import block, trailer
from headwater.hudi.hfile.cells import CellFormat, Cells, read_cells
from headwater.hudi.hfile.index import IndexNode, read_leaf, read_root, row_of
from headwater.hudi.hfile.source import ByteSource

# Neighbouring blocks are fetched with one read of about this size.
_READ_AHEAD = 4 << 20
# So many bytes of blocks are taken apart at once.
_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a data block lies, and the first key of the block behind it (None: it is the last)."""

    offset: int
    size: int
    next_key: bytes | None


# A data block that may hold the wanted keys from one position (inclusive) to another (exclusive).
_Routed: TypeAlias = tuple[_Place, int, int]


class HFileReader:
    """An HFile, opened: trailer, root index, meta index and file info are read at once, all else when asked for.

    Keys are record keys (the row of HBase's cell key), in unsigned byte order; a key may appear more than once.
    Damaged bytes are `CorruptFile`, codecs and features that Hudi does not use are `UnsupportedTable`.

    >>> from headwater.hudi.hfile import BytesSource, write_hfile
    >>> file = HFileReader(BytesSource(write_hfile([(b"k1", b"one"), (b"k2", b"two")])), "example.hfile")
    >>> file.entry_count, file.first_key, file.last_key
    (2, b'k1', b'k2')
    >>> list(file.get_many([b"k2", b"k9"]))
    [(b'k2', b'two')]
    """

    def __init__(self, source: ByteSource, name: str) -> None:
        self._source = source
        self.name = name
        self.blocks_read = 0
        """How many data blocks were read so far."""
        self.index_blocks_read = 0
        """How many leaf and intermediate index blocks were read so far."""
        self._nodes: dict[int, IndexNode] = {}
        self._kept: tuple[int, Cells] | None = None

        size = source.size()
        if size < trailer.TRAILER_SIZE:
            raise block.corrupt(name, 0, f"{size} bytes are too few for an HFile's trailer")
        self._end = size - trailer.TRAILER_SIZE
        self._trailer = trailer.read_trailer(source.read_at(self._end, trailer.TRAILER_SIZE), file_size=size, name=name)
        self._load_on_open()
        self._form = self._cell_format()

    def _load_on_open(self) -> None:
        start, name = self._trailer.load_on_open_offset, self.name
        section = memoryview(self._source.read_at(start, self._end - start))
        root = self._parse(section, start, block.ROOT_INDEX)
        levels, entries = self._trailer.index_levels, self._trailer.data_index_count
        if bool(entries) != bool(self._trailer.entry_count) or (entries and not levels):
            raise block.corrupt(name, start, f"{self._trailer.entry_count} entries in {entries} indexed blocks")
        self._root = read_root(root.payload, entries, name=name, offset=start, rows=True)
        at = root.end
        meta = self._parse(section[at - start :], at, block.ROOT_INDEX)
        self._meta = read_root(meta.payload, self._trailer.meta_index_count, name=name, offset=at, rows=False)
        at = self._trailer.file_info_offset
        info = self._parse(section[at - start :], at, block.FILE_INFO)
        self.file_info: dict[bytes, bytes] = trailer.read_file_info(info.payload, name=name, offset=at)
        """The entries of the file info block, among them Hudi's `schema` and `bloomFilterTypeCode`."""

    def _cell_format(self) -> CellFormat:
        encoding = self.file_info.get(trailer.DATA_BLOCK_ENCODING, b"NONE")
        if encoding != b"NONE":
            raise UnsupportedTable(
                f"{self.name}: data block encoding {encoding.decode('latin1')} is not supported; rewrite the file"
            )
        version = int.from_bytes(self.file_info.get(trailer.KEY_VALUE_VERSION, b""), "big")
        return CellFormat(mvcc=version == 1, tags=trailer.MAX_TAGS_LEN in self.file_info)

    @property
    def entry_count(self) -> int:
        """The number of entries."""
        return self._trailer.entry_count

    @property
    def first_key(self) -> bytes | None:
        """The smallest key, None in an empty file; reads the first data block."""
        for place in self._places(self._root, 1, None, None, _Progress()):
            cells = self._cells(place)
            return cells.key(0) if len(cells) else None
        return None

    @property
    def last_key(self) -> bytes | None:
        """The largest key, from the file info; None in an empty file."""
        stored = self.file_info.get(trailer.LAST_KEY)
        if not stored or not self.entry_count:
            return None
        key = row_of(stored)
        if key is None:
            raise block.corrupt(self.name, self._trailer.file_info_offset, "the last key has no row")
        return key

    @property
    def meta_names(self) -> tuple[str, ...]:
        """The names of the meta blocks."""
        return tuple(key.decode("utf-8", "replace") for key in self._meta.keys)

    def meta_block(self, name: str) -> bytes | None:
        """The content of a meta block, such as `bloomFilter`; None when there is no such block."""
        wanted = name.encode()
        for key, offset, size in zip(self._meta.keys, self._meta.offsets, self._meta.sizes, strict=True):
            if key == wanted:
                return bytes(self._parse(self._read(offset, size), offset, block.META).payload)
        return None

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries in order, as (key, value)."""
        for cells in self._all_cells():
            yield from cells.pairs()

    def scan_columns(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """All entries in order: keys and values of some data blocks after the others, as Arrow binary arrays."""
        count = 0
        for cells, _blocks in self._joined(self._payloads(self._places(self._root, 1, None, None, _Progress()))):
            count += len(cells)
            yield cells.columns()
        self._check_count(count)

    def scan_range(self, lo: bytes | None = None, hi: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The entries with `lo` <= key < `hi`, in order; None leaves an end open."""
        if hi is not None and lo is not None and lo >= hi:
            return
        for place, cells in self._fetch(self._places(self._root, 1, lo, hi, _Progress())):
            start = 0 if lo is None else cells.bisect(lo)
            # Only the last block of the range can hold keys past it.
            inside = hi is None or (place.next_key is not None and place.next_key < hi)
            yield from cells.pairs(start, None if inside else cells.bisect(hi or b"", start))

    def scan_prefix(self, prefixes: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The entries whose key starts with one of the prefixes, in order, each once.

        >>> from headwater.hudi.hfile import BytesSource, write_hfile
        >>> entries = [(b"ant", b"1"), (b"bee", b"2"), (b"bug", b"3"), (b"cat", b"4")]
        >>> file = HFileReader(BytesSource(write_hfile(entries)), "example.hfile")
        >>> [key for key, value in file.scan_prefix([b"b", b"bu", b"d"])]
        [b'bee', b'bug']
        """
        last: bytes | None = None
        for prefix in sorted(set(prefixes)):
            if last is not None and prefix.startswith(last):
                continue
            last = prefix
            yield from self.scan_range(prefix, _behind(prefix))

    def get_many(self, keys: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The entries with these keys, in key order; equal keys in file order, nothing for a key that is not there."""
        wanted = self._present(keys)
        for routed, cells in self._fetch_routed(wanted):
            at = 0
            for key in wanted[routed[1] : routed[2]]:
                at = cells.bisect(key, at)
                while at < len(cells) and cells.key(at) == key:
                    yield key, cells.value(at)
                    at += 1

    def get_columns(self, keys: pa.Array | pa.ChunkedArray | Iterable[bytes]) -> Iterator[tuple[pa.Array, pa.Array]]:
        """As `get_many`, for many keys at once: the matching keys and values of some data blocks after the others."""
        if isinstance(keys, (pa.Array, pa.ChunkedArray)):
            keys = pc.unique(keys.cast(pa.binary())).drop_null().to_pylist()
        wanted = self._present(keys)
        routed: deque[_Routed] = deque()
        for cells, blocks in self._joined(self._payloads(self._routed_places(wanted, routed))):
            mine = [routed.popleft() for _ in range(blocks)]
            found, values = cells.columns()
            hit = pc.is_in(found, value_set=pa.array(wanted[mine[0][1] : mine[-1][2]], pa.binary()))
            if pc.any(hit).as_py():
                yield found.filter(hit), values.filter(hit)

    # Finding data blocks

    def _present(self, keys: Iterable[bytes]) -> list[bytes]:
        """The distinct keys in order, without those outside of the file's range."""
        wanted = sorted(set(keys))
        last = self.last_key
        if not len(self._root) or not wanted:
            return []
        stop = len(wanted) if last is None else bisect_right(wanted, last)
        return wanted[bisect_left(wanted, self._root.keys[0]) : stop]

    def _places(
        self,
        node: IndexNode,
        level: int,
        lo: bytes | None,
        hi: bytes | None,
        progress: _Progress,
        after: bytes | None = None,
    ) -> Iterator[_Place]:
        """The data blocks that may hold keys from `lo` to `hi`, in order; `after` is the next node's first key."""
        index = 0
        if lo is not None:
            # The block before may end with `lo` too, unless the writer keeps equal keys together.
            index = max((bisect_right(node.keys, lo) if node.exact else bisect_left(node.keys, lo)) - 1, 0)
        while index < len(node):
            if hi is not None and node.keys[index] >= hi:
                return
            next_key = node.keys[index + 1] if index + 1 < len(node) else after
            offset, size = node.offsets[index], node.sizes[index]
            if level == self._trailer.index_levels:
                progress.advance(offset, self.name)
                yield _Place(offset, size, next_key)
            else:
                child = self._child(offset, size, level + 1)
                yield from self._places(child, level + 1, lo, hi, progress, next_key)
            index += 1

    def _route(
        self,
        node: IndexNode,
        level: int,
        wanted: list[bytes],
        start: int,
        stop: int,
        progress: _Progress,
        after: bytes | None = None,
    ) -> Iterator[_Routed]:
        """The data blocks that may hold `wanted[start:stop]`, each with its part of them."""
        child = -1
        while start < stop:
            found = (bisect_right if node.exact else bisect_left)(node.keys, wanted[start]) - 1
            child = max(child + 1, found, 0)
            if child >= len(node):
                return
            last = child + 1 == len(node)
            end = stop
            if not last:
                end = (bisect_left if node.exact else bisect_right)(wanted, node.keys[child + 1], start, stop)
            if end > start:
                next_key = after if last else node.keys[child + 1]
                offset, size = node.offsets[child], node.sizes[child]
                if level == self._trailer.index_levels:
                    progress.advance(offset, self.name)
                    yield _Place(offset, size, next_key), start, end
                else:
                    below = self._child(offset, size, level + 1)
                    yield from self._route(below, level + 1, wanted, start, end, progress, next_key)
            if last:
                return
            start = bisect_left(wanted, node.keys[child + 1], start, stop)

    def _child(self, offset: int, size: int, level: int) -> IndexNode:
        """An index block below the root, kept once read."""
        node = self._nodes.get(offset)
        if node is None:
            expect = block.LEAF_INDEX if level == self._trailer.index_levels else block.INTERMEDIATE_INDEX
            payload = self._parse(self._read(offset, size), offset, expect).payload
            node = self._nodes[offset] = read_leaf(payload, name=self.name, offset=offset)
            self.index_blocks_read += 1
        return node

    # Reading blocks

    def _all_cells(self) -> Iterator[Cells]:
        count = 0
        for _place, cells in self._fetch(self._places(self._root, 1, None, None, _Progress())):
            count += len(cells)
            yield cells
        self._check_count(count)

    def _check_count(self, count: int) -> None:
        if count != self.entry_count:
            raise block.corrupt(
                self.name, self._end, f"the trailer declares {self.entry_count} entries, the blocks hold {count}"
            )

    def _fetch_routed(self, wanted: list[bytes]) -> Iterator[tuple[_Routed, Cells]]:
        pending: deque[_Routed] = deque()
        for _place, cells in self._fetch(self._routed_places(wanted, pending)):
            yield pending.popleft(), cells

    def _routed_places(self, wanted: list[bytes], pending: deque[_Routed]) -> Iterator[_Place]:
        """The data blocks that may hold the keys; which of them each may hold is put into `pending`."""
        for routed in self._route(self._root, 1, wanted, 0, len(wanted), _Progress()):
            pending.append(routed)
            yield routed[0]

    def _joined(self, payloads: Iterable[tuple[_Place, bytes | memoryview]]) -> Iterator[tuple[Cells, int]]:
        """The cells of some blocks at once, and of how many: what is done with each block costs more than its bytes."""
        group: list[bytes | memoryview] = []
        offset = size = 0
        for place, payload in payloads:
            if group and size + len(payload) > _AT_ONCE:
                yield read_cells(b"".join(group), self._form, name=self.name, offset=offset), len(group)
                group, size = [], 0
            offset = offset if group else place.offset
            group.append(payload)
            size += len(payload)
        if group:
            yield read_cells(b"".join(group), self._form, name=self.name, offset=offset), len(group)

    def _fetch(self, places: Iterable[_Place]) -> Iterator[tuple[_Place, Cells]]:
        """The blocks' cells."""
        rest = iter(places)
        for place in rest:
            if self._kept is not None and self._kept[0] == place.offset:
                yield place, self._kept[1]
                continue
            for other, payload in self._payloads(chain([place], rest)):
                yield other, self._cells(other, payload)

    def _payloads(self, places: Iterable[_Place]) -> Iterator[tuple[_Place, bytes | memoryview]]:
        """The content of blocks; those that lie close together come with one read, the first alone and so early."""
        group: list[_Place] = []
        limit = 1
        for place in places:
            if group and (
                len(group) >= limit
                or place.offset - group[-1].offset > 2 * group[-1].size
                or place.offset + place.size - group[0].offset > _READ_AHEAD
            ):
                yield from self._fetch_group(group)
                group, limit = [], min(limit * 4, 1 << 16)
            group.append(place)
        yield from self._fetch_group(group)

    def _fetch_group(self, group: list[_Place]) -> Iterator[tuple[_Place, bytes | memoryview]]:
        if not group:
            return
        start = group[0].offset
        data = memoryview(self._read(start, group[-1].offset + group[-1].size - start))
        for place in group:
            cut = place.offset - start
            self.blocks_read += 1
            yield place, self._parse(data[cut : cut + place.size], place.offset, block.DATA).payload

    def _cells(self, place: _Place, payload: bytes | memoryview | None = None) -> Cells:
        if self._kept is not None and self._kept[0] == place.offset:
            return self._kept[1]
        if payload is None:
            payload = next(self._fetch_group([place]))[1]
        cells = read_cells(payload, self._form, name=self.name, offset=place.offset)
        # The next look-up often ends in the same block.
        self._kept = place.offset, cells
        return cells

    def _read(self, offset: int, size: int) -> bytes | memoryview:
        if offset < 0 or size < block.HEADER_SIZE or offset + size > self._end:
            raise block.corrupt(self.name, offset, f"the index names a block of {size} bytes that is not in the file")
        return self._source.read_at(offset, size)

    def _parse(self, data: bytes | memoryview, offset: int, expect: bytes) -> block.Block:
        return block.read_block(data, offset, codec=self._trailer.codec, name=self.name, expect=expect)


class _Progress:
    """Data blocks come in file order; an index that says otherwise could be walked without end."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = -1

    def advance(self, offset: int, name: str) -> None:
        if offset <= self._last:
            raise block.corrupt(name, offset, f"the index names this block behind the one at {self._last}")
        self._last = offset


def _behind(prefix: bytes) -> bytes | None:
    """The smallest key behind all keys with this prefix; None when there is none."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None
