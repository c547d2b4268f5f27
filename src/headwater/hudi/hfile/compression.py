"""The codecs of HFile blocks, both ways, with bounded output (format facts 9.1)."""

from __future__ import annotations

import bz2
import zlib

import pyarrow as pa

from headwater.errors import UnsupportedTable

LZO, GZ, NONE, SNAPPY, LZ4, BZIP2, ZSTD = range(7)
CODEC_NAMES = {LZO: "LZO", GZ: "GZ", NONE: "NONE", SNAPPY: "SNAPPY", LZ4: "LZ4", BZIP2: "BZIP2", ZSTD: "ZSTD"}
CODEC_IDS = {name: code for code, name in CODEC_NAMES.items()}

_LARGEST_BLOCK = 1 << 30
_LARGEST_RATIO = 2000
# An empty bloom filter is megabytes of zeros in a few bytes: small outputs are allowed whatever their ratio.
_ALWAYS_ALLOWED = 16 << 20
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class CompressionError(Exception):
    """The compressed bytes do not decode to the declared size; the caller adds where."""


def decompress(codec: int, data: bytes | memoryview, size: int) -> bytes | memoryview:
    """The `size` bytes that were compressed into `data`.

    >>> bytes(decompress(GZ, compress(GZ, b"abc" * 9), 27))[:4]
    b'abca'
    """
    if codec == NONE:
        if len(data) != size:
            raise CompressionError(f"{len(data)} bytes are stored where the header declares {size}")
        return data
    if size > _LARGEST_BLOCK or size > max(_LARGEST_RATIO * len(data), _ALWAYS_ALLOWED):
        raise CompressionError(f"the header declares {size} bytes out of {len(data)} compressed ones")
    if codec == GZ:
        return _inflate(data, size)
    if codec == BZIP2:
        return _bunzip(data, size)
    if codec in (SNAPPY, LZ4) or (codec == ZSTD and bytes(data[:4]) != _ZSTD_MAGIC):
        return _hadoop_blocks(codec, data, size)
    if codec == ZSTD:
        return _zstd(data, size)
    raise UnsupportedTable(
        f"HFile compression {CODEC_NAMES.get(codec, codec)} cannot be read; rewrite the file with GZ"
    )


def compress(codec: int, data: bytes) -> bytes:
    """The bytes as a block stores them.

    >>> compress(NONE, b"abc")
    b'abc'
    """
    if codec == NONE:
        return data
    if codec == GZ:
        # Keys and values of an index repeat each other: the fastest level finds most of it.
        deflater = zlib.compressobj(1, wbits=31)
        return deflater.compress(data) + deflater.flush()
    if codec == BZIP2:
        return bz2.compress(data)
    if codec == ZSTD:
        return bytes(pa.Codec("zstd").compress(data, asbytes=True))
    if codec in (SNAPPY, LZ4):
        if not data:
            return bytes(4)
        body = bytes(pa.Codec(_ARROW_NAMES[codec]).compress(data, asbytes=True))
        return len(data).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body
    raise UnsupportedTable(f"HFile compression {CODEC_NAMES.get(codec, codec)} cannot be written; use GZ or NONE")


_ARROW_NAMES = {SNAPPY: "snappy", LZ4: "lz4_raw", ZSTD: "zstd"}


def _inflate(data: bytes | memoryview, size: int) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        # One byte more than expected, so that the stream's own CRC is reached and checked.
        result = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise CompressionError(f"the gzip stream is broken ({error})") from error
    if len(result) != size or not inflater.eof:
        raise CompressionError(f"the gzip stream does not hold the {size} bytes that the header declares")
    return result


def _bunzip(data: bytes | memoryview, size: int) -> bytes:
    decompressor = bz2.BZ2Decompressor()
    try:
        result = decompressor.decompress(data, size + 1)
    except (OSError, ValueError) as error:
        raise CompressionError(f"the bzip2 stream is broken ({error})") from error
    if len(result) != size or not decompressor.eof:
        raise CompressionError(f"the bzip2 stream does not hold the {size} bytes that the header declares")
    return result


def _zstd(data: bytes | memoryview, size: int) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd") as stream:
            result = bytes(stream.read(size + 1))
    except OSError as error:
        raise CompressionError(f"the zstd stream is broken ({error})") from error
    if len(result) != size:
        raise CompressionError(f"the zstd stream does not hold the {size} bytes that the header declares")
    return result


def _hadoop_blocks(codec: int, data: bytes | memoryview, size: int) -> bytes:
    """Hadoop's BlockCompressorStream: int raw size, then int-prefixed compressed chunks until it is reached."""
    if not size:
        return b""
    view = memoryview(data)
    at, parts, total = 0, [], 0
    while at < len(view):
        raw = int.from_bytes(view[at : at + 4], "big")
        at += 4
        if at > len(view) or total + raw > size:
            raise CompressionError(f"the {CODEC_NAMES[codec]} blocks hold more than the {size} declared bytes")
        block_end = total + raw
        while total < block_end:
            length = int.from_bytes(view[at : at + 4], "big")
            chunk = view[at + 4 : at + 4 + length]
            at += 4 + length
            if at > len(view) or not length:
                raise CompressionError(f"a {CODEC_NAMES[codec]} chunk is cut short")
            parts.append(_chunk(codec, chunk, block_end - total))
            total += len(parts[-1])
    if total != size:
        raise CompressionError(f"the {CODEC_NAMES[codec]} blocks hold {total} bytes where the header declares {size}")
    return b"".join(parts)


def _chunk(codec: int, chunk: memoryview, limit: int) -> bytes:
    if codec == ZSTD:
        return _zstd(chunk, limit)
    size = _snappy_size(chunk) if codec == SNAPPY else _lz4_size(chunk)
    if not 0 < size <= limit:
        raise CompressionError(f"a {CODEC_NAMES[codec]} chunk declares {size} bytes where at most {limit} are due")
    try:
        arrow = pa.Codec(_ARROW_NAMES[codec])
        return bytes(arrow.decompress(pa.py_buffer(chunk), decompressed_size=size, asbytes=True))
    except (OSError, ValueError) as error:
        raise CompressionError(f"a {CODEC_NAMES[codec]} chunk is broken ({error})") from error


def _snappy_size(chunk: memoryview) -> int:
    size = 0
    for index, byte in enumerate(chunk[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    return -1


def _lz4_size(chunk: memoryview) -> int:
    """Walks the sequences of a raw LZ4 block, which does not store its size."""
    at, size, end = 0, 0, len(chunk)
    while at < end:
        token = chunk[at]
        at += 1
        for base, extra in ((token >> 4, 0), (token & 15, 4)):
            if extra:
                if at >= end:
                    return size  # the last sequence has literals only
                at += 2
            length = base
            if base == 15:
                while at < end:
                    length += chunk[at]
                    at += 1
                    if chunk[at - 1] != 255:
                        break
            size += length + extra
            if not extra:
                at += length
    return size
