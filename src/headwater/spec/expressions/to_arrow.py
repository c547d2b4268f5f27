"""A bound tree as an Arrow expression, for scanners that skip row groups by it."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.spec.expressions.batch import like_regex
from headwater.spec.expressions.like import prefix_of
from headwater.spec.expressions.nodes import (
    NEGATED,
    And,
    BoundColumn,
    BoundFunction,
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
from headwater.spec.expressions.types import Kind, kind_of, plain_type
from headwater.spec.expressions.visitors import Visitor


@dataclass(frozen=True, slots=True)
class ArrowFilter:
    """An Arrow expression that is true for every row that the tree keeps; None when there is none to say.

    With `exact` it is true for no other row, and nobody need filter again.
    """

    expression: pc.Expression | None
    exact: bool


def to_arrow(bound: Expression) -> ArrowFilter:
    """The Arrow expression of a bound tree.

    Row groups are skipped by their smallest and largest value, which do not count NaN: a test that NaN passes would
    lose it, so such tests are left out.

    >>> from headwater.spec.expressions import bind, parse
    >>> schema = pa.schema([("id", pa.int64()), ("price", pa.float64())])
    >>> to_arrow(bind(parse("id = 5 AND price < 3"), schema)).exact
    True
    >>> print(to_arrow(bind(parse("id = 5 AND price > 3"), schema)))
    ArrowFilter(expression=<pyarrow.compute.Expression (id == 5)>, exact=False)
    """
    part = bound.accept(_Translation())
    return ArrowFilter(part.expression, part.exact)


@dataclass(frozen=True, slots=True)
class _Part:
    """An `ArrowFilter` with the number of tests in it."""

    expression: pc.Expression | None
    exact: bool
    size: int = 1


_MAX_SIZE = 256
"""Arrow recurses into AND and OR one test at a time, and a chain of thousands overflows its stack."""
_NOTHING = _Part(None, False)
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_KEPT_BY_NAN = frozenset(("!=", ">", ">="))


class _Translation(Visitor[_Part]):
    """Whether a row is false or unknown makes no difference here, because NOT stands only before leaves."""

    def visit_true(self, node: TrueValue) -> _Part:
        return _Part(None, True)

    def visit_false(self, node: FalseValue) -> _Part:
        return _exactly(pc.scalar(False))

    def visit_literal(self, node: Literal) -> _Part:
        return _exactly(pc.scalar(False))

    def visit_column(self, node: Column) -> _Part:
        return _NOTHING

    def visit_comparison(self, node: Comparison) -> _Part:
        left = _plain(node.left)
        if left is None:
            return _NOTHING
        is_float = kind_of(left.type) is Kind.FLOAT
        if isinstance(node.right, Literal):
            nan = isinstance(node.right.value, float) and math.isnan(node.right.value)
            if is_float and (node.op in _KEPT_BY_NAN or nan):
                return _NOTHING
            # NULL on the column's side is true for neither = nor <=>.
            operation = _OPERATIONS["=" if node.op == "<=>" else node.op]
            return _exactly(operation(_field(left), pa.scalar(node.right.value, left.type)))
        right = _plain(node.right)
        if right is None or is_float or node.op == "<=>" or not left.type.equals(right.type):
            return _NOTHING
        return _exactly(_OPERATIONS[node.op](_field(left), _field(right)))

    def visit_in(self, node: In) -> _Part:
        column = _plain(node.column)
        if column is None:
            return _NOTHING
        return _exactly(_is_in(column, node)) if not _has_nan(node) else _NOTHING

    def visit_is_null(self, node: IsNull) -> _Part:
        column = _plain(node.column, any_type=True)
        return _NOTHING if column is None else _exactly(_field(column).is_null())

    def visit_is_nan(self, node: IsNaN) -> _Part:
        return _NOTHING

    def visit_starts_with(self, node: StartsWith) -> _Part:
        column = _plain(node.column)
        if column is None:
            return _NOTHING
        return _exactly(_between(column, node.text) & pc.starts_with(_field(column), pattern=node.text))

    def visit_ends_with(self, node: EndsWith) -> _Part:
        column = _plain(node.column)
        return _NOTHING if column is None else _exactly(pc.ends_with(_field(column), pattern=node.text))

    def visit_contains(self, node: Contains) -> _Part:
        column = _plain(node.column)
        return _NOTHING if column is None else _exactly(pc.match_substring(_field(column), pattern=node.text))

    def visit_like(self, node: Like) -> _Part:
        column = _plain(node.column)
        if column is None:
            return _NOTHING
        matches = pc.match_substring_regex(_field(column), pattern=like_regex(node))
        prefix = prefix_of(node.pattern, node.escape)
        return _exactly(_between(column, prefix) & matches if prefix else matches)

    def visit_not(self, node: Not, operand: _Part) -> _Part:
        inner = node.operand
        column = inner.column if isinstance(inner, In | IsNull | StartsWith | EndsWith | Contains | Like) else None
        if isinstance(inner, Comparison) and inner.op == "<=>" and isinstance(inner.right, Literal):
            different = self.visit_comparison(Comparison(NEGATED["="], inner.left, inner.right))
            known = _plain(inner.left)
            if different.expression is None or known is None:
                return _NOTHING
            return _exactly(different.expression | _field(known).is_null())
        bound = None if column is None else _plain(column, any_type=isinstance(inner, IsNull))
        if bound is None:
            return _NOTHING
        field = _field(bound)
        if isinstance(inner, IsNull):
            return _exactly(field.is_valid())
        if isinstance(inner, In):
            if kind_of(bound.type) is Kind.FLOAT:
                return _NOTHING
            return _exactly(field.is_valid() & ~_is_in(bound, inner))
        if isinstance(inner, StartsWith):
            return _exactly(~pc.starts_with(field, pattern=inner.text))
        # These three hold no bounds of the order, so their negation is exact too.
        return _NOTHING if isinstance(inner, Like) or operand.expression is None else _exactly(~operand.expression)

    def visit_and(self, node: And, operands: Iterator[_Part]) -> _Part:
        kept: list[pc.Expression] = []
        size, exact = 0, True
        for part in operands:
            exact = exact and part.exact
            if part.expression is None:
                continue
            if size + part.size > _MAX_SIZE:
                exact = False
                continue
            kept.append(part.expression)
            size += part.size
        return _Part(_joined(kept, operator.and_), exact, size)

    def visit_or(self, node: Or, operands: Iterator[_Part]) -> _Part:
        joined: list[pc.Expression] = []
        size, exact = 0, True
        for part in operands:
            size += part.size
            if part.expression is None or size > _MAX_SIZE:
                return _NOTHING
            exact = exact and part.exact
            joined.append(part.expression)
        return _Part(_joined(joined, operator.or_), exact, size)


def _exactly(expression: pc.Expression) -> _Part:
    return _Part(expression, True)


def _plain(operand: Expression, *, any_type: bool = False) -> BoundColumn | None:
    """The column when Arrow can compare it as it is stored: no function, no cast, no encoding without kernels."""
    if not isinstance(operand, BoundColumn) or isinstance(operand, BoundFunction) or operand.cast is not None:
        return None
    return operand if any_type or operand.type.equals(plain_type(operand.type)) else None


def _field(column: BoundColumn) -> pc.Expression:
    return pc.field(*column.path)


def _has_nan(node: In) -> bool:
    return any(isinstance(literal.value, float) and math.isnan(literal.value) for literal in node.values)


def _is_in(column: BoundColumn, node: In) -> pc.Expression:
    values = [literal.value for literal in node.values]
    if kind_of(column.type) is Kind.FLOAT and 0.0 in values:
        values += [0.0, -0.0]
    return _field(column).isin(pa.array(values, column.type))


def _between(column: BoundColumn, prefix: str) -> pc.Expression:
    """Where text with this prefix lies in the order, which row groups can be skipped by."""
    field = _field(column)
    low = field >= pa.scalar(prefix, column.type)
    after = _after(prefix)
    return low if after is None else low & (field < pa.scalar(after, column.type))


def _after(prefix: str) -> str | None:
    """The first text after all those with the prefix, or None when there is none."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1])
        if code < 0x10FFFF:
            following = 0xE000 if code == 0xD7FF else code + 1  # no character lies between these two
            return prefix[: end - 1] + chr(following)
    return None


def _joined(parts: list[pc.Expression], join: Callable[[Any, Any], Any]) -> pc.Expression | None:
    return functools.reduce(join, parts) if parts else None
