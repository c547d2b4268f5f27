"""Avro datums decoded side by side: every record has a cursor, and all cursors move together in numpy.

The values of an HFile are single datums with known ends, so no record waits for the one before it. Unions are followed
branch by branch on the records that took the branch; maps and arrays are not followed (`CannotDecodeError`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Longs: TypeAlias = npt.NDArray[np.int64]
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
# Five bytes hold an int, ten a long.
_LONGEST_VARINT = 10


class CannotDecodeError(Exception):
    """The schema has a type, or the bytes a shape, that this decoder does not follow."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of booleans, ints or floats."""

    values: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Texts:
    """A column of strings or bytes, as places in the buffer."""

    start: _Longs
    length: _Longs


@dataclass(frozen=True, slots=True)
class Record:
    """A column of records."""

    fields: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Union:
    """A column of unions: which branch each row took, and per branch its rows and their column (None: nulls)."""

    branch: _Longs
    branches: Mapping[str, tuple[_Longs, Column]]


Column: TypeAlias = Numbers | Texts | Record | Union | None


class Datums:
    """The values of an Arrow binary array, decoded with one Avro schema.

    >>> values = pa.array([b"\\x02a\\x08", b"\\x04bc\\x01"], pa.binary())
    >>> fields = '[{"name": "s", "type": "string"}, {"name": "n", "type": "int"}]'
    >>> datums = Datums(values)
    >>> record = datums.decode(f'{{"type": "record", "name": "r", "fields": {fields}}}')
    >>> datums.texts(record.fields["s"]).to_pylist(), record.fields["n"].values.tolist()
    (['a', 'bc'], [4, -1])
    """

    def __init__(self, values: pa.Array) -> None:
        _validity, offsets, data = values.buffers()
        places = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset).astype(np.int64)
        self._buffer = data
        self._data = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        self._at: _Longs = places[:-1].copy()
        self._end: _Longs = places[1:]

    def __len__(self) -> int:
        return len(self._at)

    def decode(self, schema: str | bytes) -> Record:
        """All records; every datum must end exactly where its value ends."""
        root, names = _parsed(schema)
        if not len(self):
            raise CannotDecodeError("no values")
        try:
            column = self._column(root, names, np.arange(len(self)))
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CannotDecodeError(f"the schema cannot be followed: {error!r}") from error
        if not isinstance(column, Record) or not np.array_equal(self._at, self._end):
            raise CannotDecodeError("the values are no records of this schema")
        return column

    def texts(self, column: Column, rows: _Longs | None = None, size: int = 0, *, binary: bool = False) -> pa.Array:
        """A column of texts as Arrow; with `rows`, spread over `size` rows with nulls between."""
        if not isinstance(column, Texts):
            raise CannotDecodeError("the column holds no texts")
        kind = pa.large_binary() if binary else pa.large_string()
        count = len(column.start)
        # Pieces between the texts are elements too, so that Arrow gathers the texts in one call.
        order = np.argsort(column.start, kind="stable")
        offsets = np.zeros(2 * count + 1, np.int64)
        offsets[0:-1:2] = column.start[order]
        offsets[1::2] = (column.start + column.length)[order]
        offsets[-1] = offsets[-2] if count else 0
        place = np.empty(count, np.int64)
        place[order] = np.arange(0, 2 * count, 2)
        pieces = pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(offsets), self._buffer])
        found = pieces.take(pa.array(place))
        try:
            found.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CannotDecodeError(f"a text is not UTF-8: {error}") from error
        found = found.cast(pa.binary() if binary else pa.string())
        return found if rows is None else spread(found, rows, size)

    def _column(self, schema: Any, names: Mapping[str, Any], rows: _Longs) -> Column:
        if isinstance(schema, list):
            return self._union(schema, names, rows)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, (dict, list)):
            return self._column(kind, names, rows)
        if kind == "record":
            fields = {}
            for field in schema["fields"]:
                fields[field["name"]] = self._column(field["type"], names, rows)
            return Record(fields)
        if kind in _PRIMITIVES:
            return self._primitive(kind, rows)
        if kind in names:
            return self._column(names[kind], names, rows)
        raise CannotDecodeError(f"type {kind}")

    def _union(self, members: list[Any], names: Mapping[str, Any], rows: _Longs) -> Union:
        branch = self._varints(rows)
        branches: dict[str, tuple[_Longs, Column]] = {}
        alike = bool((branch == branch[0]).all())  # the common case: nobody or everybody has the field
        for index in (branch[:1] if alike else np.unique(branch)).tolist():
            if not 0 <= index < len(members):
                raise CannotDecodeError(f"a union has no branch {index}")
            taken = np.arange(len(rows)) if alike else np.nonzero(branch == index)[0]
            branches[_name(members[index])] = taken, self._column(members[index], names, rows[taken])
        return Union(branch, branches)

    def _primitive(self, kind: str, rows: _Longs) -> Column:
        if kind == "null":
            return None
        if kind in ("int", "long"):
            return Numbers(self._varints(rows))
        if kind in ("string", "bytes"):
            length = self._varints(rows)
            if len(length) and length.min() < 0:
                raise CannotDecodeError("a text has a negative length")
            return Texts(self._advance(rows, length), length)
        width = {"boolean": 1, "float": 4, "double": 8}[kind]
        start = self._advance(rows, np.full(len(rows), width, np.int64))
        raw = np.ascontiguousarray(self._data[start[:, np.newaxis] + np.arange(width)])
        if kind == "boolean":
            return Numbers(raw.reshape(-1).astype(bool))
        return Numbers(raw.view("<f4" if kind == "float" else "<f8").reshape(-1))

    def _advance(self, rows: _Longs, length: _Longs) -> _Longs:
        start = self._at[rows]
        # The lengths are bounded before they are added: a damaged one must not overflow.
        if bool((length > self._end[rows] - start).any()):
            raise CannotDecodeError("a value ends before its datum does")
        self._at[rows] = start + length
        return start

    def _varints(self, rows: _Longs) -> _Longs:
        at, end = self._at[rows], self._end[rows]
        if bool((at >= end).any()):
            raise CannotDecodeError("a number ends before its datum does")
        byte = self._data[at]
        at += 1
        value = (byte & np.uint8(0x7F)).astype(np.uint64)
        active = np.nonzero(byte >= 0x80)[0]
        for index in range(1, _LONGEST_VARINT + 1):
            if not len(active):
                break
            if index == _LONGEST_VARINT:
                raise CannotDecodeError("a number does not end")
            if bool((at[active] >= end[active]).any()):
                raise CannotDecodeError("a number ends before its datum does")
            byte = self._data[at[active]]
            at[active] += 1
            value[active] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * index)
            active = active[byte >= 0x80]
        self._at[rows] = at
        signed: _Longs = (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)
        return signed


