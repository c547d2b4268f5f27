"""A bound tree decided by statistics: all rows match, none does, or only the rows can tell."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from headwater.spec.expressions.like import prefix_of, regex_of
from headwater.spec.expressions.nodes import (
    And,
    BoundColumn,
    Column,
    Comparison,
    Contains,
    EndsWith,
    Expression,
    FalseValue,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    TrueValue,
)
from headwater.spec.expressions.ranges import UNKNOWN_RANGE, Range, literal_key, range_of
from headwater.spec.expressions.visitors import Visitor
from headwater.spec.statistics import Statistics


class Match(Enum):
    """What is known of a set of rows."""

    YES = "all rows match"
    NO = "no row matches"
    MAYBE = "cannot tell"


def evaluate_statistics(bound: Expression, statistics: Statistics) -> Match:
    """Whether rows with these statistics match.

    >>> import pyarrow as pa
    >>> from headwater.spec.expressions import bind, parse
    >>> from headwater.spec.statistics import ColumnStatistics
    >>> bound = bind(parse("x > 10"), pa.schema([("x", pa.int64())]))
    >>> evaluate_statistics(bound, {"x": ColumnStatistics(1, 5, null_count=0)})
    <Match.NO: 'no row matches'>
    >>> evaluate_statistics(bound, {"x": ColumnStatistics(11, 15, null_count=2)})
    <Match.MAYBE: 'cannot tell'>
    """

    def lookup(column: BoundColumn) -> Range:
        known = statistics.get(column.name)
        return UNKNOWN_RANGE if known is None else range_of(column, known)

    return match_of(bound.accept(Outcomes(lookup)))


TRUE_ROWS, FALSE_ROWS, NULL_ROWS = 1, 2, 4
"""Which truth values rows may have: a set of these, which may be larger than it needs to be, never smaller."""
_TRUE_OR_FALSE = TRUE_ROWS | FALSE_ROWS
_ANY = _TRUE_OR_FALSE | NULL_ROWS

_LESS, _EQUAL, _GREATER = 1, 2, 4
_ORDERINGS = {
    "=": _EQUAL,
    "<=>": _EQUAL,
    "!=": _LESS | _GREATER,
    "<": _LESS,
    "<=": _LESS | _EQUAL,
    ">": _GREATER,
    ">=": _GREATER | _EQUAL,
}


def match_of(outcomes: int) -> Match:
    """The answer for rows with these truth values."""
    if not outcomes & TRUE_ROWS:
        return Match.NO
    return Match.YES if outcomes == TRUE_ROWS else Match.MAYBE


def _conjunctions() -> list[list[int]]:
    def conjoin(left: int, right: int) -> int:
        if FALSE_ROWS in (left, right):
            return FALSE_ROWS
        return NULL_ROWS if NULL_ROWS in (left, right) else TRUE_ROWS

    single = (TRUE_ROWS, FALSE_ROWS, NULL_ROWS)
    table = [[0] * 8 for _ in range(8)]
    for left in range(8):
        for right in range(8):
            for one in single:
                for other in single:
                    if left & one and right & other:
                        table[left][right] |= conjoin(one, other)
    return table


_AND = _conjunctions()
_NOT = [(o & NULL_ROWS) | (TRUE_ROWS if o & FALSE_ROWS else 0) | (FALSE_ROWS if o & TRUE_ROWS else 0) for o in range(8)]


class Outcomes(Visitor[int]):
    """Computes the truth values that rows may have from the ranges of their columns."""

    def __init__(self, lookup: Callable[[BoundColumn], Range]) -> None:
        self._lookup = lookup

    def visit_true(self, node: TrueValue) -> int:
        return TRUE_ROWS

    def visit_false(self, node: FalseValue) -> int:
        return FALSE_ROWS

    def visit_literal(self, node: Literal) -> int:
        return NULL_ROWS

    def visit_column(self, node: Column) -> int:
        return _ANY

    def visit_comparison(self, node: Comparison) -> int:
        left = self._range(node.left)
        right = self._range(node.right) if isinstance(node.right, Column) else literal_range(node.right, node.left)
        orderings = _orderings(left, right)
        wanted = _ORDERINGS[node.op]
        outcomes = (TRUE_ROWS if orderings & wanted else 0) | (FALSE_ROWS if orderings & ~wanted else 0)
        if node.op != "<=>":
            return outcomes | (NULL_ROWS if left.nulls or right.nulls else 0)
        if left.nulls and right.nulls:
            outcomes |= TRUE_ROWS
        if (left.nulls and right.present) or (right.nulls and left.present):
            outcomes |= FALSE_ROWS
        return outcomes

    def visit_in(self, node: In) -> int:
        known = self._range(node.column)
        values = node.values
        with_nan = bool(values) and _is_nan(values[-1])
        outcomes = NULL_ROWS if known.nulls else 0
        if known.nan:
            outcomes |= TRUE_ROWS if with_nan else FALSE_ROWS
        if known.values:
            outcomes |= self._in_range(node, known, len(values) - with_nan)
        return outcomes

    def _in_range(self, node: In, known: Range, count: int) -> int:
        """Of the numbers and texts among the values, which `bind` has sorted."""

        def key(literal: Literal) -> Any:
            return literal_key(literal.value)

        try:
            first = 0 if known.low is None else bisect_left(node.values, known.low, 0, count, key=key)
            if first == count or (known.high is not None and key(node.values[first]) > known.high):
                return FALSE_ROWS
            only = known.low is not None and known.low == known.high
        except TypeError:
            return _TRUE_OR_FALSE
        return TRUE_ROWS if only else _TRUE_OR_FALSE

    def visit_is_null(self, node: IsNull) -> int:
        known = self._range(node.column)
        return (TRUE_ROWS if known.nulls else 0) | (FALSE_ROWS if known.present else 0)

    def visit_is_nan(self, node: IsNaN) -> int:
        known = self._range(node.column)
        return (TRUE_ROWS if known.nan else 0) | (FALSE_ROWS if known.values or known.nulls else 0)

    def visit_starts_with(self, node: StartsWith) -> int:
        return self._text(node.column, lambda text: text.startswith(node.text), node.text, prefix_is_all=True)

    def visit_ends_with(self, node: EndsWith) -> int:
        return self._text(node.column, lambda text: text.endswith(node.text))

    def visit_contains(self, node: Contains) -> int:
        return self._text(node.column, lambda text: node.text in text)

    def visit_like(self, node: Like) -> int:
        pattern = regex_of(node.pattern, node.escape)
        prefix = prefix_of(node.pattern, node.escape)
        return self._text(node.column, lambda text: re.fullmatch(pattern, text, re.DOTALL) is not None, prefix)

    def _text(
        self, column: Column, test: Callable[[str], bool], prefix: str = "", *, prefix_is_all: bool = False
    ) -> int:
        known = self._range(column)
        outcomes = NULL_ROWS if known.nulls else 0
        if not known.values:
            return outcomes
        low, high = known.low, known.high
        if isinstance(low, str) and low == high:
            return outcomes | (TRUE_ROWS if test(low) else FALSE_ROWS)
        # Texts with a prefix are one stretch of the order, from the prefix itself on.
        if (isinstance(high, str) and high < prefix) or (isinstance(low, str) and low[: len(prefix)] > prefix):
            return outcomes | FALSE_ROWS
        if prefix_is_all and isinstance(low, str) and isinstance(high, str) and test(low) and test(high):
            return outcomes | TRUE_ROWS
        return outcomes | _TRUE_OR_FALSE

    def visit_not(self, node: Not, operand: int) -> int:
        return _NOT[operand]

    def visit_and(self, node: And, operands: Iterator[int]) -> int:
        result = TRUE_ROWS
        for operand in operands:
            result = _AND[result][operand]
            if result in (0, FALSE_ROWS):
                break
        return result

    def visit_or(self, node: Or, operands: Iterator[int]) -> int:
        result = FALSE_ROWS
        for operand in operands:
            result = _NOT[_AND[_NOT[result]][_NOT[operand]]]
            if result in (0, TRUE_ROWS):
                break
        return result

    def _range(self, operand: Expression) -> Range:
        return self._lookup(operand) if isinstance(operand, BoundColumn) else UNKNOWN_RANGE


def literal_range(literal: Expression, column: Expression) -> Range:
    """A constant as the range of its one value."""
    if not isinstance(literal, Literal) or literal.value is None or not isinstance(column, BoundColumn):
        return UNKNOWN_RANGE
    if _is_nan(literal):
        return Range(nulls=False, values=False, nan=True)
    key = literal_key(literal.value)
    return Range(low=key, high=key, nulls=False, values=True, nan=False)


def _is_nan(literal: Literal) -> bool:
    return isinstance(literal.value, float) and literal.value != literal.value


def _orderings(left: Range, right: Range) -> int:
    """How a value of the left may lie to one of the right; NaN lies above all others."""
    orderings = 0
    if left.nan:
        orderings |= (_GREATER if right.values else 0) | (_EQUAL if right.nan else 0)
    if right.nan and left.values:
        orderings |= _LESS
    if not (left.values and right.values):
        return orderings
    try:
        may_be_less = left.low is None or right.high is None or left.low < right.high
        may_be_greater = left.high is None or right.low is None or left.high > right.low
        apart = (left.high is not None and right.low is not None and left.high < right.low) or (
            left.low is not None and right.high is not None and left.low > right.high
        )
    except TypeError:
        return _LESS | _EQUAL | _GREATER
    return orderings | (_LESS if may_be_less else 0) | (0 if apart else _EQUAL) | (_GREATER if may_be_greater else 0)
