"""Predicates over columns: written as text or in Python, bound to a schema, evaluated on what is at hand."""

from headwater.spec.expressions.batch import evaluate, filter_batch
from headwater.spec.expressions.bind import bind, resolve
from headwater.spec.expressions.builder import ColumnBuilder, Filter, col, to_expression
from headwater.spec.expressions.nodes import (
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
    conjunction,
    disjunction,
)
from headwater.spec.expressions.parse import parse
from headwater.spec.expressions.partition import evaluate_partition, residual
from headwater.spec.expressions.prune import Match, evaluate_statistics
from headwater.spec.expressions.to_arrow import ArrowFilter, to_arrow
from headwater.spec.expressions.visitors import LeafVisitor, Visitor, columns, referenced, visit

__all__ = [
    "And",
    "ArrowFilter",
    "BoundColumn",
    "BoundFunction",
    "Column",
    "ColumnBuilder",
    "Comparison",
    "Contains",
    "EndsWith",
    "Expression",
    "FalseValue",
    "Filter",
    "Function",
    "In",
    "IsNaN",
    "IsNull",
    "LeafVisitor",
    "Like",
    "Literal",
    "Match",
    "Not",
    "Or",
    "StartsWith",
    "TrueValue",
    "Value",
    "Visitor",
    "bind",
    "col",
    "columns",
    "conjunction",
    "disjunction",
    "evaluate",
    "evaluate_partition",
    "evaluate_statistics",
    "filter_batch",
    "parse",
    "referenced",
    "residual",
    "resolve",
    "to_arrow",
    "to_expression",
    "visit",
]
