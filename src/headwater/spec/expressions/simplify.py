"""Building bound trees: constants folded and NOT pushed to the leaves, all in SQL's three-valued logic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from headwater.spec.expressions.nodes import (
    FALSE,
    NEGATED,
    TRUE,
    UNKNOWN,
    And,
    BoundColumn,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Value,
    conjunction,
    disjunction,
)


def never(column: Column) -> Expression:
    """False where the column has a value, unknown where not: a comparison that no value can satisfy."""
    return And((IsNull(column), UNKNOWN))


def always(column: Column) -> Expression:
    """True where the column has a value, unknown where not: a comparison that every value satisfies."""
    return Or((Not(IsNull(column)), UNKNOWN))


def negate(expression: Expression) -> Expression:
    """The negation, with NOT only before leaves that have no opposite.

    >>> from headwater.spec.expressions import parse
    >>> print(negate(parse("a < 1 AND b IS NULL")))
    a >= 1 OR b IS NOT NULL
    """
    if expression == TRUE:
        return FALSE
    if expression == FALSE:
        return TRUE
    if expression == UNKNOWN:
        return UNKNOWN
    if isinstance(expression, Comparison) and expression.op in NEGATED:
        return Comparison(NEGATED[expression.op], expression.left, expression.right)
    if isinstance(expression, And):
        return any_of(negate(operand) for operand in expression.operands)
    if isinstance(expression, Or):
        return all_of(negate(operand) for operand in expression.operands)
    return expression.operand if isinstance(expression, Not) else Not(expression)


def all_of(operands: Iterable[Expression]) -> Expression:
    """Their conjunction, shorter where constants allow.

    >>> from headwater.spec.expressions import parse
    >>> print(all_of([TRUE, parse("a = 1")]), all_of([parse("a = 1"), FALSE]))
    a = 1 FALSE
    """
    kept: dict[Expression, None] = {}
    for operand in operands:
        if operand == FALSE:
            return FALSE
        if operand != TRUE:
            kept[operand] = None
    return conjunction(kept)


def any_of(operands: Iterable[Expression]) -> Expression:
    """Their disjunction, shorter where constants allow; equalities of one bound column become one IN.

    >>> from headwater.spec.expressions import parse
    >>> print(any_of([FALSE, parse("a = 1")]), any_of([parse("a = 1"), TRUE]))
    a = 1 TRUE
    """
    kept: dict[Expression, None] = {}
    values: dict[BoundColumn, list[Value]] = {}
    for operand in operands:
        for part in operand.operands if isinstance(operand, Or) else (operand,):
            if part == TRUE:
                return TRUE
            equality = _equality(part)
            if equality is not None:
                column, found = equality
                values.setdefault(column, []).extend(found)
                kept[column] = None  # keeps the place of the column's first equality
            elif part != FALSE:
                kept[part] = None
    return disjunction(
        one_of(part, values[part]) if isinstance(part, BoundColumn) and part in values else part for part in kept
    )


def one_of(column: BoundColumn, values: Iterable[Value]) -> Expression:
    """A bound column's value is one of these, sorted as `prune` needs them; none of them is NULL."""
    distinct = {order_key(value): value for value in values}
    ordered = [Literal(distinct[key]) for key in sorted(distinct)]
    if not ordered:
        return never(column)
    return In(column, tuple(ordered)) if len(ordered) > 1 else Comparison("=", column, ordered[0])


def order_key(value: Any) -> Any:
    """A key that sorts values of one type as SQL does: NaN after all numbers, and the two zeros equal.

    >>> sorted([math.nan, 5.0, -math.inf, 1.0], key=order_key)
    [-inf, 1.0, 5.0, nan]
    """
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def as_filter(expression: Expression) -> Expression:
    """A tree that keeps the same rows, simpler because a filter need not tell unknown from false.

    >>> print(as_filter(all_of([UNKNOWN, IsNull(Column(("a",)))])))
    FALSE
    """
    if expression == UNKNOWN:
        return FALSE
    if isinstance(expression, And):
        return all_of(as_filter(operand) for operand in expression.operands)
    if isinstance(expression, Or):
        return any_of(as_filter(operand) for operand in expression.operands)
    return expression


def _equality(expression: Expression) -> tuple[BoundColumn, list[Value]] | None:
    if isinstance(expression, In) and isinstance(expression.column, BoundColumn):
        return expression.column, [literal.value for literal in expression.values]
    if (
        isinstance(expression, Comparison)
        and expression.op == "="
        and isinstance(expression.left, BoundColumn)
        and isinstance(expression.right, Literal)
    ):
        return expression.left, [expression.right.value]
    return None
