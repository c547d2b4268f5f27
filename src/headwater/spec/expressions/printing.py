"""A tree as SQL text that parses back to the same tree."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime, time
from decimal import Decimal

from headwater.spec.expressions.nodes import (
    And,
    BoundFunction,
    Column,
    Comparison,
    Contains,
    EndsWith,
    Expression,
    FalseValue,
    Function,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    TrueValue,
    Value,
)
from headwater.spec.expressions.visitors import Visitor

RESERVED = frozenset(("AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE", "LIKE", "BETWEEN", "ESCAPE"))
"""Words that are a column's name only in back quotes."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\x1a": "\\Z", "\b": "\\b"}
_NEEDS_ESCAPE = re.compile("[" + re.escape("".join(_ESCAPES)) + "]")


def to_sql(expression: Expression) -> str:
    """The expression in SQL.

    >>> to_sql(And((Comparison("=", Column(("a", "b c")), Literal("it's")), TrueValue())))
    "a.`b c` = 'it\\\\'s' AND TRUE"
    """
    return expression.accept(_PRINTER)


def quote_name(name: str) -> str:
    """A name as an identifier, in back quotes when it is not a plain word.

    >>> print(quote_name("fare"), quote_name("in"), quote_name("a`b"))
    fare `in` `a``b`
    """
    if _PLAIN_NAME.match(name) and name.upper() not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def quote_text(text: str) -> str:
    """A string literal, escaped with backslashes as every Spark version reads them.

    >>> print(quote_text("it's"))
    'it\\'s'
    """
    return "'" + _NEEDS_ESCAPE.sub(lambda match: _ESCAPES[match.group()], text) + "'"


def literal_sql(value: Value) -> str:
    """A constant as SQL that keeps its type.

    >>> from datetime import date
    >>> print(literal_sql(2.5), literal_sql(Decimal("2.5")), literal_sql(5), literal_sql(date(2024, 1, 2)))
    2.5D 2.5BD 5 DATE '2024-01-02'
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{_NOT_FINITE[str(value)]}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"{value}BD"
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, datetime):
        return f"{'TIMESTAMP_NTZ' if value.tzinfo is None else 'TIMESTAMP'} '{value.isoformat(sep=' ')}'"
    if isinstance(value, time):
        return f"TIME '{value.isoformat()}'"
    return f"DATE '{value.isoformat()}'"


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class _Printer(Visitor[str]):
    def visit_true(self, node: TrueValue) -> str:
        return "TRUE"

    def visit_false(self, node: FalseValue) -> str:
        return "FALSE"

    def visit_literal(self, node: Literal) -> str:
        return literal_sql(node.value)

    def visit_column(self, node: Column) -> str:
        path = ".".join(quote_name(part) for part in node.path)
        if not isinstance(node, Function | BoundFunction):
            return path
        return f"{node.function}({', '.join((path, *map(literal_sql, node.arguments)))})"

    def visit_comparison(self, node: Comparison) -> str:
        return f"{node.left.accept(self)} {node.op} {node.right.accept(self)}"

    def visit_in(self, node: In) -> str:
        return self._in(node, "IN")

    def visit_is_null(self, node: IsNull) -> str:
        return f"{self.visit_column(node.column)} IS NULL"

    def visit_is_nan(self, node: IsNaN) -> str:
        return f"isnan({self.visit_column(node.column)})"

    def visit_starts_with(self, node: StartsWith) -> str:
        return f"startswith({self.visit_column(node.column)}, {quote_text(node.text)})"

    def visit_ends_with(self, node: EndsWith) -> str:
        return f"endswith({self.visit_column(node.column)}, {quote_text(node.text)})"

    def visit_contains(self, node: Contains) -> str:
        return f"contains({self.visit_column(node.column)}, {quote_text(node.text)})"

    def visit_like(self, node: Like) -> str:
        return self._like(node, "LIKE")

    def visit_not(self, node: Not, operand: str) -> str:
        inner = node.operand
        if isinstance(inner, In):
            return self._in(inner, "NOT IN")
        if isinstance(inner, Like):
            return self._like(inner, "NOT LIKE")
        if isinstance(inner, IsNull):
            return f"{self.visit_column(inner.column)} IS NOT NULL"
        return f"NOT ({operand})" if isinstance(inner, And | Or) else f"NOT {operand}"

    def visit_and(self, node: And, operands: Iterator[str]) -> str:
        return " AND ".join(
            f"({text})" if isinstance(operand, Or) else text
            for operand, text in zip(node.operands, operands, strict=True)
        )

    def visit_or(self, node: Or, operands: Iterator[str]) -> str:
        return " OR ".join(operands)

    def _in(self, node: In, word: str) -> str:
        values = ", ".join(literal_sql(literal.value) for literal in node.values)
        return f"{self.visit_column(node.column)} {word} ({values})"

    def _like(self, node: Like, word: str) -> str:
        escape = "" if node.escape == "\\" else f" ESCAPE {quote_text(node.escape)}"
        return f"{self.visit_column(node.column)} {word} {quote_text(node.pattern)}{escape}"


_PRINTER = _Printer()
