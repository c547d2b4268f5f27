"""Writing an HFile with one index level, in the layout of Hudi's own writer (1.1 and later) or in HBase's.

Releases before 1.1 read with HBase's reader, which needs HBase's layout; the later ones read both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidArgument
from headwater.hudi.hfile import block, trailer
from headwater.hudi.hfile.cells import LONGEST_KEY, join_cells, serialized_key, whole_key, write_cells
from headwater.hudi.hfile.compression import CODEC_IDS
from headwater.hudi.hfile.index import write_root

_DEFAULT_BLOCK_SIZE = 1 << 20
_HBASE_MINOR_VERSION = 3


class HFileWriter:
    """Takes entries in key order; gives the file's bytes at the end, or hands them to `sink` as they come.

    With a sink, no more is held than a block and the index. Equal keys stay in one block, as Hudi's readers expect.

    >>> writer = HFileWriter(codec="NONE")
    >>> writer.append(b"k1", b"one")
    >>> writer.add_meta("bloomFilter", b"...")
    >>> len(writer.finish()) > 4096
    True
    """

    def __init__(
        self,
        *,
        codec: str = "GZ",
        block_size: int = _DEFAULT_BLOCK_SIZE,
        created_at: int = 0,
        like_hbase: bool = False,
        sink: Callable[[bytes], Any] | None = None,
    ) -> None:
        if codec not in CODEC_IDS:
            raise InvalidArgument(f"no HFile compression is called {codec!r}; known: {', '.join(CODEC_IDS)}")
        self._codec = CODEC_IDS[codec]
        self._block_size = block_size
        self._created_at = created_at
        self._like_hbase = like_hbase
        self._index_key = whole_key if like_hbase else serialized_key
        self._sink = sink
        self._parts: list[bytes] = []
        self._at = self._decompressed = 0
        self._index: list[tuple[bytes, int, int]] = []
        self._meta: dict[str, bytes] = {}
        self._info: dict[bytes, bytes] = {}
        self._pending: list[tuple[bytes, bytes]] = []
        self._pending_size = 0
        self._first_key: bytes | None = None
        self._last_key: bytes | None = None
        self._count = self._key_bytes = self._value_bytes = 0

    @property
    def key_range(self) -> tuple[bytes, bytes] | None:
        """The first and the last key so far."""
        return None if self._first_key is None or self._last_key is None else (self._first_key, self._last_key)

    @property
    def entry_count(self) -> int:
        """How many entries came so far."""
        return self._count

    def append(self, key: bytes, value: bytes) -> None:
        """Add an entry; its key must not be before the last one."""
        self._check(len(key), key)
        size = len(key) + len(value) + 9
        if self._pending and key != self._last_key and self._pending_size + size > self._block_size:
            self._flush()
        self._pending.append((key, value))
        self._pending_size += size
        self._note(key, key, 1, len(key), len(value))

    def append_columns(self, keys: pa.Array, values: pa.Array) -> None:
        """Add many entries, sorted by key and each key once, without a step per entry.

        >>> from headwater.hudi.hfile import BytesSource, HFileReader
        >>> writer = HFileWriter(block_size=64)
        >>> writer.append_columns(pa.array([b"a", b"b"], pa.binary()), pa.array([b"1", b"2"], pa.binary()))
        >>> list(HFileReader(BytesSource(writer.finish()), "example").scan())
        [(b'a', b'1'), (b'b', b'2')]
        """
        if not len(keys):
            return
        self._flush()
        keys, values = keys.cast(pa.large_binary()), values.cast(pa.large_binary())
        lengths = pc.binary_length(keys)
        self._check(int(pc.max(lengths).as_py()), keys[0].as_py())
        if len(keys) > 1 and not pc.all(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py():
            raise InvalidArgument("HFile keys must come sorted, and each only once")
        cells = join_cells(keys, values)
        offsets = np.frombuffer(cells.buffers()[1], np.int64, len(cells) + 1, 8 * cells.offset)
        data = memoryview(cells.buffers()[2])
        start = 0
        while start < len(cells):
            # The last cell that still ends within the block, at least one.
            stop = int(np.searchsorted(offsets, offsets[start] + self._block_size, side="right")) - 1
            stop = min(max(stop, start + 1), len(cells))
            self._emit_data(keys[start].as_py(), bytes(data[offsets[start] : offsets[stop]]))
            start = stop
        key_bytes = int(pc.sum(lengths).as_py())
        value_bytes = int(pc.sum(pc.binary_length(values)).as_py() or 0)
        self._note(keys[0].as_py(), keys[len(keys) - 1].as_py(), len(keys), key_bytes, value_bytes)

    def add_meta(self, name: str, content: bytes) -> None:
        """Add a meta block, such as `bloomFilter`."""
        self._meta[name] = content

    def add_info(self, key: bytes, value: bytes) -> None:
        """Add an entry to the file info, such as `schema`."""
        self._info[key] = value

    def finish(self) -> bytes:
        """The rest of the file: all of it where there is no sink, else nothing."""
        self._flush()
        data_index, first = list(self._index), self._index[0][1] if self._index else -1
        last = self._index[-1][1] if self._index else (-1 if self._like_hbase else 0)
        meta_index = []
        for name, content in sorted(self._meta.items()):
            meta_index.append((name.encode(), *self._emit(block.META, content)))
        root = write_root(data_index)
        load_on_open, _ = self._emit(block.ROOT_INDEX, root)
        self._emit(block.ROOT_INDEX, write_root(meta_index))
        file_info, _ = self._emit(block.FILE_INFO, trailer.write_file_info(self._file_info()))
        end = trailer.Trailer(
            file_info_offset=file_info,
            load_on_open_offset=load_on_open,
            data_index_count=len(data_index),
            meta_index_count=len(meta_index),
            entry_count=self._count,
            index_levels=1,
            first_data_block_offset=first,
            last_data_block_offset=last,
            codec=self._codec,
            uncompressed_data_size=len(root)
            if self._like_hbase
            else self._key_bytes + self._value_bytes + 9 * self._count,
        )
        if self._like_hbase:
            total = self._decompressed + trailer.TRAILER_SIZE
            self._put(trailer.write_trailer(end, minor_version=_HBASE_MINOR_VERSION, total_size=total))
        else:
            self._put(trailer.write_trailer(end))
        return b"".join(self._parts)

    @property
    def size(self) -> int:
        """How many bytes the file has so far."""
        return self._at

    def _check(self, longest: int, first: bytes) -> None:
        if longest > LONGEST_KEY:
            raise InvalidArgument(f"an HFile key has at most {LONGEST_KEY} bytes, this one has {longest}")
        if self._last_key is not None and first < self._last_key:
            raise InvalidArgument(f"HFile keys must come sorted: {first!r} came behind {self._last_key!r}")

    def _note(self, first: bytes, last: bytes, count: int, key_bytes: int, value_bytes: int) -> None:
        if self._first_key is None:
            self._first_key = first
        self._last_key = last
        self._count += count
        self._key_bytes += key_bytes
        self._value_bytes += value_bytes

    def _file_info(self) -> dict[bytes, bytes]:
        count = max(self._count, 1)
        # HBase counts the bytes around a row to its key.
        around = 12 * self._count if self._like_hbase else 0
        info = {
            trailer.LAST_KEY: self._index_key(self._last_key) if self._last_key else b"",
            trailer.AVG_KEY_LEN: ((self._key_bytes + around) // count).to_bytes(4, "big"),
            trailer.AVG_VALUE_LEN: (self._value_bytes // count).to_bytes(4, "big"),
            trailer.CREATE_TIME: self._created_at.to_bytes(8, "big"),
            trailer.KEY_VALUE_VERSION: (1).to_bytes(4, "big"),
            trailer.MAX_MEMSTORE_TS: bytes(8),
        }
        return {**info, **self._info}

    def _flush(self) -> None:
        if self._pending:
            self._emit_data(self._pending[0][0], write_cells(self._pending))
            self._pending, self._pending_size = [], 0

    def _emit_data(self, first_key: bytes, payload: bytes) -> None:
        previous = self._index[-1][1] if self._index else -1
        self._index.append((self._index_key(first_key), *self._emit(block.DATA, payload, previous)))

    def _emit(self, magic: bytes, payload: bytes, previous: int = -1) -> tuple[int, int]:
        data = block.write_block(magic, payload, codec=self._codec, previous=previous, checked=self._like_hbase)
        offset = self._at
        self._decompressed += len(payload) + block.HEADER_SIZE
        self._put(data)
        return offset, len(data)

    def _put(self, data: bytes) -> None:
        self._at += len(data)
        if self._sink is None:
            self._parts.append(data)
        else:
            self._sink(data)


def write_hfile(
    entries: Iterable[tuple[bytes, bytes]],
    *,
    codec: str = "GZ",
    block_size: int = _DEFAULT_BLOCK_SIZE,
    meta: Mapping[str, bytes] | None = None,
    info: Mapping[bytes, bytes] | None = None,
    like_hbase: bool = False,
) -> bytes:
    """A whole HFile from entries in key order, with meta blocks and further file info."""
    writer = HFileWriter(codec=codec, block_size=block_size, like_hbase=like_hbase)
    for key, value in entries:
        writer.append(key, value)
    for name, content in (meta or {}).items():
        writer.add_meta(name, content)
    for name_, value in (info or {}).items():
        writer.add_info(name_, value)
    return writer.finish()
