"""A bound tree evaluated on record batches and tables, column by column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import ColumnNotFound, InvalidExpression
from headwater.spec.expressions.cast import Values, cast_values, decode
from headwater.spec.expressions.functions import compute
from headwater.spec.expressions.like import regex_of
from headwater.spec.expressions.nodes import (
    MIRRORED,
    TRUE,
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
from headwater.spec.expressions.types import Kind, compared_type, kind_of, plain_type
from headwater.spec.expressions.visitors import Visitor

_KERNELS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def evaluate(bound: Expression, batch: pa.RecordBatch | pa.Table) -> Values:
    """True, false or NULL (unknown) for each row, as Spark finds it.

    NaN equals NaN and is greater than every other number.

    >>> from headwater.spec.expressions import bind, parse
    >>> batch = pa.record_batch({"price": [5.0, float("nan"), None]})
    >>> evaluate(bind(parse("price > 500"), batch.schema), batch).to_pylist()
    [False, True, None]
    """

    def fetch(column: BoundColumn) -> Values:
        index = batch.schema.get_field_index(column.path[0])
        if index < 0:
            raise ColumnNotFound(f"no column {column} in a batch of: {', '.join(batch.schema.names)}")
        values = batch.column(index)
        return values if len(column.path) == 1 else pc.struct_field(decode(values), list(column.path[1:]))

    return Evaluator(fetch).rows(bound, batch.num_rows)


def filter_batch(bound: Expression, batch: Any) -> Any:
    """The rows of a record batch or table for which the expression is true.

    >>> from headwater.spec.expressions import bind, parse
    >>> table = pa.table({"id": [1, 2, None]})
    >>> filter_batch(bind(parse("id != 1"), table.schema), table).to_pylist()
    [{'id': 2}]
    """
    if bound == TRUE:
        return batch
    mask = evaluate(bound, batch)
    schema = batch.schema
    views = [index for index, type_ in enumerate(schema.types) if _is_view(type_)]
    if not views:
        return batch.filter(mask)
    # Arrow has no kernel that selects from view columns.
    plain = schema
    for index in views:
        plain = plain.set(index, plain.field(index).with_type(plain_type(plain.field(index).type)))
    return batch.cast(plain).filter(mask).cast(schema)


def _is_view(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(type_) or pa.types.is_binary_view(type_))


class Evaluator(Visitor[Any]):
    """Computes a boolean array, or one scalar that holds for all rows, from what `fetch` gives for a column."""

    def __init__(self, fetch: Callable[[BoundColumn], Values]) -> None:
        self._fetch = fetch
        self._decoded: dict[BoundColumn, Values] = {}

    def rows(self, bound: Expression, count: int) -> Values:
        """The tree's value for each of the rows."""
        result = bound.accept(self)
        return pa.repeat(result, count) if isinstance(result, pa.Scalar) else result

    def visit_true(self, node: TrueValue) -> Any:
        return pa.scalar(True)

    def visit_false(self, node: FalseValue) -> Any:
        return pa.scalar(False)

    def visit_literal(self, node: Literal) -> Any:
        if node.value is not None:
            raise InvalidExpression(f"the value {node} is no condition: bind() the expression first")
        return pa.scalar(None, pa.bool_())

    def visit_column(self, node: Column) -> Any:
        return self._values(node)

    def visit_comparison(self, node: Comparison) -> Any:
        left = self._values(node.left)
        if isinstance(node.right, Literal):
            right = _scalar(node.right, node.left)
            both_null: Any = pa.scalar(False)
        else:
            right = self._values(node.right)
            both_null = pc.and_(left.is_null(), right.is_null()) if node.op == "<=>" else None
        result = _compare("=" if node.op == "<=>" else node.op, left, right)
        return pc.coalesce(result, both_null) if node.op == "<=>" else result

    def visit_in(self, node: In) -> Any:
        values = self._values(node.column)
        items = [literal.value for literal in node.values]
        if 0.0 in items and pa.types.is_floating(values.type):
            items += [0.0, -0.0]  # is_in tells the two zeros apart
        found = pc.is_in(values, value_set=pa.array(items, _type(node.column)))
        return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.bool_()))

    def visit_is_null(self, node: IsNull) -> Any:
        column = _bound(node.column)
        # Nested types have no plain form to decode to, and NULL needs none.
        as_stored = column.cast is None and not isinstance(column, BoundFunction)
        return (self._fetch(column) if as_stored else self._values(column)).is_null()

    def visit_is_nan(self, node: IsNaN) -> Any:
        return pc.fill_null(pc.is_nan(self._values(node.column)), False)

    def visit_starts_with(self, node: StartsWith) -> Any:
        return pc.starts_with(self._values(node.column), pattern=node.text)

    def visit_ends_with(self, node: EndsWith) -> Any:
        return pc.ends_with(self._values(node.column), pattern=node.text)

    def visit_contains(self, node: Contains) -> Any:
        return pc.match_substring(self._values(node.column), pattern=node.text)

    def visit_like(self, node: Like) -> Any:
        return pc.match_substring_regex(self._values(node.column), pattern=like_regex(node))

    def visit_not(self, node: Not, operand: Any) -> Any:
        return pc.invert(operand)

    def visit_and(self, node: And, operands: Iterator[Any]) -> Any:
        result = next(operands)
        for operand in operands:
            result = pc.and_kleene(result, operand)
        return result

    def visit_or(self, node: Or, operands: Iterator[Any]) -> Any:
        result = next(operands)
        for operand in operands:
            result = pc.or_kleene(result, operand)
        return result

    def _values(self, operand: Expression) -> Values:
        column = _bound(operand)
        if column not in self._decoded:
            self._decoded[column] = self._decode(column)
        return self._decoded[column]

    def _decode(self, column: BoundColumn) -> Values:
        stored = column.column if isinstance(column, BoundFunction) else column
        values = decode(self._fetch(stored))
        plain = plain_type(stored.type)
        if kind_of(values.type) is not kind_of(plain):
            raise InvalidExpression(f"{stored} was bound as {stored.type} and is {values.type} in the data")
        values = values.cast(plain)
        if isinstance(column, BoundFunction):
            values = compute(column.function, column.arguments, values)
        return cast_values(values, compared_type(column))


