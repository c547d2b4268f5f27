"""A tree made to fit a schema: columns resolved, constants as values of their column's type."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from headwater.errors import ColumnNotFound, InvalidExpression
from headwater.spec.expressions.functions import result_type
from headwater.spec.expressions.like import Wildcard, parts_of
from headwater.spec.expressions.nodes import (
    FALSE,
    MIRRORED,
    TRUE,
    UNKNOWN,
    And,
    BoundColumn,
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
from headwater.spec.expressions.partition import substitute
from headwater.spec.expressions.place import Place, Position, place
from headwater.spec.expressions.printing import literal_sql
from headwater.spec.expressions.simplify import all_of, always, any_of, negate, never, one_of
from headwater.spec.expressions.types import NUMERIC, Kind, common_type, kind_of, plain_type, type_of_value
from headwater.spec.expressions.visitors import Visitor

_LISTED_COLUMNS = 40
_READ_AS_TEXT = (Kind.INTEGER, Kind.DATE, Kind.BOOLEAN)
"""Kinds whose text is the same in Arrow as in Spark."""


def bind(expression: Expression, schema: pa.Schema) -> Expression:
    """The expression with the schema's columns, constants of their types, and NOT only before leaves.

    >>> from headwater.spec.expressions import parse
    >>> schema = pa.schema([("Day", pa.date32()), ("n", pa.int8())])
    >>> print(bind(parse("day = '2024-01-02' AND NOT n > 2.5"), schema))
    Day = DATE '2024-01-02' AND n <= 2
    >>> print(bind(parse("n < 300"), schema))
    n IS NOT NULL OR NULL
    """
    return expression.accept(_Binder(schema))


def resolve(column: Column, schema: pa.Schema) -> BoundColumn:
    """The schema's column: by its exact name, else by its name in another case when that is not ambiguous.

    >>> resolve(Column(("RIDER", "age")), pa.schema([("rider", pa.struct([("Age", pa.int8())]))])).name
    'rider.Age'
    """
    fields: Sequence[pa.Field] = list(schema)
    path: list[str] = []
    for depth, part in enumerate(column.path):
        field = _find(part, fields, column, tuple(path))
        path.append(field.name)
        type_ = plain_type(field.type)
        if depth + 1 < len(column.path):
            if not pa.types.is_struct(type_):
                raise InvalidExpression(
                    f"{Column(tuple(path))} is {field.type}, not a struct: it has no field in {column}"
                )
            fields = [type_.field(index) for index in range(type_.num_fields)]
    found = BoundColumn(tuple(path), field.type)
    if not isinstance(column, Function | BoundFunction) or kind_of(found.type) is Kind.NULL:
        return found
    gives = result_type(column.function, column.arguments, found.type, str(column))
    return BoundFunction(found.path, gives, None, column.function, column.arguments, found.type)


def _find(name: str, fields: Sequence[pa.Field], column: Column, parent: tuple[str, ...]) -> pa.Field:
    found = [field for field in fields if field.name == name]
    if not found:
        found = [field for field in fields if field.name.casefold() == name.casefold()]
    if len(found) == 1:
        return found[0]
    names = [field.name for field in fields]
    if found:
        raise InvalidExpression(
            f"column {column} is ambiguous: it could be {' or '.join(repr(field.name) for field in found)}"
        )
    folded = {each.casefold(): each for each in names}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=3)]
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    where = f"struct {Column(parent)} has the fields" if parent else "the columns are"
    listed = ", ".join(names[:_LISTED_COLUMNS]) + (", …" if len(names) > _LISTED_COLUMNS else "")
    raise ColumnNotFound(f"no column {column};{hint} {where}: {listed or 'none'}")


class _Binder(Visitor[Expression]):
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def visit_true(self, node: TrueValue) -> Expression:
        return node

    def visit_false(self, node: FalseValue) -> Expression:
        return node

    def visit_literal(self, node: Literal) -> Expression:
        if node.value is None:
            return UNKNOWN
        if isinstance(node.value, bool):
            return TRUE if node.value else FALSE
        raise InvalidExpression(f"the value {node} is no condition: compare it with a column")

    def visit_column(self, node: Column) -> Expression:
        column = self._resolve(node)
        if kind_of(column.type) is Kind.NULL:
            return UNKNOWN
        if kind_of(column.type) is not Kind.BOOLEAN:
            raise InvalidExpression(f"{column} is {column.type}, not boolean: compare it with a value")
        return Comparison("=", column, Literal(True))

    def visit_comparison(self, node: Comparison) -> Expression:
        left = self._resolve(node.left) if isinstance(node.left, Column) else node.left
        right = self._resolve(node.right) if isinstance(node.right, Column) else node.right
        if isinstance(left, BoundColumn):
            return _columns(node.op, left, right) if isinstance(right, BoundColumn) else _literal(node.op, left, right)
        if isinstance(right, BoundColumn):
            return _literal(MIRRORED[node.op], right, left)
        return _constants(node.op, left.value, right.value)

    def visit_in(self, node: In) -> Expression:
        column = self._resolve(node.column)
        if not node.values:
            return FALSE
        if kind_of(column.type) is Kind.NULL:
            return UNKNOWN
        found: dict[pa.DataType | None, list[Value]] = {}
        for literal in node.values:
            if literal.value is not None:
                where = _placed(column, literal.value)
                if where.position is Position.AT:
                    found.setdefault(where.cast, []).append(where.value)
        parts = [one_of(column.as_type(cast), values) for cast, values in found.items()]
        if not parts:
            parts = [never(column)]
        return any_of([*parts, UNKNOWN] if any(literal.value is None for literal in node.values) else parts)

    def visit_is_null(self, node: IsNull) -> Expression:
        return IsNull(self._resolve(node.column))

    def visit_is_nan(self, node: IsNaN) -> Expression:
        column = self._resolve(node.column)
        kind = kind_of(column.type)
        if kind is Kind.FLOAT:
            return IsNaN(column)
        if kind is Kind.STRING:
            return IsNaN(column.as_type(pa.float64()))
        if kind in NUMERIC or kind is Kind.NULL:
            return FALSE
        raise InvalidExpression(f"{column} is {column.type}, no number that could be NaN")

    def visit_starts_with(self, node: StartsWith) -> Expression:
        column = self._text(node.column)
        if column is None:
            return UNKNOWN
        return StartsWith(column, node.text) if node.text else always(column)

    def visit_ends_with(self, node: EndsWith) -> Expression:
        column = self._text(node.column)
        if column is None:
            return UNKNOWN
        return EndsWith(column, node.text) if node.text else always(column)

    def visit_contains(self, node: Contains) -> Expression:
        column = self._text(node.column)
        if column is None:
            return UNKNOWN
        return Contains(column, node.text) if node.text else always(column)

    def visit_like(self, node: Like) -> Expression:
        parts = parts_of(node.pattern, node.escape)
        column = self._text(node.column)
        if column is None:
            return UNKNOWN
        if parts == [Wildcard.ANY_TEXT]:
            return always(column)
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) == 1 or not parts:
            text = texts[0] if texts else ""
            if parts in ([text], []):
                return Comparison("=", column, Literal(text))
            if parts == [text, Wildcard.ANY_TEXT]:
                return StartsWith(column, text)
            if parts == [Wildcard.ANY_TEXT, text]:
                return EndsWith(column, text)
            if parts == [Wildcard.ANY_TEXT, text, Wildcard.ANY_TEXT]:
                return Contains(column, text)
        return Like(column, node.pattern, node.escape)

    def visit_not(self, node: Not, operand: Expression) -> Expression:
        return negate(operand)

    def visit_and(self, node: And, operands: Iterator[Expression]) -> Expression:
        return all_of(operands)

    def visit_or(self, node: Or, operands: Iterator[Expression]) -> Expression:
        return any_of(operands)

    def _resolve(self, column: Column) -> BoundColumn:
        return resolve(column, self._schema)

    def _text(self, column: Column) -> BoundColumn | None:
        """The column as text, or None when it only has NULL."""
        bound = self._resolve(column)
        kind = kind_of(bound.type)
        if kind is Kind.STRING:
            return bound
        if kind in _READ_AS_TEXT:
            return bound.as_type(pa.string())
        if kind is Kind.NULL:
            return None
        raise InvalidExpression(f"{bound} is {bound.type}: only text can be searched for text")


def _literal(op: str, column: BoundColumn, literal: Literal) -> Expression:
    """A comparison of a column with a constant, in the values that the column's type can hold."""
    if literal.value is None:
        return IsNull(column) if op == "<=>" else UNKNOWN
    if kind_of(column.type) is Kind.NULL:
        return FALSE if op == "<=>" else UNKNOWN
    where = _placed(column, literal.value)
    if where.cast is not None:
        column = column.as_type(where.cast)
    if where.position is Position.AT:
        return Comparison(op, column, Literal(where.value))
    if op == "<=>":
        return FALSE
    if op in ("=", "!="):
        return never(column) if op == "=" else always(column)
    below = op in ("<", "<=")
    if where.position is Position.AFTER:
        return Comparison("<=" if below else ">", column, Literal(where.value))
    return always(column) if below == (where.position is Position.ABOVE_ALL) else never(column)