def spread(found: pa.Array, rows: _Longs, size: int) -> pa.Array:
    """The values at their rows among `size` rows, null elsewhere.

    >>> spread(pa.array([5, 6]), np.array([2, 0]), 4).to_pylist()
    [6, None, 5, None]
    """
    if len(rows) == size and np.array_equal(rows, np.arange(size)):
        return found
    place = np.full(size, -1, np.int64)
    place[rows] = np.arange(len(rows))
    return found.take(pa.array(place, mask=place < 0))


def numbers(column: Column, kind: pa.DataType, rows: _Longs | None = None, size: int = 0) -> pa.Array:
    """A column of numbers as Arrow; with `rows`, spread over `size` rows with nulls between."""
    if not isinstance(column, Numbers):
        raise CannotDecodeError("the column holds no numbers")
    found = pa.array(column.values).cast(kind)
    return found if rows is None else spread(found, rows, size)


def _name(member: Any) -> str:
    """A union member's name, without namespace."""
    if isinstance(member, dict):
        member = member.get("name", member["type"])
    return str(member).rsplit(".", 1)[-1]


@lru_cache(maxsize=32)
def _parsed(schema: str | bytes) -> tuple[Any, dict[str, Any]]:
    names: dict[str, Any] = {}

    def collect(part: Any) -> None:
        if isinstance(part, list):
            for member in part:
                collect(member)
        elif isinstance(part, dict):
            if "name" in part and part.get("type") in ("record", "enum", "fixed"):
                space = part.get("namespace")
                names[part["name"]] = part
                if space:
                    names[f"{space}.{part['name']}"] = part
            for child in part.values():
                collect(child)

    try:
        root = json.loads(schema)
    except ValueError as error:
        raise CannotDecodeError(f"the schema is no JSON: {error}") from error
    collect(root)
    return root, names
