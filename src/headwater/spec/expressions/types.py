"""What kinds of types there are to compare, and as which type two columns meet."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum

import pyarrow as pa

from headwater.spec.expressions.nodes import BoundColumn, Value


class Kind(Enum):
    """Types whose values order and compare the same way."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIME = "time"
    NULL = "null"
    OTHER = "other"


NUMERIC = frozenset((Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL))
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_UNITS = ("s", "ms", "us", "ns")


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type of the same values without a special encoding.

    >>> plain_type(pa.dictionary(pa.int32(), pa.string_view()))
    DataType(string)
    """
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return plain_type(type_.value_type)
    if pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_binary_view(type_):
        return pa.binary()
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_date64(type_):
        return pa.date32()
    if pa.types.is_decimal(type_) and type_.bit_width < 128:
        return pa.decimal128(type_.precision, type_.scale)
    return type_


def kind_of(type_: pa.DataType) -> Kind:
    """The kind of a type.

    >>> kind_of(pa.int8()), kind_of(pa.large_string())
    (<Kind.INTEGER: 'integer'>, <Kind.STRING: 'string'>)
    """
    plain = plain_type(type_)
    for test, kind in _TESTS:
        if test(plain):
            return kind
    return Kind.OTHER


_TESTS = (
    (pa.types.is_integer, Kind.INTEGER),
    (pa.types.is_floating, Kind.FLOAT),
    (pa.types.is_decimal, Kind.DECIMAL),
    (pa.types.is_string, Kind.STRING),
    (pa.types.is_large_string, Kind.STRING),
    (pa.types.is_boolean, Kind.BOOLEAN),
    (pa.types.is_date, Kind.DATE),
    (pa.types.is_timestamp, Kind.TIMESTAMP),
    (pa.types.is_time, Kind.TIME),
    (pa.types.is_binary, Kind.BINARY),
    (pa.types.is_large_binary, Kind.BINARY),
    (pa.types.is_fixed_size_binary, Kind.BINARY),
    (pa.types.is_null, Kind.NULL),
)


def compared_type(column: BoundColumn) -> pa.DataType:
    """The type as which the column's values are compared."""
    return plain_type(column.type) if column.cast is None else column.cast


def type_of_value(value: Value) -> pa.DataType:
    """The type that a constant has of its own.

    >>> type_of_value(5), type_of_value(Decimal("2.50"))
    (DataType(int64), Decimal256Type(decimal256(76, 2)))
    """
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -(2**63) <= value < 2**63 else pa.decimal256(76, 0)
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return pa.decimal256(76, min(76, max(0, -exponent))) if isinstance(exponent, int) else pa.float64()
    if isinstance(value, datetime):
        return pa.timestamp("us", None if value.tzinfo is None else "UTC")
    for python_type, type_ in _TYPES_OF_VALUES:
        if isinstance(value, python_type):
            return type_
    raise AssertionError(f"no literal holds a {type(value).__name__}")


_TYPES_OF_VALUES = (
    (float, pa.float64()),
    (str, pa.string()),
    (bytes, pa.binary()),
    (date, pa.date32()),
    (time, pa.time64("us")),
)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type as which two columns are compared, as Spark casts them; None when they cannot be.

    >>> common_type(pa.int32(), pa.decimal128(5, 2))
    Decimal128Type(decimal128(12, 2))
    """
    left, right = plain_type(left), plain_type(right)
    kinds = {kind_of(left), kind_of(right)}
    if Kind.OTHER in kinds:
        return None
    if left.equals(right):
        return left
    if Kind.NULL in kinds:
        return right if kind_of(left) is Kind.NULL else left
    if kinds <= NUMERIC:
        return _common_number(left, right)
    if len(kinds) == 1:
        return _same_kind(left, right)
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        stamp = left if kind_of(left) is Kind.TIMESTAMP else right
        return _common_timestamp(pa.timestamp("us"), stamp)
    if Kind.STRING in kinds:
        other = right if kind_of(left) is Kind.STRING else left
        if kind_of(other) is Kind.TIMESTAMP:
            return _common_timestamp(pa.timestamp("us"), other)
        return _TYPES_FROM_STRING.get(kind_of(other))
    return None


_TYPES_FROM_STRING = {
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.DECIMAL: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.DATE: pa.date32(),
    Kind.BINARY: pa.binary(),
}


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if Kind.FLOAT in (kind_of(left), kind_of(right)):
        return pa.float64()
    if kind_of(left) is kind_of(right) is Kind.INTEGER:
        unsigned = pa.types.is_uint64(left) or pa.types.is_uint64(right)
        return pa.decimal128(20, 0) if unsigned else pa.int64()
    (left_digits, left_scale), (right_digits, right_scale) = _digits(left), _digits(right)
    scale = max(left_scale, right_scale)
    precision = max(left_digits, right_digits) + scale
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(min(precision, 76), scale)


def _digits(type_: pa.DataType) -> tuple[int, int]:
    if kind_of(type_) is Kind.DECIMAL:
        return type_.precision - type_.scale, type_.scale
    return _INTEGER_DIGITS[type_.bit_width], 0


def _same_kind(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if kind_of(left) is Kind.TIMESTAMP:
        return _common_timestamp(left, right)
    if kind_of(left) is Kind.TIME:
        return pa.time64("ns" if "ns" in (left.unit, right.unit) else "us")
    return pa.large_string() if kind_of(left) is Kind.STRING else pa.large_binary()


def _common_timestamp(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Without zone, because both count from the same moment; a count of nanoseconds where casting would overflow."""
    unit = max(left.unit, right.unit, key=_UNITS.index)
    return pa.decimal128(38, 0) if unit == "ns" and left.unit != right.unit else pa.timestamp(unit)