def _placed(column: BoundColumn, value: Value) -> Place:
    where = place(value, column.type)
    if where is None:
        of_type = plain_type(type_of_value(value))
        raise InvalidExpression(
            f"cannot compare {column} of type {column.type} with {literal_sql(value)} of type {of_type}"
        )
    return where


def _columns(op: str, left: BoundColumn, right: BoundColumn) -> Expression:
    if Kind.NULL in (kind_of(left.type), kind_of(right.type)):
        if op != "<=>":
            return UNKNOWN
        return IsNull(right) if kind_of(left.type) is Kind.NULL else IsNull(left)
    type_ = common_type(left.type, right.type)
    if type_ is None:
        raise InvalidExpression(f"cannot compare {left} of type {left.type} with {right} of type {right.type}")
    return Comparison(op, _cast(left, type_), _cast(right, type_))


def _cast(column: BoundColumn, type_: pa.DataType) -> BoundColumn:
    return column if plain_type(column.type).equals(type_) else column.as_type(type_)


def _constants(op: str, left: Value, right: Value) -> Expression:
    """A comparison without columns, decided now as one of a column that holds only the left value."""
    if left is None or right is None:
        return UNKNOWN if op != "<=>" else TRUE if left is right else FALSE
    if isinstance(left, str) and not isinstance(right, str):
        op, left, right = MIRRORED[op], right, left
    column = BoundColumn((literal_sql(left),), type_of_value(left))
    return substitute(_literal(op, column, Literal(right)), {column.name: left})
