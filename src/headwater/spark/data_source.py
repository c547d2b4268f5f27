"""The Python Data Source: the same reader where the Java connector cannot be had (Spark 4.0 and newer).

Spark gives it no columns, limits or aggregates, and filters only from 4.1 on; every row crosses a socket. The rows are
those of the connector. It is imported only where PySpark is.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headwater.errors import InvalidArgument
from headwater.spark.options import SESSION_PREFIX, parse_read_options
from headwater.spark.sidecar.merging import SliceScan, batches, decode_slice, encode_slice
from headwater.spark.sidecar.predicates import FULL, NONE, classify
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.types import spark_type, to_json, to_spark
from headwater.spec.expressions import Expression, conjunction
from headwater.spec.model import FileSlice
from headwater.table import open_table

_COMPARISONS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_TEXT_TESTS = {"StringStartsWith": "STARTS_WITH", "StringEndsWith": "ENDS_WITH", "StringContains": "CONTAINS"}
_MEMORY = 512 * 10**6


class HeadwaterDataSource(DataSource):
    """`format("headwater_python")`."""

    @classmethod
    def name(cls) -> str:
        return "headwater_python"

    def schema(self) -> StructType:
        return StructType.fromJson(to_spark(opened(self.options).schema))

    def reader(self, schema: StructType) -> HeadwaterReader:
        return HeadwaterReader(opened(self.options), schema)


class HeadwaterOnly(HeadwaterDataSource):
    """The same as `format("headwater")`, for sessions where no jar has that name."""

    @classmethod
    def name(cls) -> str:
        return "headwater"


class PushingDataSource(HeadwaterDataSource):
    """The same for sessions with `spark.sql.python.filterPushdown.enabled`; others refuse readers that take filters."""

    def reader(self, schema: StructType) -> HeadwaterReader:
        return PushingReader(opened(self.options), schema)


class PushingOnly(PushingDataSource):
    @classmethod
    def name(cls) -> str:
        return "headwater"


def opened(options: Any) -> OpenTable:
    """The table that the options name."""
    given = {str(name): str(value) for name, value in options.items()}
    # The connector hands the session's configuration on under its own names.
    session = {name: given.pop(name) for name in list(given) if name.startswith(SESSION_PREFIX)}
    path = given.pop("path", "")
    if not path:
        raise InvalidArgument('no path; use spark.read.format("headwater").load("/path/of/table")')
    first = parse_read_options(given, session)
    table = open_table(path, metadata=first.metadata)
    return OpenTable(table, parse_read_options(given, session, table.hudi.config.properties))


class HeadwaterReader(DataSourceReader):
    """Plans on the driver; executors get it by pickle, with the plan's reader and without the table."""

    def __init__(self, table: OpenTable, schema: StructType) -> None:
        self._table: OpenTable | None = table
        self._output = arrow_schema_of(schema)
        self._pushed: list[Expression] = []
        self._planned: tuple[SliceScan, list[FileSlice]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        scan, _ = self._plan()
        return {"_table": None, "_output": self._output, "_pushed": [], "_planned": (scan, [])}

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(encode_slice(slice_)) for slice_ in self._plan()[1]]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        # Where there is no slice to read, Spark 4.0 asks for None and later ones for a partition of their own.
        if partition is None or partition.value is None:
            return
        scan, _ = self._plan()
        for table in scan.read(decode_slice(partition.value)):
            yield from batches(table)

    def _plan(self) -> tuple[SliceScan, list[FileSlice]]:
        if self._planned is None:
            assert self._table is not None
            scan = self._table.scan
            if self._pushed:
                scan = scan.where(conjunction(self._pushed))
            planned, reader = scan.prepare()
            reader = reader.within(self._table.options.memory or _MEMORY)
            slices = [task.slice for task in planned.tasks if isinstance(task.slice, FileSlice)]
            self._planned = SliceScan(reader, self._output), slices
        return self._planned


class PushingReader(HeadwaterReader):
    """Takes filters, from Spark 4.1 on."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - PySpark's name
        """Keep what can be used; what partitions alone decide is not evaluated again."""
        assert self._table is not None
        table, left = self._table, []
        for one in filters:
            pushed = classify(as_predicate(one, table.schema), table.schema, table.partition_values)
            if pushed.kind != NONE and pushed.expression is not None:
                self._pushed.append(pushed.expression)
            if pushed.kind != FULL:
                left.append(one)
        return left


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """The Arrow schema that this Spark expects of a Python data source."""
    convert: Any = to_arrow_schema
    in_utc = {"timezone": "UTC"} if "timezone" in inspect.signature(convert).parameters else {}
    return convert(schema, **in_utc)


def as_predicate(filter_: Any, schema: pa.Schema) -> Any:
    """A filter of PySpark as a predicate of the connector's contract; None where it has none."""
    kind = type(filter_).__name__
    if type(filter_).__module__ != DataSource.__module__:
        return None
    if kind == "Not":
        inner = as_predicate(filter_.child, schema)
        return None if inner is None else {"op": "NOT", "args": [inner]}
    column = {"col": list(filter_.attribute)}
    if kind in ("IsNull", "IsNotNull"):
        return {"op": "IS_NULL" if kind == "IsNull" else "IS_NOT_NULL", "args": [column]}
    own = _type_at(schema, filter_.attribute)
    if own is None:
        return None
    if kind == "In":
        values = [_literal(value, own) for value in filter_.value]
        return None if None in values else {"op": "IN", "args": [column, *values]}
    literal = _literal(filter_.value, own)
    op = _COMPARISONS.get(kind) or _TEXT_TESTS.get(kind)
    return None if literal is None or op is None else {"op": op, "args": [column, literal]}


def _type_at(schema: pa.Schema, path: Sequence[str]) -> str | None:
    fields: Any = schema
    for name in path:
        index = fields.get_field_index(name) if isinstance(fields, pa.Schema) or pa.types.is_struct(fields) else -1
        if index < 0:
            return None
        fields = fields.field(index).type
    return None if pa.types.is_nested(fields) else str(spark_type(fields))


def _literal(value: Any, own: str) -> dict[str, Any] | None:
    """A value as a literal of its column's type, where it surely is one."""
    if value is None:
        return {"lit": None, "type": own}
    fits = {
        "boolean": isinstance(value, bool),
        "string": isinstance(value, str),
        "binary": isinstance(value, bytes),
        "date": isinstance(value, date) and not isinstance(value, datetime),
        "timestamp": isinstance(value, datetime) and value.tzinfo is not None,
        "timestamp_ntz": isinstance(value, datetime) and value.tzinfo is None,
        "float": isinstance(value, float),
        "double": isinstance(value, float),
    }
    whole = isinstance(value, int) and not isinstance(value, bool)
    if own.startswith("decimal"):
        suits = whole or isinstance(value, Decimal)
    else:
        suits = whole if own in ("byte", "short", "integer", "long") else fits.get(own, False)
    return {"lit": to_json(value), "type": own} if suits else None