def like_regex(node: Like) -> str:
    """The whole-string regular expression of a LIKE, for Arrow.

    >>> like_regex(Like(Column(("a",)), "x%y"))
    '(?s)\\\\Ax.*y\\\\z'
    """
    return f"(?s)\\A{regex_of(node.pattern, node.escape)}\\z"


def _bound(operand: Expression) -> BoundColumn:
    if not isinstance(operand, BoundColumn):
        raise InvalidExpression(f"{operand} is not bound to a schema: bind() the expression first")
    return operand


def _type(column: Expression) -> pa.DataType:
    return compared_type(_bound(column))


def _scalar(literal: Literal, column: Expression) -> pa.Scalar:
    return pa.scalar(literal.value, _type(column))


def _compare(op: str, left: Any, right: Any) -> Any:
    if kind_of(left.type) is not Kind.FLOAT:
        return _KERNELS[op](left, right)
    if isinstance(right, pa.Scalar):
        return _compare_float_constant(op, left, right)
    if op in (">", "<="):
        op, left, right = MIRRORED[op], right, left
    if op in ("=", "!="):
        result = pc.or_kleene(pc.equal(left, right), pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))
    else:
        nan_above = pc.and_kleene(pc.invert(pc.is_nan(left)), pc.is_nan(right))
        result = pc.or_kleene(pc.less(left, right), nan_above)
    return pc.invert(result) if op in ("!=", ">=") else result


def _compare_float_constant(op: str, values: Any, constant: pa.Scalar) -> Any:
    """Arrow compares NaN as IEEE does: false except for !=."""
    if not math.isnan(constant.as_py()):
        result = _KERNELS[op](values, constant)
        return pc.or_kleene(result, pc.is_nan(values)) if op in (">", ">=") else result
    if op in ("=", ">="):
        return pc.is_nan(values)
    if op in ("!=", "<"):
        return pc.invert(pc.is_nan(values))
    return pc.if_else(values.is_valid(), op == "<=", pa.scalar(None, pa.bool_()))
