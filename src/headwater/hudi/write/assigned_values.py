"""New values of columns: constants, other columns, or what a function makes of whole columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import ColumnNotFound, InvalidArgument, WrongType
from headwater.spec.expressions import Column, ColumnBuilder

Assignments = Mapping[str, Any]


def assign(rows: pa.Table, values: Assignments, sources: pa.Table, *call_with: pa.Table) -> pa.Table:
    """The rows with some columns set.

    A value is a constant; `col("other")`, a column of `sources`; or a function of `call_with` that gives a column.

    >>> from headwater import col
    >>> rows = pa.table({"a": [1, 2], "b": [10, 20], "c": [0, 0]})
    >>> assign(rows, {"a": col("b"), "b": 5, "c": lambda t: pc.add(t["a"], 1)}, rows, rows).to_pylist()[1]
    {'a': 20, 'b': 5, 'c': 3}
    """
    made = rows
    for name, value in values.items():
        at = rows.schema.get_field_index(name)
        if at < 0:
            raise ColumnNotFound(f"set: no column {name!r}; the table has: {', '.join(rows.column_names)}")
        field = rows.schema.field(at)
        column = _column(name, value, rows.num_rows, field.type, sources, call_with)
        made = made.set_column(at, field.with_nullable(True), column)
    return made


def _column(
    name: str, value: Any, count: int, kind: pa.DataType, sources: pa.Table, call_with: tuple[pa.Table, ...]
) -> pa.ChunkedArray | pa.Array:
    if isinstance(value, ColumnBuilder | Column):
        found = _source(value.column if isinstance(value, ColumnBuilder) else value, sources)
    elif callable(value):
        found = _called(name, value, count, call_with)
    else:
        try:
            return pa.repeat(pa.scalar(value, kind), count)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise WrongType(f"set: {name} = {value!r} is no {kind}: {error}; give a value of that type") from error
    try:
        return found.cast(kind)
    except pa.ArrowException as error:
        raise WrongType(
            f"set: {name} is {kind} and the values given are {found.type}: {error}; cast them to {kind}"
        ) from error


def _source(column: Column, sources: pa.Table) -> pa.ChunkedArray:
    first, *rest = column.path
    if first not in sources.column_names:
        raise ColumnNotFound(
            f"set: no column {first!r} to take values from; there are: {', '.join(sources.column_names)}"
        )
    values = sources.column(first)
    try:
        return pc.struct_field(values, rest) if rest else values
    except (pa.ArrowException, KeyError, TypeError) as error:
        raise ColumnNotFound(f"set: no field {column} to take values from: {error}") from error


def _called(
    name: str, function: Callable[..., Any], count: int, call_with: tuple[pa.Table, ...]
) -> pa.ChunkedArray | pa.Array:
    made = function(*call_with)
    if not isinstance(made, pa.Array | pa.ChunkedArray):
        made = pa.array(made)
    if len(made) != count:
        raise InvalidArgument(f"set: the function for {name} gave {len(made)} values for {count} rows")
    return made
