"""Filters written in Python: `(col("fare") > 10) & (col("city") == "sf")`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from headwater.errors import InvalidExpression
from headwater.spec.expressions.nodes import (
    TRUE,
    Column,
    Comparison,
    Contains,
    EndsWith,
    Expression,
    Function,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Not,
    StartsWith,
    Value,
    conjunction,
)
from headwater.spec.expressions.parse import parse, parse_column


class ColumnBuilder:
    """A column to compare; every comparison gives an expression. Used alone, it is a condition on a boolean column."""

    __slots__ = ("column",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, column: Column) -> None:
        self.column = column

    def __repr__(self) -> str:
        return f"col({str(self.column)!r})"

    def __bool__(self) -> bool:
        raise InvalidExpression(
            f"{self!r} has no truth value in Python: combine conditions with & | ~ instead of and, or, not"
        )

    def _compare(self, op: str, other: Value | ColumnBuilder | Column) -> Expression:
        if isinstance(other, ColumnBuilder):
            return Comparison(op, self.column, other.column)
        return Comparison(op, self.column, other if isinstance(other, Column) else Literal(other))

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._compare("=", other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._compare("!=", other)  # type: ignore[arg-type]

    def __lt__(self, other: Value | ColumnBuilder) -> Expression:
        return self._compare("<", other)

    def __le__(self, other: Value | ColumnBuilder) -> Expression:
        return self._compare("<=", other)

    def __gt__(self, other: Value | ColumnBuilder) -> Expression:
        return self._compare(">", other)

    def __ge__(self, other: Value | ColumnBuilder) -> Expression:
        return self._compare(">=", other)

    def __and__(self, other: Expression | ColumnBuilder) -> Expression:
        return self.column & to_expression(other)

    def __rand__(self, other: Expression) -> Expression:
        return other & self.column

    def __or__(self, other: Expression | ColumnBuilder) -> Expression:
        return self.column | to_expression(other)

    def __ror__(self, other: Expression) -> Expression:
        return other | self.column

    def __invert__(self) -> Expression:
        return Not(self.column)

    def eq_null_safe(self, other: Value | ColumnBuilder) -> Expression:
        """Equal, where NULL equals NULL: SQL's <=>."""
        return self._compare("<=>", other)

    def function(self, name: str, *arguments: str | int) -> ColumnBuilder:
        """A function of the column, with constants behind it, to compare instead.

        >>> print(col("ts").function("date_format", "yyyy-MM") == "2024-01")
        date_format(ts, 'yyyy-MM') = '2024-01'
        """
        return ColumnBuilder(Function(self.column.path, name.lower(), arguments))

    def is_in(self, values: Iterable[Value]) -> Expression:
        """One of the values."""
        if isinstance(values, str | bytes):
            raise InvalidExpression(f"is_in() takes a list of values, not the single value {values!r}")
        return In(self.column, tuple(Literal(value) for value in values))

    def is_null(self) -> Expression:
        """Without a value."""
        return IsNull(self.column)

    def is_not_null(self) -> Expression:
        """With a value."""
        return Not(IsNull(self.column))

    def is_nan(self) -> Expression:
        """Not a number; false for NULL."""
        return IsNaN(self.column)

    def starts_with(self, text: str) -> Expression:
        """A string that begins with the text."""
        return StartsWith(self.column, text)

    def ends_with(self, text: str) -> Expression:
        """A string that ends with the text."""
        return EndsWith(self.column, text)

    def contains(self, text: str) -> Expression:
        """A string that has the text in it."""
        return Contains(self.column, text)

    def like(self, pattern: str, escape: str = "\\") -> Expression:
        """A string that matches the pattern of % and _."""
        return Like(self.column, pattern, escape)

    def between(self, low: Value | ColumnBuilder, high: Value | ColumnBuilder) -> Expression:
        """From low to high, both included."""
        return conjunction((self._compare(">=", low), self._compare("<=", high)))


Filter: TypeAlias = "str | Expression | ColumnBuilder | Iterable[str | Expression | ColumnBuilder] | None"
"""What a caller may pass as a filter."""


def col(name: str) -> ColumnBuilder:
    """A column by its name; dots lead into structs, and parts with other characters stand in back quotes.

    >>> print((col("fare") > 10) & (col("rider.city") == "sf") | col("tip").is_null())
    fare > 10 AND rider.city = 'sf' OR tip IS NULL
    >>> print(~col("day").between("2024-01-01", "2024-01-31"))
    NOT (day >= '2024-01-01' AND day <= '2024-01-31')
    """
    return ColumnBuilder(parse_column(name))


def to_expression(filter_: Filter) -> Expression:
    """One expression from what a caller passed: text is parsed, a list must hold as a whole, None keeps every row.

    >>> print(to_expression(["fare > 10", col("city") == "sf"]))
    fare > 10 AND city = 'sf'
    """
    if filter_ is None:
        return TRUE
    if isinstance(filter_, Expression):
        return filter_
    if isinstance(filter_, ColumnBuilder):
        return filter_.column
    if isinstance(filter_, str):
        return parse(filter_)
    if isinstance(filter_, Iterable):
        return conjunction([to_expression(part) for part in filter_])
    raise InvalidExpression(f"a {type(filter_).__name__} is no filter; give a text, an expression or a list of these")
