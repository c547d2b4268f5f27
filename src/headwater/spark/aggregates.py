"""COUNT, MIN and MAX as Spark means them, over batches and over statistics, as partial results that add up.

>>> table = pa.schema([("city", pa.string()), ("x", pa.float64())])
>>> spec = AggregateSpec.of(table, [Aggregate("count_star"), Aggregate("max", ("x",))], ["city"])
>>> tally = Tally(spec)
>>> tally.add_batch(spec.key({"city": "sf"}), pa.record_batch({"x": [1.5, None, float("nan")]}), {"city": "sf"})
>>> tally.to_batch().to_pylist()
[{'city': 'sf', 'count_star': 3, 'max_x': nan}]

Values are kept as Spark keeps them: dates as days, timestamps as microseconds, text as UTF-8 bytes, which order as
Spark orders text. NaN is greater than any number.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import UnsupportedTable
from headwater.hudi.evolution import convert
from headwater.spark.types import arrow_type, spark_type, to_json, to_spark
from headwater.spec.statistics import ColumnStatistics

FUNCTIONS = ("count_star", "count", "min", "max")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One function over one column; a path for a field inside structs."""

    function: str
    column: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "_".join((self.function, *self.column))


class NotSupported(Exception):
    """An aggregate that is left to Spark; says why."""


