"""Log files taken apart without the code under test."""

from __future__ import annotations

import struct
from collections.abc import Iterator

AVRO, HFILE = 3, 4
"""Types of blocks."""


def log_blocks(data: bytes) -> Iterator[tuple[int, dict[int, bytes], bytes]]:
    """The blocks of a log file, up to the first that is broken: type, header, content."""
    at = 0
    while data[at : at + 6] == b"#HUDI#":
        size, _version, kind, entries = struct.unpack_from(">qiii", data, at + 6)
        place, header = at + 26, {}
        for _ in range(entries):
            key, length = struct.unpack_from(">ii", data, place)
            header[key] = data[place + 8 : place + 8 + length]
            place += 8 + length
        (length,) = struct.unpack_from(">q", data, place)
        yield kind, header, data[place + 8 : place + 8 + length]
        at += 14 + size
