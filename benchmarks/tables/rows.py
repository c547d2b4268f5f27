"""The benchmark's rows: 11 columns, computed from the row number alone, so every table holds the same ones.

Row `i` of `total` has a shuffled key, a city by quarter of the table and a `ts` that ascends within a city. A tenth
of the rows, chosen by a hash, has an updated version. All of it is numpy over whole columns; 10 M rows take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

CITIES = 4
TS_START = 1_700_000_000_000
TS_STEP = 40
NAMES = 100_000
DATES = 1_500
KEY_MULTIPLIER = 2_654_435_761
UPDATED_ONE_IN = 10
GENERATOR_VERSION = 1
"""Part of every cache stamp: raise it when a value below changes."""

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("city", pa.string()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("qty", pa.int64()),
        ("amount", pa.decimal128(18, 2)),
        ("note", pa.string()),
        ("name", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
    ]
)
COLUMNS = SCHEMA.names

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one data file: `start ≤ i < stop`, all of one city."""

    number: int
    city: int
    start: int
    stop: int

    @property
    def city_name(self) -> str:
        return f"city_{self.city}"


def chunks(total: int, rows_per_file: int) -> list[Chunk]:
    """Cut `total` rows into files: the cities one after another, each in files of at most `rows_per_file` rows."""
    bounds = [total * city // CITIES for city in range(CITIES + 1)]
    found: list[Chunk] = []
    for city in range(CITIES):
        first, last = bounds[city], bounds[city + 1]
        files = max(1, -(-(last - first) // rows_per_file))
        edges = [first + (last - first) * n // files for n in range(files + 1)]
        found += [Chunk(len(found) + n, city, edges[n], edges[n + 1]) for n in range(files)]
    return found


def key(i: int, total: int) -> str:
    """The record key of row `i`: keys are unique and in no order that a file's statistics could use."""
    return f"k{i * KEY_MULTIPLIER % total:010d}"


def ts_bounds(total: int, share: float) -> tuple[int, int]:
    """The `ts` range in the middle of every city that holds about `share` of its rows."""
    per_city = total // CITIES
    low = TS_START + per_city // 2 * TS_STEP
    return low, low + max(1, int(per_city * share)) * TS_STEP


def is_updated(i: Int64s) -> npt.NDArray[np.bool_]:
    """Which rows have an updated version."""
    return _hash(i, salt=9) % np.uint64(UPDATED_ONE_IN) == 0


def base_rows(chunk: Chunk, total: int) -> pa.Table:
    """The rows of a chunk as first written."""
    return _rows(np.arange(chunk.start, chunk.stop, dtype=np.int64), chunk, total, updated=None)


def merged_rows(chunk: Chunk, total: int) -> pa.Table:
    """The rows of a chunk after the update, in the same order."""
    i = np.arange(chunk.start, chunk.stop, dtype=np.int64)
    return _rows(i, chunk, total, updated=is_updated(i))


def updated_rows(chunk: Chunk, total: int) -> tuple[pa.Table, Int64s]:
    """The updated versions alone, and their positions in the chunk."""
    i = np.arange(chunk.start, chunk.stop, dtype=np.int64)
    positions = np.flatnonzero(is_updated(i)).astype(np.int64)
    i = i[positions]
    return _rows(i, chunk, total, updated=np.ones(len(i), dtype=np.bool_)), positions


def _rows(i: Int64s, chunk: Chunk, total: int, *, updated: npt.NDArray[np.bool_] | None) -> pa.Table:
    hit = np.zeros(len(i), dtype=np.int64) if updated is None else updated.astype(np.int64)
    in_city = i - total * chunk.city // CITIES
    ts = TS_START + in_city * TS_STEP + (_hash(i, 7) % np.uint64(32)).astype(np.int64) + hit
    x = _hash(i, 1).astype(np.float64) / 2.0**64 * (1 + hit)
    y = _hash(i, 2).astype(np.float64) / 2.0**40
    qty = (_hash(i, 3) % np.uint64(1000)).astype(np.int64) + hit
    cents = (_hash(i, 4) % np.uint64(10**9)).astype(np.int64)
    micros = TS_START * 1000 + (_hash(i, 5) % np.uint64(10**13)).astype(np.int64)
    days = (18_262 + i % DATES).astype(np.int32)
    columns = [
        _numbered("k", i * KEY_MULTIPLIER % total, digits=10),
        pa.array(ts),
        pa.repeat(pa.scalar(chunk.city_name), len(i)),
        pa.array(x),
        pa.array(y),
        pa.array(qty),
        _decimals(cents),
        _hex(_hash(i, 20) + hit.astype(np.uint64), _hash(i, 21)),
        _numbered("user_", i * 7919 % NAMES, digits=5),
        pa.array(days, pa.date32()),
        pa.array(micros, pa.timestamp("us", tz="UTC")),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _hash(i: Int64s, salt: int) -> UInt64s:
    """splitmix64: well-spread 64-bit values from row numbers."""
    with np.errstate(over="ignore"):
        z = i.astype(np.uint64) + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _fixed_width(characters: npt.NDArray[np.uint8] | bytes, width: int, count: int) -> pa.StringArray:
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(characters))


def _numbered(prefix: str, numbers: Int64s, digits: int) -> pa.StringArray:
    """`prefix` and the number, zero-padded to `digits`, for every number."""
    characters = np.empty((len(numbers), len(prefix) + digits), dtype=np.uint8)
    characters[:, : len(prefix)] = np.frombuffer(prefix.encode(), dtype=np.uint8)
    rest = numbers.copy()
    for column in range(len(prefix) + digits - 1, len(prefix) - 1, -1):
        characters[:, column] = rest % 10 + ord("0")
        rest //= 10
    return _fixed_width(characters, len(prefix) + digits, len(numbers))


def _hex(high: UInt64s, low: UInt64s) -> pa.StringArray:
    """32 hexadecimal characters a row: a string that neither repeats nor compresses."""
    pairs = np.empty((len(high), 2), dtype=">u8")
    pairs[:, 0], pairs[:, 1] = high, low
    return _fixed_width(pairs.tobytes().hex().encode(), 32, len(high))


def _decimals(unscaled: Int64s) -> pa.Array:
    """decimal(18, 2) from its unscaled, non-negative values."""
    words = np.zeros((len(unscaled), 2), dtype=np.int64)
    words[:, 0] = unscaled
    return pa.Array.from_buffers(pa.decimal128(18, 2), len(unscaled), [None, pa.py_buffer(words)])