@dataclass(frozen=True)
class AggregateSpec:
    """What is computed: aggregates grouped by partition columns, and the types of all of them."""

    aggregates: tuple[Aggregate, ...]
    group_by: tuple[str, ...]
    group_types: tuple[pa.DataType, ...]
    """As Spark has them."""
    value_types: tuple[pa.DataType, ...]

    @classmethod
    def of(cls, table: pa.Schema, aggregates: Sequence[Aggregate], group_by: Sequence[str]) -> AggregateSpec:
        try:
            groups = tuple(arrow_type(spark_type(_at(table, (name,)))) for name in group_by)
            values = tuple(_type_of(table, one) for one in aggregates)
        except UnsupportedTable as error:
            raise NotSupported(str(error)) from error
        return cls(tuple(aggregates), tuple(group_by), groups, values)

    @cached_property
    def schema(self) -> pa.Schema:
        """Groups, then aggregates, in Spark's types."""
        groups = [pa.field(name, kind) for name, kind in zip(self.group_by, self.group_types, strict=True)]
        values = [pa.field(one.name, kind) for one, kind in zip(self.aggregates, self.value_types, strict=True)]
        return pa.schema([*groups, *values])

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Top-level columns that the aggregates look at."""
        return tuple(dict.fromkeys(one.column[0] for one in self.aggregates if one.function != "count_star"))

    def key(self, constants: Mapping[str, Any]) -> tuple[Any, ...]:
        """The group of a partition with these values."""
        return tuple(kept(constants[name], kind) for name, kind in zip(self.group_by, self.group_types, strict=True))

    def to_json(self) -> dict[str, Any]:
        return {
            "aggregates": [{"function": one.function, "column": list(one.column)} for one in self.aggregates],
            "group_by": list(self.group_by),
            "types": base64.b64encode(self.schema.serialize()).decode("ascii"),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> AggregateSpec:
        aggregates = tuple(Aggregate(one["function"], tuple(one["column"])) for one in found["aggregates"])
        kinds = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found["types"]))).types
        groups = tuple(found["group_by"])
        return cls(aggregates, groups, tuple(kinds[: len(groups)]), tuple(kinds[len(groups) :]))

    @property
    def spark_schema(self) -> dict[str, Any]:
        return to_spark(self.schema)


def _at(table: pa.Schema, path: Sequence[str]) -> pa.DataType:
    fields: Any = table
    kind: pa.DataType | None = None
    for name in path:
        index = fields.get_field_index(name) if isinstance(fields, pa.Schema) or pa.types.is_struct(fields) else -1
        if index < 0:
            raise NotSupported(f"no column {'.'.join(path)}")
        kind = fields.field(index).type
        fields = kind
    if kind is None:
        raise NotSupported("an aggregate without a column")
    return kind


def _type_of(table: pa.Schema, aggregate: Aggregate) -> pa.DataType:
    if aggregate.function not in FUNCTIONS:
        raise NotSupported(f"{aggregate.function} is left to Spark")
    if aggregate.function == "count_star":
        return pa.int64()
    kind = _at(table, aggregate.column)
    if aggregate.function == "count":
        return pa.int64()
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        raise NotSupported(f"{aggregate.function} of {'.'.join(aggregate.column)}, which is {kind}, is left to Spark")
    return arrow_type(spark_type(kind, ".".join(aggregate.column)))


class Tally:
    """Partial results by group."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec = spec
        self.groups: dict[tuple[Any, ...], list[Any]] = {}
        if not spec.group_by:
            self._of(())  # an aggregate without groups has a row even where there is none

    def _of(self, key: tuple[Any, ...]) -> list[Any]:
        return self.groups.setdefault(key, [_nothing(one) for one in self.spec.aggregates])

    def add_values(self, key: tuple[Any, ...], values: Sequence[Any]) -> None:
        """Results of some of a group's rows."""
        total = self._of(key)
        for index, (aggregate, value) in enumerate(zip(self.spec.aggregates, values, strict=True)):
            total[index] = _sum(aggregate.function, total[index], value)

    def add_batch(self, key: tuple[Any, ...], batch: pa.RecordBatch | pa.Table, constants: Mapping[str, Any]) -> None:
        """Rows of a group; columns that are the same in all of them may be missing."""
        if not batch.num_rows:
            return
        values: list[Any] = []
        for aggregate, kind in zip(self.spec.aggregates, self.spec.value_types, strict=True):
            if aggregate.function == "count_star":
                values.append(batch.num_rows)
            elif aggregate.column[0] in constants:
                values.append(of_constant(aggregate, kind, constants[aggregate.column[0]], batch.num_rows))
            else:
                values.append(_of_rows(aggregate, kind, _column(batch, aggregate.column)))
        self.add_values(key, values)

    def add_known(
        self, key: tuple[Any, ...], rows: int, columns: Mapping[str, ColumnStatistics], constants: Mapping[str, Any]
    ) -> bool:
        """The result of rows of which statistics are known; False, and nothing added, where they do not suffice."""
        values: list[Any] = []
        for aggregate, kind in zip(self.spec.aggregates, self.spec.value_types, strict=True):
            if aggregate.function == "count_star":
                values.append(rows)
                continue
            name = aggregate.column[0]
            if name in constants and len(aggregate.column) == 1:
                values.append(of_constant(aggregate, kind, constants[name], rows))
                continue
            statistics = columns.get(name) if len(aggregate.column) == 1 else None
            if statistics is None or statistics.null_count is None:
                return False
            if aggregate.function == "count":
                values.append(rows - statistics.null_count)
            elif statistics.null_count == rows:
                values.append(None)
            elif statistics.exact:
                values.append(kept(statistics.minimum if aggregate.function == "min" else statistics.maximum, kind))
            else:
                return False
        if rows:
            self.add_values(key, values)
        return True

    def add_counts(self, key: tuple[Any, ...], rows: int, constants: Mapping[str, Any]) -> None:
        """Rows without a null, whose values change neither the least nor the greatest ones."""
        values: list[Any] = []
        for aggregate, kind in zip(self.spec.aggregates, self.spec.value_types, strict=True):
            if aggregate.column and aggregate.column[0] in constants:
                values.append(of_constant(aggregate, kind, constants[aggregate.column[0]], rows))
            else:
                values.append(rows if aggregate.function in ("count_star", "count") else None)
        self.add_values(key, values)

    def grows_by(self, key: tuple[Any, ...], columns: Mapping[str, ColumnStatistics]) -> bool:
        """Whether rows within these bounds may change the least or the greatest values of a group."""
        known = self.groups.get(key)
        for index, (aggregate, kind) in enumerate(zip(self.spec.aggregates, self.spec.value_types, strict=True)):
            if aggregate.function not in ("min", "max") or aggregate.column[0] not in columns:
                continue
            statistics = columns[aggregate.column[0]]
            end = statistics.minimum if aggregate.function == "min" else statistics.maximum
            if not statistics.exact or known is None:
                return True
            if end is not None and _sum(aggregate.function, known[index], kept(end, kind)) != known[index]:
                return True
        return False

    def add(self, other: pa.RecordBatch) -> None:
        """The results of another tally."""
        groups, columns = len(self.spec.group_by), [internal(column) for column in other.columns]
        for row in zip(*(column.to_pylist() for column in columns), strict=True):
            self.add_values(row[:groups], row[groups:])

    def to_batch(self) -> pa.RecordBatch:
        """A row for each group."""
        rows = [(*key, *values) for key, values in self.groups.items()]
        arrays = [external([row[index] for row in rows], field.type) for index, field in enumerate(self.spec.schema)]
        if not arrays:
            raise NotSupported("nothing to compute")
        return pa.RecordBatch.from_arrays(arrays, schema=self.spec.schema)

    def to_rows(self) -> list[list[Any]]:
        """A row for each group, in JSON; raises UnicodeDecodeError for text that is none."""
        kinds = self.spec.schema.types
        return [
            [_json(value, kind) for value, kind in zip((*key, *values), kinds, strict=True)]
            for key, values in self.groups.items()
        ]


