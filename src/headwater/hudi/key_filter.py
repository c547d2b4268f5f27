"""Which record keys a filter asks for, where it asks for certain ones."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.hudi.properties import KeyGenerator, TableConfig
from headwater.hudi.schema import RECORD_KEY
from headwater.spec.expressions import And, Column, Comparison, Expression, In, Literal

MOST_KEYS = 100_000


def wanted_keys(bound: Expression, config: TableConfig) -> list[str] | None:
    """The record keys that a matching row may have; None where any may.

    >>> import pyarrow as pa
    >>> from headwater.hudi.properties import check_config
    >>> from headwater.spec.expressions import bind, parse
    >>> config = check_config({"hoodie.table.name": "t", "hoodie.table.version": "9",
    ...                        "hoodie.table.recordkey.fields": "id"}, "here")
    >>> schema = pa.schema([("id", pa.int32()), ("x", pa.int32())])
    >>> wanted_keys(bind(parse("id IN (1, 2) AND x > 5"), schema), config)
    ['1', '2']
    >>> wanted_keys(bind(parse("x > 5"), schema), config)
    """
    found: list[str] | None = None
    for part in bound.operands if isinstance(bound, And) else (bound,):
        keys = _keys(part, config)
        if keys is not None and (found is None or len(keys) < len(found)):
            found = keys
    return found if found is None or len(found) <= MOST_KEYS else None


def _keys(part: Expression, config: TableConfig) -> list[str] | None:
    if isinstance(part, Comparison) and part.op == "=" and isinstance(part.left, Column):
        values: Iterable[object] = [part.right.value] if isinstance(part.right, Literal) else []
        column = part.left
    elif isinstance(part, In) and isinstance(part.column, Column):
        values, column = [value.value for value in part.values if isinstance(value, Literal)], part.column
        if len(part.values) != len(list(values)):
            return None
    else:
        return None
    values = list(values)
    if not values or getattr(column, "cast", None) is not None or len(column.path) != 1:
        return None
    if column.path[0] == RECORD_KEY:
        return [value for value in values if isinstance(value, str)]
    return _keys_of_field(column.path[0], values, config)


def _keys_of_field(name: str, values: list[object], config: TableConfig) -> list[str] | None:
    """A key of one field is that field's text; the complex key generator put the name before it in some releases."""
    if config.record_key_fields != (name,) or config.key_generator is KeyGenerator.OTHER:
        return None
    if not all(isinstance(value, (str, int)) and not isinstance(value, bool) for value in values):
        return None
    texts = [str(value) for value in values]
    if config.key_generator in (KeyGenerator.COMPLEX, KeyGenerator.CUSTOM):
        return [*texts, *(f"{name}:{text}" for text in texts)]
    return texts
