"""Which record keys a filter asks for, where it asks for certain ones."""

from __future__ import annotations

from headwater.hudi.properties import KeyGenerator, TableConfig
from headwater.hudi.schema import RECORD_KEY
from headwater.spec.expressions import And, BoundFunction, Column, Comparison, Expression, In, Literal

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


def wanted_values(bound: Expression, name: str) -> list[str | None] | None:
    """The values, as texts, that a matching row may have in a column of texts or numbers; None where any may."""
    for part in bound.operands if isinstance(bound, And) else (bound,):
        found = _equality(part)
        if found is not None and found[0] == name and all(_is_plain(value) for value in found[1]):
            return [str(value) for value in found[1]]
    return None


def _equality(part: Expression) -> tuple[str, list[object]] | None:
    """The column and the values of `column = value` and `column IN (values)`."""
    literals: tuple[Expression, ...]
    if isinstance(part, Comparison) and part.op == "=" and isinstance(part.left, Column):
        literals, column = (part.right,), part.left
    elif isinstance(part, In) and isinstance(part.column, Column):
        literals, column = part.values, part.column
    else:
        return None
    values = [literal.value for literal in literals if isinstance(literal, Literal)]
    if not values or len(values) != len(literals) or getattr(column, "cast", None) is not None or len(column.path) != 1:
        return None
    if isinstance(column, BoundFunction):
        return None
    return column.path[0], list(values)


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _keys(part: Expression, config: TableConfig) -> list[str] | None:
    found = _equality(part)
    if found is None:
        return None
    name, values = found
    if name == RECORD_KEY:
        return [value for value in values if isinstance(value, str)]
    return _keys_of_field(name, values, config)


def _keys_of_field(name: str, values: list[object], config: TableConfig) -> list[str] | None:
    """A key of one field is that field's text; the complex key generator put the name before it in some releases."""
    if config.record_key_fields != (name,) or config.key_generator is KeyGenerator.OTHER:
        return None
    if not all(_is_plain(value) for value in values):
        return None
    texts = [str(value) for value in values]
    if config.key_generator in (KeyGenerator.COMPLEX, KeyGenerator.CUSTOM):
        return [*texts, *(f"{name}:{text}" for text in texts)]
    return texts