def _nothing(aggregate: Aggregate) -> Any:
    return None if aggregate.function in ("min", "max") else 0


def _sum(function: str, left: Any, right: Any) -> Any:
    if function in ("count_star", "count"):
        return left + right
    if left is None or right is None:
        return right if left is None else left
    left_is_nan, right_is_nan = left != left, right != right
    if left_is_nan or right_is_nan:
        if function == "max":
            return left if left_is_nan else right
        return right if left_is_nan else left
    return min(left, right) if function == "min" else max(left, right)


def of_constant(aggregate: Aggregate, kind: pa.DataType, value: Any, rows: int) -> Any:
    """The result over a column that has one value in all rows."""
    if aggregate.function == "count":
        return rows if value is not None else 0
    return kept(value, kind)


def _of_rows(aggregate: Aggregate, kind: pa.DataType, column: pa.ChunkedArray) -> Any:
    if aggregate.function == "count":
        return len(column) - column.null_count
    if column.null_count == len(column):
        return None
    values = internal(convert(column, kind))
    if pa.types.is_floating(values.type):
        numbers = values.filter(pc.invert(pc.is_nan(values))).drop_null()
        any_nan = len(numbers) < len(values) - values.null_count
        if any_nan and (aggregate.function == "max" or not len(numbers)):
            return float("nan")
        values = numbers
    return (pc.min if aggregate.function == "min" else pc.max)(values).as_py()


def _column(batch: pa.RecordBatch | pa.Table, path: Sequence[str]) -> pa.ChunkedArray:
    found: Any = batch.column(path[0])
    if len(path) > 1:
        found = pc.struct_field(found, list(path[1:]))
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def internal(column: pa.Array | pa.ChunkedArray) -> Any:
    """A column in Spark's types as the values that are compared."""
    kind = column.type
    if pa.types.is_string(kind):
        return column.cast(pa.binary())
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64())
    return column


def kept(value: Any, kind: pa.DataType) -> Any:
    """One Python value of a Spark type as it is compared."""
    if value is None:
        return None
    if isinstance(value, bytes) and pa.types.is_string(kind):
        return value
    return internal(convert(pa.chunked_array([pa.array([value])]), kind))[0].as_py() if _needs_type(kind) else value


def _needs_type(kind: pa.DataType) -> bool:
    return not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind))


def external(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Compared values as a column of a Spark type."""
    if pa.types.is_string(kind):
        return pa.array(values, pa.binary()).view(pa.string())
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def _json(value: Any, kind: pa.DataType) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) and pa.types.is_string(kind) else to_json(value)
