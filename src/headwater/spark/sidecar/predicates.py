"""Spark's V2 predicates as expressions of ours, and how far each can be relied on.

*full*: decided by partition paths alone; Spark need not look again. *partial*: leaves out files and rows that cannot
match; Spark evaluates it again. *none*: whatever is not certain to mean the same here as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.spark.types import from_json, spark_type
from headwater.spec.expressions import (
    Column,
    Comparison,
    Contains,
    EndsWith,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    StartsWith,
    bind,
    columns,
    conjunction,
    disjunction,
    evaluate,
    referenced,
    resolve,
)
from headwater.spec.expressions.nodes import FALSE, TRUE

FULL, PARTIAL, NONE = "full", "partial", "none"

_COMPARISONS = {"=": "=", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
_TEXT_TESTS: dict[str, Callable[[Column, str], Expression]] = {
    "STARTS_WITH": StartsWith,
    "ENDS_WITH": EndsWith,
    "CONTAINS": Contains,
}
_INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_COMPARABLE = {"boolean", "string", "binary", "date", "timestamp", "timestamp_ntz", "float", "double"}


class _Unclear(Exception):
    """Not certain to mean the same here as in Spark."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """A predicate with its class; the expression is there unless that is none."""

    kind: str
    expression: Expression | None = None


@dataclass(frozen=True)
class PartitionValues:
    """The values of all partitions in the columns that every path tells."""

    table: pa.Table

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.table.column_names)


def clear_expression(predicate: Any, schema: pa.Schema) -> Expression | None:
    """A whole predicate in JSON, where it certainly means the same here as in Spark; None otherwise."""
    try:
        expression = _expression(predicate, schema)
        bind(expression, schema)
    except (_Unclear, HeadwaterError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return expression


def decided_by_partitions(bound: Expression, partitions: PartitionValues) -> bool:
    """Whether the values of partitions alone tell which rows match."""
    return _is_decided(bound, partitions)


def classify(predicate: Any, schema: pa.Schema, partitions: PartitionValues) -> Pushed:
    """The class of a predicate in JSON, and what can be pushed of it."""
    if predicate is None:
        return Pushed(NONE)
    try:
        expression = _expression(predicate, schema)
        bound = bind(expression, schema)
    except (_Unclear, HeadwaterError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return _clear_part(predicate, schema)
    return Pushed(FULL if _is_decided(bound, partitions) else PARTIAL, expression)


def _clear_part(predicate: Any, schema: pa.Schema) -> Pushed:
    """Of an AND, the operands that are clear: rows that fail them fail the whole."""
    if not isinstance(predicate, Mapping) or predicate.get("op") != "AND":
        return Pushed(NONE)
    nothing = PartitionValues(pa.table({}))
    found = [classify(one, schema, nothing).expression for one in predicate.get("args") or ()]
    clear = [expression for expression in found if expression is not None]
    return Pushed(PARTIAL, conjunction(clear)) if clear else Pushed(NONE)


def _is_decided(bound: Expression, partitions: PartitionValues) -> bool:
    named = referenced(bound)
    if not named or any(len(column.path) > 1 for column in named) or not columns(bound) <= partitions.names:
        return False
    if any(pa.types.is_floating(partitions.table.schema.field(name).type) for name in columns(bound)):
        return False  # what a path says of such a number need not be all of it
    try:
        evaluate(bound, partitions.table)
    except (pa.ArrowException, HeadwaterError, ValueError, TypeError):
        return False
    return True


def _expression(node: Any, schema: pa.Schema) -> Expression:
    if not isinstance(node, Mapping):
        raise _Unclear
    if "col" in node:
        column, kind = _column(node, schema)
        if kind != "boolean":
            raise _Unclear
        return column
    if "lit" in node:
        value = from_json(node["lit"], str(node.get("type")))
        if not isinstance(value, bool):
            raise _Unclear
        return TRUE if value else FALSE
    op, args = str(node.get("op")), list(node.get("args") or ())
    if op in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
        return TRUE if op == "ALWAYS_TRUE" else FALSE
    if op in ("AND", "OR"):
        parts = [_expression(one, schema) for one in args]
        return conjunction(parts) if op == "AND" else disjunction(parts)
    if op == "NOT":
        (operand,) = args
        return Not(_expression(operand, schema))
    if op in ("IS_NULL", "IS_NOT_NULL"):
        (operand,) = args
        test = IsNull(_plain_column(operand, schema)[0])
        return test if op == "IS_NULL" else Not(test)
    if op == "IN":
        return _in(args, schema)
    if op in _TEXT_TESTS:
        column, kind = _plain_column(args[0], schema)
        text = _literal(args[1], "string").value
        if kind != "string" or not isinstance(text, str) or len(args) != 2:
            raise _Unclear
        return _TEXT_TESTS[op](column, text)
    if op in _COMPARISONS:
        return _comparison(_COMPARISONS[op], args, schema)
    raise _Unclear


def _comparison(op: str, args: Sequence[Any], schema: pa.Schema) -> Expression:
    left, right = args
    if _is_literal(left) and _is_literal(right):
        raise _Unclear
    if _is_literal(left):
        column, kind = _column(right, schema)
        return Comparison(op, _literal(left, kind), column)
    column, kind = _column(left, schema)
    if _is_literal(right):
        return Comparison(op, column, _literal(right, kind))
    other, other_kind = _plain_column(right, schema)
    if other_kind != _plain_column(left, schema)[1]:
        raise _Unclear
    return Comparison(op, column, other)


def _in(args: Sequence[Any], schema: pa.Schema) -> Expression:
    column, kind = _column(args[0], schema)
    return In(column, tuple(_literal(one, kind) for one in args[1:]))


def _is_literal(node: Any) -> bool:
    return isinstance(node, Mapping) and "lit" in node


def _literal(node: Any, kind: str) -> Literal:
    """A literal that Spark compares with a column of this type as the column's own type, or exactly as numbers."""
    if not _is_literal(node):
        raise _Unclear
    own = _plain(str(node.get("type")))
    if node["lit"] is None:
        return Literal(None)
    if own != kind and not (_is_exact(own) and _is_exact(kind)):
        raise _Unclear
    return Literal(from_json(node["lit"], own))


