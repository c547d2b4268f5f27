"""The predicate tree: immutable nodes that print as SQL text.

Two nodes appear in bound trees only: `BoundColumn`, a column resolved against a schema, and `Literal(None)` in the
place of a predicate, which stands for SQL's *unknown*.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from headwater.errors import InvalidExpression

if TYPE_CHECKING:
    from headwater.spec.expressions.visitors import Visitor

T = TypeVar("T")

Value: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime | time | None
"""What a literal can hold; a datetime without zone is a timestamp without zone."""

MAX_DEPTH = 100
"""How deep And, Or and Not may nest, so that no visitor can exhaust the stack."""

MIRRORED = {"=": "=", "!=": "!=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that says the same with its sides exchanged; its keys are all operators."""

NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The operator that is true where this one is false, and unknown where it is unknown."""

_MAX_INTEGER_BITS = 1024
_MAX_DECIMAL_EXPONENT = 400


class NestedTooDeep(InvalidExpression):
    """A tree deeper than `MAX_DEPTH`."""


class Expression:
    """A predicate, or one of the operands that a predicate compares.

    >>> from headwater.spec.expressions import parse
    >>> print(parse("fare > 10") & ~parse("city = 'sf'"))
    fare > 10 AND NOT city = 'sf'
    """

    __slots__ = ()

    @property
    def depth(self) -> int:
        """How many And, Or and Not lie above the deepest leaf."""
        return 0

    def accept(self, visitor: Visitor[T]) -> T:
        """Call the visitor's method for this node."""
        raise NotImplementedError

    def __and__(self, other: Expression) -> Expression:
        return conjunction((self, other)) if isinstance(other, Expression) else NotImplemented

    def __or__(self, other: Expression) -> Expression:
        return disjunction((self, other)) if isinstance(other, Expression) else NotImplemented

    def __invert__(self) -> Expression:
        return Not(self)

    def __bool__(self) -> bool:
        raise InvalidExpression(
            f"the expression {self} has no truth value in Python: combine expressions with & | ~ instead of "
            "and, or, not, and write .between() instead of a chained comparison"
        )

    def __str__(self) -> str:
        from headwater.spec.expressions.printing import to_sql

        return to_sql(self)


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column by its path; more than one part names a field inside structs. A boolean column is a predicate too."""

    path: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.path or not all(isinstance(part, str) and part for part in self.path):
            raise InvalidExpression(f"a column's path needs at least one name and no empty ones, not {self.path!r}")

    @property
    def name(self) -> str:
        """The dotted path, under which statistics and partition values are kept."""
        return ".".join(self.path)

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_column(self)


@dataclass(frozen=True, slots=True)
class BoundColumn(Column):
    """A column that a schema has, with its type, and the type as which its values are compared if that is another."""

    type: pa.DataType
    cast: pa.DataType | None = None

    def as_type(self, cast: pa.DataType | None) -> BoundColumn:
        """The same, compared as another type."""
        return replace(self, cast=cast)


@dataclass(frozen=True, slots=True)
class Function(Column):
    """A function of a column, with constants behind it, in the place of a column."""

    function: str
    arguments: tuple[str | int, ...] = ()

    @property
    def name(self) -> str:
        """What statistics of the function's values are kept under; no column has such a name."""
        return f"\0{self}"


@dataclass(frozen=True, slots=True)
class BoundFunction(BoundColumn):
    """A function of a column that a schema has: `type` is that of its result, `source` that of the column."""

    function: str = ""
    arguments: tuple[str | int, ...] = ()
    source: pa.DataType | None = None

    @property
    def name(self) -> str:
        """As of `Function`."""
        return f"\0{self}"

    @property
    def column(self) -> BoundColumn:
        """The column itself."""
        return BoundColumn(self.path, self.source)


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expression):
    """A constant. Equal only to a literal of the same Python type, and NaN is equal to NaN."""

    value: Value

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _checked(self.value))

    def _identity(self) -> tuple[type, object]:
        value = self.value
        return type(value), (value.hex() if isinstance(value, float) else value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_literal(self)


@dataclass(frozen=True, slots=True)
class TrueValue(Expression):
    """Every row."""

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_true(self)


@dataclass(frozen=True, slots=True)
class FalseValue(Expression):
    """No row."""

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_false(self)


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    """`left op right`, with op one of = != < <= > >= <=> (equal, where NULL equals NULL)."""

    op: str
    left: Column | Literal
    right: Column | Literal

    def __post_init__(self) -> None:
        if self.op not in MIRRORED:
            raise InvalidExpression(f"no comparison operator {self.op!r}; there are: {' '.join(MIRRORED)}")

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_comparison(self)


@dataclass(frozen=True, slots=True)
class In(Expression):
    """The column's value is one of these; unknown if it is not and one of these is NULL."""

    column: Column
    values: tuple[Literal, ...]

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_in(self)


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    """The column has no value; never unknown."""

    column: Column

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_is_null(self)


@dataclass(frozen=True, slots=True)
class IsNaN(Expression):
    """The column is not-a-number; false, not unknown, for NULL."""

    column: Column

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_is_nan(self)


@dataclass(frozen=True, slots=True)
class StartsWith(Expression):
    """The string begins with this text."""

    column: Column
    text: str

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_starts_with(self)


@dataclass(frozen=True, slots=True)
class EndsWith(Expression):
    """The string ends with this text."""

    column: Column
    text: str

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_ends_with(self)


@dataclass(frozen=True, slots=True)
class Contains(Expression):
    """The string has this text somewhere."""

    column: Column
    text: str

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_contains(self)


@dataclass(frozen=True, slots=True)
class Like(Expression):
    """The whole string matches the pattern: % any text, _ any one character, escape before one to mean itself."""

    column: Column
    pattern: str
    escape: str = "\\"

    def __post_init__(self) -> None:
        if len(self.escape) != 1:
            raise InvalidExpression(f"LIKE's escape is one character, not {self.escape!r}")

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_like(self)


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """True where the operand is false; unknown where it is unknown."""

    operand: Expression
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _deeper((self.operand,)))

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_not(self, self.operand.accept(visitor))


