"""Arrow's types and Spark's: schemas as Spark's JSON, batches as Spark's ArrowColumnVector reads them, values as JSON.

>>> to_spark(pa.schema([("at", pa.timestamp("ms", "UTC")), ("price", pa.decimal128(9, 2))]))["fields"][0]
{'name': 'at', 'type': 'timestamp', 'nullable': True, 'metadata': {}}

Times of day are the numbers that Hudi's Spark reader gives for them, and fixed bytes are bytes.
"""

from __future__ import annotations

import base64
import math
import re
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.errors import ColumnNotFound, InvalidArgument, UnsupportedTable

_EPOCH = datetime(1970, 1, 1)
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_SIMPLE: tuple[tuple[Any, str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "byte"),
    (pa.types.is_int16, "short"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "long"),
    (pa.types.is_uint8, "short"),
    (pa.types.is_uint16, "integer"),
    (pa.types.is_uint32, "long"),
    (pa.types.is_uint64, "decimal(20,0)"),
    (pa.types.is_float16, "float"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_binary_view, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
    (pa.types.is_date, "date"),
    (pa.types.is_time32, "integer"),
    (pa.types.is_time64, "long"),
    (pa.types.is_duration, "long"),
    (pa.types.is_null, "void"),
)
_ARROW = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_OTHER_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long", "null": "void"}


def to_spark(schema: pa.Schema) -> dict[str, Any]:
    """The JSON of a Spark StructType; every field may be null, as in all of Spark's file sources."""
    return {"type": "struct", "fields": [_spark_field(field, field.name) for field in schema]}


def _spark_field(field: pa.Field, where: str) -> dict[str, Any]:
    return {"name": field.name, "type": spark_type(field.type, where), "nullable": True, "metadata": {}}


def spark_type(type_: pa.DataType, where: str = "") -> Any:
    """The JSON of a Spark type: a text, or an object for nested ones.

    >>> spark_type(pa.list_(pa.time32("ms")))
    {'type': 'array', 'elementType': 'integer', 'containsNull': True}
    """
    if isinstance(type_, pa.BaseExtensionType):
        return spark_type(type_.storage_type, where)
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return spark_type(type_.value_type, where)
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz else "timestamp_ntz"
    if pa.types.is_decimal(type_):
        if type_.precision > 38:
            raise UnsupportedTable(f"column {where}: is {type_}; Spark's decimals end at 38 digits")
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_struct(type_):
        return {"type": "struct", "fields": [_spark_field(field, f"{where}.{field.name}") for field in type_]}
    if pa.types.is_map(type_):
        key, value = spark_type(type_.key_type, f"{where}.key"), spark_type(type_.item_type, f"{where}.value")
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        element = spark_type(type_.value_type, f"{where}.element")
        return {"type": "array", "elementType": element, "containsNull": True}
    for test, name in _SIMPLE:
        if test(type_):
            return name
    raise UnsupportedTable(f"column {where}: is {type_}, which Spark has no type for")


def arrow_type(spark: Any) -> pa.DataType:
    """The Arrow type as which Spark reads a column of this type.

    >>> arrow_type({"type": "array", "elementType": "date", "containsNull": True})
    ListType(list<element: date32[day]>)
    """
    if isinstance(spark, str):
        name = _OTHER_NAMES.get(spark, spark)
        decimal = _DECIMAL.fullmatch(name)
        if decimal is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if name in _ARROW:
            return _ARROW[name]
        if name.startswith(("string", "varchar(", "char(")):
            return pa.string()
        raise InvalidArgument(f"no type {spark!r} among those that tables have")
    if spark["type"] == "struct":
        return pa.struct([pa.field(field["name"], arrow_type(field["type"])) for field in spark["fields"]])
    if spark["type"] == "array":
        return pa.list_(pa.field("element", arrow_type(spark["elementType"])))
    if spark["type"] == "map":
        return pa.map_(arrow_type(spark["keyType"]), pa.field("value", arrow_type(spark["valueType"])))
    if spark["type"] == "udt":
        return arrow_type(spark["sqlType"])
    raise InvalidArgument(f"no type {spark['type']!r} among those that tables have")


def in_milliseconds(type_: pa.DataType) -> bool:
    """Whether a type has times in milliseconds that Spark would take for microseconds if a file calls them so.

    >>> in_milliseconds(pa.list_(pa.timestamp("ms", "UTC"))), in_milliseconds(pa.timestamp("us", "UTC"))
    (True, False)
    """
    if pa.types.is_timestamp(type_):
        return bool(type_.unit == "ms" and type_.tz is not None)
    return any(in_milliseconds(type_.field(index).type) for index in range(type_.num_fields))


def arrow_schema(spark: Any) -> pa.Schema:
    """The Arrow schema as which Spark reads columns of a StructType."""
    return pa.schema([pa.field(field["name"], arrow_type(field["type"])) for field in spark["fields"]])


def pruned(schema: pa.Schema, spark: Any) -> pa.Schema:
    """The table's own columns that a StructType asks for, with only the asked-for fields inside structs.

    >>> schema = pa.schema([("a", pa.struct([("x", pa.int8()), ("y", pa.int8())])), ("b", pa.string())])
    >>> wanted = {"type": "struct", "fields": [{"name": "y", "type": "byte"}]}
    >>> pruned(schema, {"fields": [{"name": "a", "type": wanted}]}).field("a").type
    StructType(struct<y: int8>)
    """
    return pa.schema(
        [_pruned_field(_named(list(schema), field["name"], ""), field["type"]) for field in spark["fields"]]
    )


def _named(fields: list[pa.Field], name: str, where: str) -> pa.Field:
    for field in fields:
        if field.name == name:
            return field
    here = f"{where} has" if where else "the table has"
    raise ColumnNotFound(f"no column {name!r}; {here}: {', '.join(field.name for field in fields)}")


def _pruned_field(field: pa.Field, spark: Any) -> pa.Field:
    return field.with_type(_pruned_type(field.type, spark, field.name)).with_nullable(True)


def _pruned_type(type_: pa.DataType, spark: Any, where: str) -> pa.DataType:
    if not isinstance(spark, dict):
        return type_
    if pa.types.is_struct(type_) and spark["type"] == "struct":
        own = list(type_)
        return pa.struct([_pruned_field(_named(own, f["name"], where), f["type"]) for f in spark["fields"]])
    if pa.types.is_list(type_) and spark["type"] == "array":
        return pa.list_(_pruned_field(type_.value_field, spark["elementType"]))
    if pa.types.is_map(type_) and spark["type"] == "map":
        key = _pruned_type(type_.key_type, spark["keyType"], where)
        return pa.map_(key, _pruned_field(type_.item_field, spark["valueType"]))
    return type_


def to_json(value: Any) -> Any:
    """A value as Spark keeps it: dates as days, timestamps as microseconds, decimals as text, bytes as base64.

    >>> to_json(date(1970, 1, 3)), to_json(Decimal("1.50")), to_json(b"ab")
    (2, '1.50', 'YWI=')
    """
    if isinstance(value, datetime):
        naive = value if value.tzinfo is None else value.astimezone(timezone.utc).replace(tzinfo=None)
        return (naive - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def from_json(value: Any, spark: str) -> Any:
    """A literal of a simple Spark type; raises ValueError for what Python has no value for.

    >>> from_json(2, "date"), from_json("1.50", "decimal(9,2)"), from_json(0, "timestamp").isoformat()
    (datetime.date(1970, 1, 3), Decimal('1.50'), '1970-01-01T00:00:00+00:00')
    """
    name = _OTHER_NAMES.get(spark, spark)
    if value is None:
        return None
    if _DECIMAL.fullmatch(name):
        return Decimal(str(value))
    if name in ("timestamp", "timestamp_ntz"):
        try:
            moment = _EPOCH + timedelta(microseconds=int(value))
        except OverflowError as error:
            raise ValueError(f"{value} microseconds lie outside the years 1 to 9999") from error
        return moment.replace(tzinfo=timezone.utc) if name == "timestamp" else moment
    if name == "date":
        try:
            return _EPOCH.date() + timedelta(days=int(value))
        except OverflowError as error:
            raise ValueError(f"{value} days lie outside the years 1 to 9999") from error
    if name in ("float", "double"):
        return float(value)
    if name in ("byte", "short", "integer", "long"):
        return int(value)
    if name == "binary":
        return base64.b64decode(value)
    if name == "boolean" and isinstance(value, bool):
        return value
    if name == "string" and isinstance(value, str):
        return value
    raise ValueError(f"no literal of type {spark}")
