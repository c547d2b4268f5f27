"""Walking a tree: one method per node, and which columns a tree uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from headwater.spec.expressions.nodes import (
    And,
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

T = TypeVar("T")


class Visitor(ABC, Generic[T]):
    """Computes a value of a tree from its leaves upwards.

    And and Or receive their operands' results as an iterator that computes each when asked for: whoever knows the
    answer early need not take the rest, and a chain of thousands keeps one result at a time.
    """

    @abstractmethod
    def visit_true(self, node: TrueValue) -> T: ...

    @abstractmethod
    def visit_false(self, node: FalseValue) -> T: ...

    @abstractmethod
    def visit_literal(self, node: Literal) -> T:
        """A literal in the place of a predicate; in a bound tree it is NULL: unknown."""

    @abstractmethod
    def visit_column(self, node: Column) -> T:
        """A boolean column in the place of a predicate; bound trees compare it with TRUE instead."""

    @abstractmethod
    def visit_comparison(self, node: Comparison) -> T: ...

    @abstractmethod
    def visit_in(self, node: In) -> T: ...

    @abstractmethod
    def visit_is_null(self, node: IsNull) -> T: ...

    @abstractmethod
    def visit_is_nan(self, node: IsNaN) -> T: ...

    @abstractmethod
    def visit_starts_with(self, node: StartsWith) -> T: ...

    @abstractmethod
    def visit_ends_with(self, node: EndsWith) -> T: ...

    @abstractmethod
    def visit_contains(self, node: Contains) -> T: ...

    @abstractmethod
    def visit_like(self, node: Like) -> T: ...

    @abstractmethod
    def visit_not(self, node: Not, operand: T) -> T: ...

    @abstractmethod
    def visit_and(self, node: And, operands: Iterator[T]) -> T: ...

    @abstractmethod
    def visit_or(self, node: Or, operands: Iterator[T]) -> T: ...


def visit(expression: Expression, visitor: Visitor[T]) -> T:
    """The value that the visitor computes for the tree.

    >>> from headwater.spec.expressions import parse
    >>> sorted(column.name for column in visit(parse("a.b = 1 AND c < d"), ReferencedColumns()))
    ['a.b', 'c', 'd']
    """
    return expression.accept(visitor)


def columns(expression: Expression) -> frozenset[str]:
    """The top-level columns that the expression reads.

    >>> from headwater.spec.expressions import parse
    >>> sorted(columns(parse("rider.age > 30 OR city = 'sf'")))
    ['city', 'rider']
    """
    return frozenset(column.path[0] for column in visit(expression, ReferencedColumns()))


def referenced(expression: Expression) -> frozenset[Column]:
    """The columns, with their whole paths, that the expression reads.

    >>> from headwater.spec.expressions import parse
    >>> [column.path for column in referenced(parse("rider.age > 30"))]
    [('rider', 'age')]
    """
    return visit(expression, ReferencedColumns())


class LeafVisitor(Visitor[T]):
    """A visitor that does the same with every leaf: what `leaf` returns."""

    @abstractmethod
    def leaf(self, node: Expression) -> T: ...

    def visit_true(self, node: TrueValue) -> T:
        return self.leaf(node)

    def visit_false(self, node: FalseValue) -> T:
        return self.leaf(node)

    def visit_literal(self, node: Literal) -> T:
        return self.leaf(node)

    def visit_column(self, node: Column) -> T:
        return self.leaf(node)

    def visit_comparison(self, node: Comparison) -> T:
        return self.leaf(node)

    def visit_in(self, node: In) -> T:
        return self.leaf(node)

    def visit_is_null(self, node: IsNull) -> T:
        return self.leaf(node)

    def visit_is_nan(self, node: IsNaN) -> T:
        return self.leaf(node)

    def visit_starts_with(self, node: StartsWith) -> T:
        return self.leaf(node)

    def visit_ends_with(self, node: EndsWith) -> T:
        return self.leaf(node)

    def visit_contains(self, node: Contains) -> T:
        return self.leaf(node)

    def visit_like(self, node: Like) -> T:
        return self.leaf(node)


class ReferencedColumns(LeafVisitor[frozenset[Column]]):
    """Collects the columns of a tree."""

    def leaf(self, node: Expression) -> frozenset[Column]:
        if isinstance(node, Column):
            return frozenset((node,))
        if isinstance(node, Comparison):
            return frozenset(side for side in (node.left, node.right) if isinstance(side, Column))
        if isinstance(node, In | IsNull | IsNaN | StartsWith | EndsWith | Contains | Like):
            return frozenset((node.column,))
        return frozenset()

    def visit_not(self, node: Not, operand: frozenset[Column]) -> frozenset[Column]:
        return operand

    def visit_and(self, node: And, operands: Iterator[frozenset[Column]]) -> frozenset[Column]:
        return frozenset().union(*operands)

    def visit_or(self, node: Or, operands: Iterator[frozenset[Column]]) -> frozenset[Column]:
        return frozenset().union(*operands)
