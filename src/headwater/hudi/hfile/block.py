"""The framing that every HFile block shares: a 33-byte header, the payload, checksums (format facts 9.1)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.errors import CorruptFile, UnsupportedTable
from headwater.hudi.hfile import checksum, compression

DATA, ENCODED_DATA = b"DATABLK*", b"DATABLKE"
LEAF_INDEX, INTERMEDIATE_INDEX, ROOT_INDEX = b"IDXLEAF2", b"IDXINTE2", b"IDXROOT2"
META, FILE_INFO = b"METABLKc", b"FILEINF2"

HEADER_SIZE = 33
_HEADER = struct.Struct(">8siiqBii")
_BYTES_PER_CHECKSUM = 16384


def corrupt(name: str, offset: int, what: str) -> CorruptFile:
    """The error for bytes that no HFile writer writes."""
    return CorruptFile(
        f"{name}: at byte {offset}: {what}. The file is damaged or no HFile: restore it, or if it belongs to a metadata"
        " table, drop that table and have it rebuilt"
    )


@dataclass(frozen=True, slots=True)
class Block:
    """A block with its payload decompressed; `end` is the offset of the byte behind it."""

    magic: bytes
    payload: bytes | memoryview
    end: int


def read_block(data: bytes | memoryview, offset: int, *, codec: int, name: str, expect: bytes) -> Block:
    """The block at the start of `data`, which lies at `offset` of the file `name`.

    `data` may go on behind the block. A wrong magic, impossible sizes, a checksum that does not fit and a payload
    that does not decompress to the declared size are `CorruptFile`.
    """
    if len(data) < HEADER_SIZE:
        raise corrupt(name, offset, f"only {len(data)} bytes are left where a block should start")
    magic, on_disk, size, _previous, kind, per_checksum, with_header = _HEADER.unpack_from(data)
    if magic != expect:
        if magic == ENCODED_DATA and expect == DATA:
            raise UnsupportedTable(
                f"{name}: at byte {offset}: data block encodings are not supported; rewrite the file"
            )
        raise corrupt(name, offset, f"a block {_shown(expect)} is due, {_shown(magic)} was found")
    if on_disk < 0 or size < 0 or not HEADER_SIZE <= with_header <= HEADER_SIZE + on_disk:
        raise corrupt(name, offset, f"impossible block sizes {on_disk}, {size}, {with_header}")
    end = HEADER_SIZE + on_disk
    if end > len(data):
        raise corrupt(name, offset, f"a block of {end} bytes has only {len(data)} bytes of room")
    view = memoryview(data)
    _verify(view[:with_header], bytes(view[with_header:end]), kind, per_checksum, name, offset)
    try:
        payload = compression.decompress(codec, view[HEADER_SIZE:with_header], size)
    except compression.CompressionError as error:
        raise corrupt(name, offset, str(error)) from error
    except UnsupportedTable as error:
        raise UnsupportedTable(f"{name}: {error}") from error
    return Block(magic, payload, offset + end)


def write_block(magic: bytes, payload: bytes, *, codec: int, previous: int = -1, checked: bool = False) -> bytes:
    """A block as Hudi's own writer writes it: checksum type NULL, and zeros where the checksums would be.

    With `checked` it has checksums, as HBase's writer gives them.

    >>> block = write_block(META, b"some bytes", codec=compression.GZ)
    >>> bytes(read_block(block, 0, codec=compression.GZ, name="example", expect=META).payload)
    b'some bytes'
    """
    body = compression.compress(codec, payload)
    with_header = HEADER_SIZE + len(body)
    room = 4 * -(-with_header // _BYTES_PER_CHECKSUM)
    kind = checksum.CRC32 if checked else checksum.NULL
    header = _HEADER.pack(magic, len(body) + room, len(payload), previous, kind, _BYTES_PER_CHECKSUM, with_header)
    block = header + body
    return block + (checksum.checksums(kind, block, _BYTES_PER_CHECKSUM) if checked else bytes(room))


def _verify(covered: memoryview, stored: bytes, kind: int, per_checksum: int, name: str, offset: int) -> None:
    if kind == checksum.NULL:
        return
    if kind not in (checksum.CRC32, checksum.CRC32C):
        raise corrupt(name, offset, f"there is no checksum type {kind}")
    if per_checksum <= 0 or len(stored) != 4 * -(-len(covered) // per_checksum):
        raise corrupt(name, offset, f"{len(stored)} bytes of checksums for {len(covered)} bytes of block")
    if checksum.checksums(kind, covered, per_checksum) != stored:
        raise corrupt(name, offset, "the block's checksum does not fit its bytes")


def _shown(magic: bytes) -> str:
    return magic.decode("ascii", "backslashreplace")
