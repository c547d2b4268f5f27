"""Checksums of HFile blocks: CRC32 and CRC32C over every `bytes_per_checksum` bytes (format facts 9.1).

zlib has CRC32 but not CRC32C, and a byte loop in Python is too slow to verify every block. A CRC is linear, so the
bytes are cut into lanes of 64 bytes, all lanes advance together in numpy, and neighbours are then combined in a
binary tree with the operator that appends 64, 128, … zero bytes.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Words: TypeAlias = npt.NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78
_LANE = 64
NULL, CRC32, CRC32C = 0, 1, 2


def checksums(kind: int, data: bytes | memoryview, bytes_per_checksum: int) -> bytes:
    """The big-endian checksums of each chunk, one after the other.

    >>> checksums(CRC32C, b"123456789", 16384).hex()
    'e3069283'
    >>> checksums(CRC32, b"123456789", 16384).hex()
    'cbf43926'
    """
    if kind == CRC32C:
        return _crc32c_chunks(data, bytes_per_checksum).astype(">u4").tobytes()
    starts = range(0, len(data), bytes_per_checksum)
    return b"".join(zlib.crc32(data[at : at + bytes_per_checksum]).to_bytes(4, "big") for at in starts)


def crc32c(data: bytes | memoryview) -> int:
    """CRC32C (Castagnoli) of some bytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    return int(_crc32c_chunks(data, max(len(data), 1))[0]) if len(data) else 0


def _crc32c_chunks(data: bytes | memoryview, chunk: int) -> _Words:
    flat = np.frombuffer(data, dtype=np.uint8)
    full, rest = divmod(len(flat), chunk)
    parts = [_crc32c_rows(flat[: full * chunk].reshape(full, chunk))] if full else []
    if rest:
        parts.append(_crc32c_rows(flat[full * chunk :].reshape(1, rest)))
    return np.concatenate(parts) if parts else np.empty(0, np.uint32)


def _crc32c_rows(rows: npt.NDArray[np.uint8]) -> _Words:
    count, length = rows.shape
    lanes = 1
    while lanes * _LANE < length:
        lanes *= 2
    # Zeros in front change nothing while the register is zero; the register's initial ones are the same as
    # inverting the first four bytes.
    padded = np.zeros((count, max(lanes * _LANE, length)), np.uint8)
    start = padded.shape[1] - length
    padded[:, start:] = rows
    head = min(4, length)
    padded[:, start : start + head] ^= 0xFF
    words = padded.view("<u4").reshape(count, lanes, _LANE // 4)
    state = np.zeros((count, lanes), np.uint32)
    step = _append_zeros(4)
    for index in range(_LANE // 4):
        state = _apply(step, state ^ words[:, :, index])
    width = _LANE
    while state.shape[1] > 1:
        state = _apply(_append_zeros(width), state[:, 0::2]) ^ state[:, 1::2]
        width *= 2
    result: _Words = state[:, 0] ^ np.uint32(0xFFFFFFFF)
    if length < 4:
        # Not all of the initial ones met a byte: those left are shifted out by the missing bytes' zeros.
        result ^= np.uint32(0xFFFFFFFF >> (8 * length))
    return result


def _apply(tables: _Words, state: _Words) -> _Words:
    result: _Words = (
        tables[0][state & 0xFF]
        ^ tables[1][(state >> np.uint32(8)) & 0xFF]
        ^ tables[2][(state >> np.uint32(16)) & 0xFF]
        ^ tables[3][state >> np.uint32(24)]
    )
    return result


@lru_cache(maxsize=64)
def _append_zeros(count: int) -> _Words:
    """What a register becomes after `count` (a power of two) zero bytes: one table per byte of the register."""
    if count > 1:
        half = _append_zeros(count // 2)
        return _apply(half, half)
    register = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        register = (register >> np.uint32(1)) ^ (np.uint32(_POLYNOMIAL) * (register & np.uint32(1)))
    others = [np.arange(256, dtype=np.uint32) << np.uint32(8 * (byte - 1)) for byte in (1, 2, 3)]
    return np.stack([register, *others])