def _plain(name: str) -> str:
    return _NAMES.get(name, name)


def _is_exact(kind: str) -> bool:
    return kind in _INTEGERS or _DECIMAL.fullmatch(kind) is not None


def _plain_column(node: Any, schema: pa.Schema) -> tuple[Column, str]:
    """A column as it is, and its Spark type."""
    if not isinstance(node, Mapping) or "col" not in node:
        raise _Unclear
    path = [str(part) for part in node["col"]]
    bound = resolve(Column(tuple(path)), schema)
    type_ = bound.type
    if pa.types.is_time(type_) or pa.types.is_duration(type_):
        raise _Unclear  # a number in Spark, not here
    return Column(bound.path), str(spark_type(type_) if not pa.types.is_nested(type_) else "nested")


def _column(node: Any, schema: pa.Schema) -> tuple[Column, str]:
    """A column that is compared, perhaps cast without loss, and the Spark type as which it is."""
    if isinstance(node, Mapping) and node.get("op") == "CAST":
        (inner,) = node["args"]
        column, kind = _column(inner, schema)
        target = _plain(str(node.get("type")))
        if not _is_lossless(kind, target):
            raise _Unclear
        return column, target
    column, kind = _plain_column(node, schema)
    if kind not in _COMPARABLE and not _is_exact(kind):
        raise _Unclear
    return column, kind


def _is_lossless(source: str, target: str) -> bool:
    """Whether a cast keeps each value and their order, and never fails.

    >>> _is_lossless("integer", "long"), _is_lossless("long", "double"), _is_lossless("integer", "decimal(10,0)")
    (True, False, True)
    """
    if source == target:
        return True
    wide = _DECIMAL.fullmatch(target)
    if source in _INTEGERS:
        if target in _INTEGERS:
            return _INTEGERS[source] <= _INTEGERS[target]
        if wide is not None:
            return int(wide[1]) - int(wide[2]) >= _INTEGERS[source]
        return target == "double" and source != "long"
    narrow = _DECIMAL.fullmatch(source)
    if narrow is not None and wide is not None:
        whole = int(wide[1]) - int(wide[2]) >= int(narrow[1]) - int(narrow[2])
        return whole and int(wide[2]) >= int(narrow[2])
    return (source, target) == ("float", "double")
