"""A bound tree where the values of some columns are known, as those of a partition are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from headwater.spec.expressions.batch import Evaluator
from headwater.spec.expressions.nodes import (
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    BoundColumn,
    BoundFunction,
    Expression,
    Not,
    Or,
)
from headwater.spec.expressions.prune import FALSE_ROWS, NULL_ROWS, TRUE_ROWS, Match, Outcomes
from headwater.spec.expressions.ranges import UNKNOWN_RANGE, Range, point_of
from headwater.spec.expressions.simplify import all_of, any_of, as_filter, negate
from headwater.spec.expressions.visitors import LeafVisitor, referenced

_UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What Arrow raises for a value that is none of the column's type."""
_CONSTANTS: dict[int, Expression] = {TRUE_ROWS: TRUE, FALSE_ROWS: FALSE, NULL_ROWS: UNKNOWN}


def evaluate_partition(bound: Expression, values: Mapping[str, Any]) -> Match:
    """Whether the rows of a partition with these values match; MAYBE when other columns decide.

    >>> from headwater.spec.expressions import bind, parse
    >>> bound = bind(parse("city = 'sf' AND fare > 10"), pa.schema([("city", pa.string()), ("fare", pa.int64())]))
    >>> evaluate_partition(bound, {"city": "nyc"}), evaluate_partition(bound, {"city": "sf"})
    (<Match.NO: 'no row matches'>, <Match.MAYBE: 'cannot tell'>)
    """
    left = residual(bound, values)
    return Match.YES if left == TRUE else Match.NO if left == FALSE else Match.MAYBE


def residual(bound: Expression, values: Mapping[str, Any]) -> Expression:
    """The filter still to be checked on rows whose columns have these values.

    >>> from headwater.spec.expressions import bind, parse
    >>> bound = bind(parse("city = 'sf' AND fare > 10"), pa.schema([("city", pa.string()), ("fare", pa.int64())]))
    >>> print(residual(bound, {"city": "sf"}), residual(bound, {"city": "nyc"}))
    fare > 10 FALSE
    """
    return as_filter(substitute(bound, values))


def substitute(bound: Expression, values: Mapping[str, Any]) -> Expression:
    """The tree with what these values decide replaced by TRUE, FALSE or NULL."""
    return bound.accept(_Substitution(values))


class _Substitution(LeafVisitor[Expression]):
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._outcomes = Outcomes(self._point)

    def leaf(self, node: Expression) -> Expression:
        columns = referenced(node)
        if not columns or any(".".join(column.path) not in self._values for column in columns):
            return node
        decided = _CONSTANTS.get(node.accept(self._outcomes))
        return self._computed(node) if decided is None else decided

    def visit_not(self, node: Not, operand: Expression) -> Expression:
        return negate(operand)

    def visit_and(self, node: And, operands: Iterator[Expression]) -> Expression:
        return all_of(operands)

    def visit_or(self, node: Or, operands: Iterator[Expression]) -> Expression:
        return any_of(operands)

    def _point(self, column: BoundColumn) -> Range:
        if isinstance(column, BoundFunction):
            return UNKNOWN_RANGE
        return point_of(column, self._values[column.name]) if column.name in self._values else UNKNOWN_RANGE

    def _computed(self, node: Expression) -> Expression:
        """The leaf evaluated on a row of the values, for casts and functions that only columns have."""
        try:
            result = Evaluator(self._column).rows(node, 1)[0].as_py()
        except _UNFIT:
            return node
        return UNKNOWN if result is None else TRUE if result else FALSE

    def _column(self, column: BoundColumn) -> pa.Array:
        value = self._values[column.name]
        try:
            return pa.array([value], column.type)
        except _UNFIT:
            return pa.array([value]).cast(column.type)
