"""Frames between a JVM and its sidecar: one byte of kind, four bytes of length, the payload (docs/spark-connector.md).

>>> import io
>>> stream = io.BytesIO()
>>> write_frame(stream, Kind.QUERY, b"{}")
>>> read_frame(io.BytesIO(stream.getvalue()))
(<Kind.QUERY: b'Q'>, b'{}')
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Any, Protocol

from headwater.errors import HeadwaterError

PROTOCOL = 2
_HEADER = struct.Struct(">cI")
LONGEST = 2**32 - 1


class Kind(Enum):
    """What a frame is; the table is in docs/spark-connector.md."""

    HELLO = b"H"
    QUERY = b"Q"
    BLOB = b"B"
    CANCEL = b"C"
    ANSWER = b"J"
    POSITIONS = b"P"
    DATA = b"D"
    END = b"Z"
    ERROR = b"E"


class BrokenFrames(HeadwaterError, ValueError):
    """Bytes that are no frame: the other side speaks something else."""


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Writable(Protocol):
    def write(self, data: Any, /) -> Any: ...
    def flush(self) -> None: ...


def read_frame(stream: Readable) -> tuple[Kind, bytes] | None:
    """The next frame of a buffered stream; None where the stream ends, in the middle of a frame or not."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    code, length = _HEADER.unpack(header)
    try:
        kind = Kind(code)
    except ValueError:
        raise BrokenFrames(
            f"a frame of kind {code!r}; the JVM side speaks another protocol than version {PROTOCOL}"
        ) from None
    payload = stream.read(length) if length else b""
    return None if len(payload) < length else (kind, payload)


def write_frame(stream: Writable, kind: Kind, payload: Any = b"") -> None:
    """Write a frame whose payload is anything that has bytes, without a copy of it."""
    view = memoryview(payload)
    size = view.nbytes
    if size > LONGEST:
        raise BrokenFrames(f"a frame of {size} bytes; the longest has {LONGEST}")
    stream.write(_HEADER.pack(kind.value, size))
    if size:
        stream.write(view)
    if kind is not Kind.DATA:
        stream.flush()
