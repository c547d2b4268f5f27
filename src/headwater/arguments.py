"""Arguments of public calls, checked where they come in: what was given, and what to give instead."""

from __future__ import annotations

import numbers
import operator
import os
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from headwater.errors import InvalidArgument, WrongType


def whole_number(name: str, value: Any, least: int) -> int | None:
    """An optional whole number; a boolean is none, and neither is 1.0.

    >>> whole_number("limit", 5, 0)
    5
    >>> whole_number("limit", "5", 0)
    Traceback (most recent call last):
    headwater.errors.WrongType: limit='5' is a str; give a whole number, 0 or more
    """
    if value is None:
        return None
    try:
        number = operator.index(value) if not isinstance(value, bool) else None
    except TypeError:
        number = None
    if number is None:
        raise WrongType(f"{name}={_shown(value)}; give a whole number, {least} or more")
    if number < least:
        raise InvalidArgument(f"{name}={number}; give {least} or more")
    return number


def flag(name: str, value: Any) -> bool:
    """True or False.

    >>> flag("metadata", "no")
    Traceback (most recent call last):
    headwater.errors.WrongType: metadata='no' is a str; give True or False
    """
    if not isinstance(value, bool):
        raise WrongType(f"{name}={_shown(value)}; give True or False")
    return value


def size(name: str, value: Any) -> None:
    """An optional number of bytes, or a text for one; what the text says is the caller's to see."""
    if isinstance(value, bool) or not isinstance(value, (str, numbers.Real, type(None))):
        raise WrongType(f'{name}={_shown(value)}; give bytes or a text such as "512MB" or "2GB"')


def one_of(name: str, value: Any, known: Iterable[str], hint: str = "") -> str:
    """One of some words."""
    words = tuple(known)
    if isinstance(value, str) and value in words:
        return value
    problem = WrongType if not isinstance(value, str) else InvalidArgument
    given = _shown(value) if problem is WrongType else repr(value)
    raise problem(f"{name}={given}; known: {', '.join(words)}{hint}")


def column_names(columns: Any) -> tuple[str, ...] | None:
    """A list of column names, or None for all.

    >>> column_names(["id", "price"])
    ('id', 'price')
    >>> column_names(["id", 3])
    Traceback (most recent call last):
    headwater.errors.WrongType: columns=['id', 3]: 3 is a int, no name; give a list of column names
    """
    if columns is None:
        return None
    if isinstance(columns, (str, bytes)):
        raise InvalidArgument(f"columns={columns!r} is one text; give a list of column names")
    if not isinstance(columns, Iterable):
        raise WrongType(f"columns={_shown(columns)}; give a list of column names")
    names = tuple(columns)
    for name in names:
        if not isinstance(name, str):
            given = _brief(columns)
            raise WrongType(f"columns={given}: {_shown(name)}, no name; give a list of column names")
    return names


def some_columns(name: str, value: Any) -> tuple[str, ...]:
    """One column name or a list of them.

    >>> some_columns("key", "id"), some_columns("key", ["a", "b"])
    (('id',), ('a', 'b'))
    """
    names = (value,) if isinstance(value, str) else column_names(value)
    if names is None or not all(names):
        raise InvalidArgument(f"{name}={_brief(value)}; give a column or a list of columns")
    return names


def arrow_schema(name: str, value: Any) -> pa.Schema:
    """An Arrow schema, or something that has one.

    >>> arrow_schema("schema", pa.table({"id": [1]})).names
    ['id']
    """
    found = value if isinstance(value, pa.Schema) else getattr(value, "schema", None)
    if isinstance(found, pa.Schema):
        return found
    if hasattr(value, "__arrow_c_schema__"):
        return pa.schema(value)
    raise WrongType(f"{name}={_shown(value)}; give a pyarrow schema: pa.schema([('id', pa.string()), …])")


def record_keys(keys: Any) -> pa.Array:
    """Record keys as texts: an Arrow array that has texts for its values, or any list of texts.

    >>> record_keys(["a", "b"]).to_pylist(), record_keys(pa.array([1, 2])).to_pylist()
    (['a', 'b'], ['1', '2'])
    >>> record_keys([1])
    Traceback (most recent call last):
    headwater.errors.WrongType: keys=[1]: 1 is a int; a record key is a text, so give str(key)
    """
    todo = "give a list of texts, or an Arrow array of them"
    if isinstance(keys, (str, bytes)):
        raise InvalidArgument(f"keys={_brief(keys)} is one text; {todo}")
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    if not isinstance(keys, pa.Array):
        if not isinstance(keys, Iterable):
            raise WrongType(f"keys={_shown(keys)}; {todo}")
        keys = list(keys)
        for key in keys:
            if key is not None and not isinstance(key, str):
                raise WrongType(f"keys={_brief(keys)}: {_shown(key)}; a record key is a text, so give str(key)")
        keys = pa.array(keys, pa.string())
    if keys.null_count:
        raise InvalidArgument("a record key is never null; give `keys` without nulls")
    try:
        return keys.cast(pa.string())
    except pa.ArrowException as error:
        raise WrongType(f"keys of type {keys.type} are no texts ({error}); {todo}") from error


def location(path: Any) -> str:
    """A path or a URI as text."""
    try:
        text = os.fspath(path)
    except TypeError:
        raise WrongType(f"path={_shown(path)}; give a folder or a URI such as s3://bucket/table") from None
    if not isinstance(text, str):
        raise WrongType(f"path={text!r} is bytes; give a text: os.fsdecode makes one")
    return text


def _shown(value: Any) -> str:
    return f"{_brief(value)} is a {type(value).__name__}"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
