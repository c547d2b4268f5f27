"""Expressions as the JVM sends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headwater.spark.types import spark_type, to_json
from headwater.spec.expressions import (
    And,
    Column,
    Comparison,
    Contains,
    EndsWith,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    resolve,
)

_TEXT = {StartsWith: "STARTS_WITH", EndsWith: "ENDS_WITH", Contains: "CONTAINS"}


def spark_json(expression: Expression, schema: pa.Schema) -> Any:
    """The JSON of an expression, with literals of their column's type; None where Spark has no such predicate."""
    try:
        return _json(expression, schema)
    except LookupError:
        return None


def _json(node: Expression, schema: pa.Schema) -> Mapping[str, Any]:
    match node:
        case And() | Or():
            return {"op": type(node).__name__.upper(), "args": [_json(one, schema) for one in node.operands]}
        case Not():
            return {"op": "NOT", "args": [_json(node.operand, schema)]}
        case IsNull():
            return {"op": "IS_NULL", "args": [_column(node.column)]}
        case In():
            return {
                "op": "IN",
                "args": [_column(node.column), *(_literal(v, node.column, schema) for v in node.values)],
            }
        case StartsWith() | EndsWith() | Contains():
            return {"op": _TEXT[type(node)], "args": [_column(node.column), {"lit": node.text, "type": "string"}]}
        case Comparison():
            known = node.left if isinstance(node.left, Column) else node.right
            assert isinstance(known, Column)
            args = [
                _column(one) if isinstance(one, Column) else _literal(one, known, schema)
                for one in (node.left, node.right)
            ]
            return {"op": "<>" if node.op == "!=" else node.op, "args": args}
        case Column():
            return _column(node)
    raise LookupError(node)


def _column(column: Column) -> dict[str, Any]:
    if type(column) is not Column:
        raise LookupError(f"{column} is more than a column")
    return {"col": list(column.path)}


def _literal(literal: Literal, column: Column, schema: pa.Schema) -> dict[str, Any]:
    kind = spark_type(resolve(column, schema).type)
    value = literal.value
    if value is not None:
        try:
            value = pa.scalar(value, resolve(column, schema).type).as_py()
            if value != literal.value and value == value:
                raise ValueError(f"{literal} is no value of {column}")
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise LookupError(literal) from None
    return {"lit": to_json(value), "type": kind}
