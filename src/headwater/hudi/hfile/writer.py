"""Writing an HFile in the layout of Hudi's own writer (1.1 and later): one index level, checksum type NULL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.errors import InvalidArgument
from headwater.hudi.hfile import block, trailer
from headwater.hudi.hfile.cells import LONGEST_KEY, serialized_key, write_cells
from headwater.hudi.hfile.compression import CODEC_IDS
from headwater.hudi.hfile.index import write_root

_DEFAULT_BLOCK_SIZE = 1 << 20


class HFileWriter:
    """Collects entries in key order and gives the file's bytes at the end; nothing is written anywhere.

    Equal keys stay in one block, as Hudi's readers expect.

    >>> writer = HFileWriter(codec="NONE")
    >>> writer.append(b"k1", b"one")
    >>> writer.add_meta("bloomFilter", b"...")
    >>> len(writer.finish()) > 4096
    True
    """

    def __init__(self, *, codec: str = "GZ", block_size: int = _DEFAULT_BLOCK_SIZE, created_at: int = 0) -> None:
        if codec not in CODEC_IDS:
            raise InvalidArgument(f"no HFile compression is called {codec!r}; known: {', '.join(CODEC_IDS)}")
        self._codec = CODEC_IDS[codec]
        self._block_size = block_size
        self._created_at = created_at
        self._parts: list[bytes] = []
        self._at = 0
        self._index: list[tuple[bytes, int, int]] = []
        self._meta: dict[str, bytes] = {}
        self._info: dict[bytes, bytes] = {}
        self._pending: list[tuple[bytes, bytes]] = []
        self._pending_size = 0
        self._last_key: bytes | None = None
        self._count = self._key_bytes = self._value_bytes = 0

    def append(self, key: bytes, value: bytes) -> None:
        """Add an entry; its key must not be before the last one."""
        if len(key) > LONGEST_KEY:
            raise InvalidArgument(f"an HFile key has at most {LONGEST_KEY} bytes, this one has {len(key)}")
        if self._last_key is not None and key < self._last_key:
            raise InvalidArgument(f"HFile keys must come sorted: {key!r} came behind {self._last_key!r}")
        size = len(key) + len(value) + 9
        if self._pending and key != self._last_key and self._pending_size + size > self._block_size:
            self._flush()
        self._pending.append((key, value))
        self._pending_size += size
        self._last_key = key
        self._count += 1
        self._key_bytes += len(key)
        self._value_bytes += len(value)

    def add_meta(self, name: str, content: bytes) -> None:
        """Add a meta block, such as `bloomFilter`."""
        self._meta[name] = content

    def add_info(self, key: bytes, value: bytes) -> None:
        """Add an entry to the file info, such as `schema`."""
        self._info[key] = value

    def finish(self) -> bytes:
        """The whole file."""
        self._flush()
        data_index, first = list(self._index), self._index[0][1] if self._index else -1
        last = self._index[-1][1] if self._index else 0
        meta_index = []
        for name, content in sorted(self._meta.items()):
            meta_index.append((name.encode(), *self._emit(block.META, content)))
        load_on_open, _ = self._emit(block.ROOT_INDEX, write_root(data_index))
        self._emit(block.ROOT_INDEX, write_root(meta_index))
        file_info, _ = self._emit(block.FILE_INFO, trailer.write_file_info(self._file_info()))
        end = trailer.write_trailer(
            trailer.Trailer(
                file_info_offset=file_info,
                load_on_open_offset=load_on_open,
                data_index_count=len(data_index),
                meta_index_count=len(meta_index),
                entry_count=self._count,
                index_levels=1,
                first_data_block_offset=first,
                last_data_block_offset=last,
                codec=self._codec,
                uncompressed_data_size=self._key_bytes + self._value_bytes + 9 * self._count,
            )
        )
        return b"".join((*self._parts, end))

    def _file_info(self) -> dict[bytes, bytes]:
        count = max(self._count, 1)
        info = {
            trailer.LAST_KEY: serialized_key(self._last_key) if self._last_key else b"",
            trailer.AVG_KEY_LEN: (self._key_bytes // count).to_bytes(4, "big"),
            trailer.AVG_VALUE_LEN: (self._value_bytes // count).to_bytes(4, "big"),
            trailer.CREATE_TIME: self._created_at.to_bytes(8, "big"),
            trailer.KEY_VALUE_VERSION: (1).to_bytes(4, "big"),
            trailer.MAX_MEMSTORE_TS: bytes(8),
        }
        return {**info, **self._info}

    def _flush(self) -> None:
        if not self._pending:
            return
        previous = self._index[-1][1] if self._index else -1
        place = self._emit(block.DATA, write_cells(self._pending), previous)
        self._index.append((serialized_key(self._pending[0][0]), *place))
        self._pending, self._pending_size = [], 0

    def _emit(self, magic: bytes, payload: bytes, previous: int = -1) -> tuple[int, int]:
        data = block.write_block(magic, payload, codec=self._codec, previous=previous)
        offset = self._at
        self._parts.append(data)
        self._at += len(data)
        return offset, len(data)


def write_hfile(
    entries: Iterable[tuple[bytes, bytes]],
    *,
    codec: str = "GZ",
    block_size: int = _DEFAULT_BLOCK_SIZE,
    meta: Mapping[str, bytes] | None = None,
    info: Mapping[bytes, bytes] | None = None,
) -> bytes:
    """A whole HFile from entries in key order, with meta blocks and further file info."""
    writer = HFileWriter(codec=codec, block_size=block_size)
    for key, value in entries:
        writer.append(key, value)
    for name, content in (meta or {}).items():
        writer.add_meta(name, content)
    for name_, value in (info or {}).items():
        writer.add_info(name_, value)
    return writer.finish()
