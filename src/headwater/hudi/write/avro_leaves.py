"""Avro values that hold no others, column-wise: numbers, texts, bytes, decimals, as cells and a run (`avro_bytes`)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidArgument, UnsupportedTable
from headwater.hudi.avro_schema import Enum, Fixed, Primitive, decimal_width
from headwater.hudi.write.avro_bytes import Lengths, Words, binary, offsets_of, spread, varints

Encoded: TypeAlias = tuple[list[tuple[Words, Lengths]], pa.LargeBinaryArray | None]
_Signed: TypeAlias = npt.NDArray[np.int64]


def encode_leaf(node: Primitive | Fixed | Enum, array: pa.Array, where: str) -> Encoded:
    """A column's cells, and the run behind them. At nulls, cells hold anything; a run holds nothing there.

    >>> cells, run = encode_leaf(Primitive("string"), pa.array(["ab", None]), "s")
    >>> [int(value) for value in cells[0][0]], run.to_pylist()
    ([4, 0], [b'ab', b''])
    """
    match node:
        case Primitive(logical="decimal"):
            return _any_length(array, where)
        case Fixed(logical="decimal"):
            return _fixed_decimals(node, array, where)
        case Primitive(kind="string" | "bytes"):
            run = _plain(array)
            return varints(np.diff(offsets_of(run))), run
        case Primitive(kind="boolean"):
            return [(np.asarray(pc.fill_null(array, False)).astype(np.uint64), 1)], None
        case Primitive(kind="float"):
            return [(_numbers(array, np.uint32).astype(np.uint64), 4)], None
        case Primitive(kind="double"):
            return [(_numbers(array, np.uint64), 8)], None
        case Primitive(kind="int"):
            return varints(_numbers(array, np.int32).astype(np.int64)), None
        case Primitive(kind="long"):
            return varints(_numbers(array, np.int64)), None
        case Fixed():
            return [], _fixed(array)
        case Enum():
            return _symbols(node, array, where), None
    return [], None


def _numbers(array: pa.Array, kind: Any) -> Any:
    """The values as they lie in memory, zero where they are null."""
    size = np.dtype(kind).itemsize
    values = np.frombuffer(array.buffers()[1], kind, len(array), array.offset * size)
    return np.where(np.asarray(array.is_valid()), values, kind(0)) if array.null_count else values


def _plain(array: pa.Array) -> pa.LargeBinaryArray:
    """Texts or bytes as large binary, with nothing at nulls."""
    wide = array.cast(pa.large_binary())
    return pc.fill_null(wide, b"") if wide.null_count else wide


def _symbols(node: Enum, array: pa.Array, where: str) -> list[tuple[Words, Lengths]]:
    numbers = pc.index_in(array, pa.array(node.symbols, array.type))
    if numbers.null_count > array.null_count:
        strange = array.filter(pc.and_(numbers.is_null(), array.is_valid()))[0].as_py()
        raise InvalidArgument(f"column {where!r}: {strange!r} is none of the enum's symbols: {', '.join(node.symbols)}")
    return varints(_numbers(numbers, np.int32).astype(np.int64))


def _fixed(array: pa.Array) -> pa.LargeBinaryArray:
    width = array.type.byte_width
    data = np.frombuffer(array.buffers()[1] or b"", np.uint8)[
        array.offset * width : (array.offset + len(array)) * width
    ]
    if not array.null_count:
        return binary(data, np.arange(len(array) + 1, dtype=np.int64) * width)
    valid = np.asarray(array.is_valid())
    kept = data.reshape(len(array), width)[valid]
    return spread(binary(kept.reshape(-1), np.arange(len(kept) + 1, dtype=np.int64) * width), valid)


def _halves(array: pa.Array, where: str) -> tuple[Words, _Signed]:
    """The lower and the upper 64 bits of decimals."""
    if array.type.byte_width != 16:
        raise UnsupportedTable(f"column {where!r} is {array.type}; decimals of more than 38 digits are not written")
    words = _both(array)
    return words[:, 0].copy(), words[:, 1].copy().view(np.int64)


def _both(array: pa.Array) -> Words:
    words = np.frombuffer(array.buffers()[1], np.uint64, 2 * len(array), array.offset * 16).reshape(-1, 2)
    return np.where(np.asarray(array.is_valid())[:, None], words, np.uint64(0)) if array.null_count else words


def _fixed_decimals(node: Fixed, array: pa.Array, where: str) -> Encoded:
    """Big-endian, as many bytes as the schema says."""
    if decimal_width(array.type.precision) > node.size:
        raise UnsupportedTable(f"column {where!r}: {array.type} does not fit the {node.size} bytes of its Avro schema")
    low, high = _halves(array, where)
    cells: list[tuple[Words, Lengths]] = []
    left = node.size
    while left > 16:
        # Bytes before the sixteen repeat the sign.
        count = min(left - 16, 8)
        cells.append(((high >> 63).view(np.uint64), count))
        left -= count
    if left > 8:
        cells.append(((high.view(np.uint64) << np.uint64(8 * (16 - left))).byteswap(), left - 8))
        left = 8
    cells.append(((low << np.uint64(8 * (8 - left))).byteswap(), left))
    return cells, None


def _any_length(array: pa.Array, where: str) -> Encoded:
    """Decimals as bytes: the fewest that hold the number, as Java's BigInteger gives them, behind their length."""
    low, high = _halves(array, where)
    sign = high >> 63
    above, below = (high ^ sign).view(np.uint64), low ^ sign.view(np.uint64)
    sizes = np.ones(len(array), np.int64)
    for step in range(7, 64, 8):
        sizes += (below >= np.uint64(1 << step)) | (above > 0)
    for step in range(7, 64, 8):
        sizes += above >= np.uint64(1 << step)
    upper, lower = np.maximum(sizes - 8, 0), np.minimum(sizes, 8)
    first = (high.view(np.uint64) << (8 * (8 - upper) % 64).astype(np.uint64)).byteswap()
    second = (low << (8 * (8 - lower)).astype(np.uint64)).byteswap()
    return [*varints(sizes), (first, upper), (second, lower)], None