@dataclass(frozen=True, slots=True)
class And(Expression):
    """All of two or more operands; an And inside an And becomes part of the outer one."""

    operands: tuple[Expression, ...]
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", _flat(And, self.operands))
        object.__setattr__(self, "depth", _deeper(self.operands))

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_and(self, (operand.accept(visitor) for operand in self.operands))


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """Any of two or more operands; an Or inside an Or becomes part of the outer one."""

    operands: tuple[Expression, ...]
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", _flat(Or, self.operands))
        object.__setattr__(self, "depth", _deeper(self.operands))

    def accept(self, visitor: Visitor[T]) -> T:
        return visitor.visit_or(self, (operand.accept(visitor) for operand in self.operands))


def conjunction(operands: Iterable[Expression]) -> Expression:
    """All of them: no operand gives TRUE, one gives itself.

    >>> print(conjunction([]), conjunction([FALSE]))
    TRUE FALSE
    """
    parts = tuple(operands)
    return TRUE if not parts else parts[0] if len(parts) == 1 else And(parts)


def disjunction(operands: Iterable[Expression]) -> Expression:
    """Any of them: no operand gives FALSE, one gives itself.

    >>> print(disjunction([]), disjunction([TRUE]))
    FALSE TRUE
    """
    parts = tuple(operands)
    return FALSE if not parts else parts[0] if len(parts) == 1 else Or(parts)


def _flat(kind: type[And] | type[Or], operands: tuple[Expression, ...]) -> tuple[Expression, ...]:
    def parts() -> Iterator[Expression]:
        for operand in operands:
            if isinstance(operand, kind):
                yield from operand.operands
            else:
                yield operand

    if len(operands) < 2:
        raise InvalidExpression(f"{kind.__name__} needs two operands or more, not {len(operands)}")
    return tuple(parts())


def _deeper(operands: tuple[Expression, ...]) -> int:
    depth = 1 + max(operand.depth for operand in operands)
    if depth > MAX_DEPTH:
        raise NestedTooDeep(f"the expression nests AND, OR and NOT more than {MAX_DEPTH} levels deep")
    return depth


def _checked(value: Any) -> Value:
    if type(value) is str:
        return value
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    elif type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, bool | str | bytes) or (isinstance(value, time) and value.tzinfo is None):
        return value
    if isinstance(value, int):
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise InvalidExpression("an integer literal has more digits than any column can hold")
        return int(value)
    if isinstance(value, float):
        return math.nan if math.isnan(value) else float(value)
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int):
            raise InvalidExpression(f"the decimal literal {value} is not a finite number")
        if abs(value.adjusted()) > _MAX_DECIMAL_EXPONENT or abs(exponent) > _MAX_DECIMAL_EXPONENT:
            raise InvalidExpression("a decimal literal has more digits than any column can hold")
        return value
    if isinstance(value, datetime):
        return _plain_datetime(value)
    if isinstance(value, date):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise InvalidExpression(f"a {type(value).__name__} cannot be a literal: {value!r}")


def _plain_datetime(value: datetime) -> datetime:
    """In UTC when it has a zone, and no subclass of another library with its own arithmetic."""
    plain = datetime(
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
        value.tzinfo,
        fold=value.fold,
    )
    try:
        return plain if plain.utcoffset() is None else plain.astimezone(timezone.utc)
    except OverflowError:
        raise InvalidExpression(f"the timestamp {value} lies outside the years 1 to 9999 in UTC") from None


TRUE = TrueValue()
FALSE = FalseValue()
UNKNOWN = Literal(None)
