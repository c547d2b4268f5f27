"""Where a constant lies among the values that a column's type can hold: Spark's implicit casts, made exact."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import pyarrow as pa

from headwater.spec.expressions.constants import boolean_of, decimal_of, in_utc, integer_of, real_of, single
from headwater.spec.expressions.nodes import Value
from headwater.spec.expressions.temporal import parse_date, parse_time, parse_timestamp
from headwater.spec.expressions.types import Kind, kind_of, plain_type


class Position(Enum):
    """How a constant lies relative to `Place.value`."""

    AT = "equal to the value"
    AFTER = "after the value and before the type's next one"
    BELOW_ALL = "below every value of the type"
    ABOVE_ALL = "above every value of the type"


@dataclass(frozen=True, slots=True)
class Place:
    """A constant's place in a type, and the type to cast the column to first when Spark would do that."""

    position: Position
    value: Value = None
    cast: pa.DataType | None = None


BELOW_ALL = Place(Position.BELOW_ALL)
ABOVE_ALL = Place(Position.ABOVE_ALL)

_EXACT_DOUBLE_DIGITS = 15
"""Decimals of that many digits stay distinct and in order as doubles: exact comparison is then what Spark finds."""
_EXACT_DOUBLE_INTEGER = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_MICROS_PER = {"s": 1_000_000, "ms": 1_000, "us": 1}


def place(value: Value, type_: pa.DataType) -> Place | None:
    """The place of a constant other than NULL, or None when the two cannot be compared.

    >>> place(2, pa.int32())
    Place(position=<Position.AT: 'equal to the value'>, value=2, cast=None)
    >>> place(Decimal("2.5"), pa.int32()).position.name, place(300, pa.int8()).position.name
    ('AFTER', 'ABOVE_ALL')
    """
    plain = plain_type(type_)
    kind = kind_of(plain)
    if kind is Kind.INTEGER:
        return _in_integers(value, plain)
    if kind is Kind.FLOAT:
        return _in_floats(value, plain)
    if kind is Kind.DECIMAL:
        return _in_decimals(value, plain)
    if kind is Kind.STRING:
        return _in_strings(value)
    if kind is Kind.BINARY:
        return _in_binary(value, plain)
    if kind is Kind.TIMESTAMP:
        return _in_timestamps(value, plain)
    if kind is Kind.DATE:
        return _in_dates(value)
    if kind is Kind.TIME:
        return _in_times(value, plain)
    if kind is Kind.BOOLEAN:
        truth = boolean_of(value) if isinstance(value, str) else value
        return _at(truth) if isinstance(truth, bool) else None
    return None


def _at(value: Value, cast: pa.DataType | None = None) -> Place:
    return Place(Position.AT, value, cast)


def _in_integers(value: Value, type_: pa.DataType) -> Place | None:
    if isinstance(value, str):
        value = integer_of(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return BELOW_ALL if value < 0 else ABOVE_ALL
        if type_.bit_width == 64 and abs(value) >= _EXACT_DOUBLE_INTEGER:
            return _at(value, pa.float64())
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    signed = pa.types.is_signed_integer(type_)
    lowest = -(1 << type_.bit_width - 1) if signed else 0
    highest = (1 << (type_.bit_width - 1 if signed else type_.bit_width)) - 1
    floor = math.floor(value)
    return _in_range(floor, floor == value, lowest, highest, floor)


def _in_range(count: int, exact: bool, lowest: int, highest: int, value: Value) -> Place:
    if count < lowest:
        return BELOW_ALL
    if count > highest or (count == highest and not exact):
        return ABOVE_ALL
    return Place(Position.AT if exact else Position.AFTER, value)


def _in_floats(value: Value, type_: pa.DataType) -> Place | None:
    if isinstance(value, str):
        value = real_of(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        double = float(value)
    except OverflowError:
        double = math.inf if value > 0 else -math.inf
    if math.isinf(double) and not isinstance(value, float):
        # A constant beyond the largest double is still below infinity.
        return Place(Position.AFTER, math.nextafter(math.inf, 0) if double > 0 else -math.inf)
    if pa.types.is_float64(type_) or math.isnan(double):
        return _at(double)
    rounded = single(double)
    if rounded == double:
        return _at(rounded)
    return Place(Position.AFTER, rounded if rounded < double else _previous_single(rounded))


def _previous_single(value: float) -> float:
    """The next number of single precision below."""
    if math.isinf(value):
        return struct.unpack("<f", b"\xff\xff\x7f\x7f")[0] if value > 0 else value
    if value == 0:
        return -math.ldexp(1.0, -149)
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    previous: float = struct.unpack("<f", struct.pack("<i", bits - 1 if value > 0 else bits + 1))[0]
    return previous


def _in_decimals(value: Value, type_: pa.DataType) -> Place | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    exact: Decimal | int | None
    if isinstance(value, float | str):
        # Spark compares these as doubles.
        double = real_of(value) if isinstance(value, str) else value
        if double is None:
            return None
        if not math.isfinite(double):
            return BELOW_ALL if double < 0 else ABOVE_ALL
        exact = decimal_of(value) if isinstance(value, str) else Decimal(repr(value))
        digits = math.inf if exact is None else len(exact.as_tuple().digits)
        if exact is None or digits > _EXACT_DOUBLE_DIGITS or type_.precision > _EXACT_DOUBLE_DIGITS:
            return _at(double, pa.float64())
    else:
        exact = value
    unscaled = Fraction(exact) * 10**type_.scale
    floor = math.floor(unscaled)
    limit = 10**type_.precision - 1
    return _in_range(floor, floor == unscaled, -limit, limit, _decimal(floor, type_.scale))


def _decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((1 if unscaled < 0 else 0, digits, -scale))


def _in_strings(value: Value) -> Place | None:
    """A constant of another type is not cast to text: Spark casts the column to the constant's type."""
    if isinstance(value, str):
        return _at(value)
    if isinstance(value, bool):
        return _at(value, pa.bool_())
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return _at(value, pa.int64())
    if isinstance(value, int | float | Decimal):
        return _at(float(value), pa.float64())
    if isinstance(value, bytes):
        return _at(value, pa.binary())
    if isinstance(value, datetime):
        return _at(in_utc(value).replace(tzinfo=None), pa.timestamp("us"))
    return _at(value, pa.date32()) if isinstance(value, date) else None


def _in_binary(value: Value, type_: pa.DataType) -> Place | None:
    content = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if not isinstance(content, bytes):
        return None
    fits = not pa.types.is_fixed_size_binary(type_) or type_.byte_width == len(content)
    return _at(content, None if fits else pa.binary())


def _in_dates(value: Value) -> Place | None:
    if isinstance(value, str):
        value = parse_date(value)
    if isinstance(value, datetime):
        moment = in_utc(value)
        midnight = moment.time() == time()
        return Place(Position.AT if midnight else Position.AFTER, moment.date())
    return _at(value) if isinstance(value, date) else None


def _in_timestamps(value: Value, type_: pa.DataType) -> Place | None:
    if isinstance(value, str):
        value = parse_timestamp(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    micros = (in_utc(value) - _EPOCH) // _MICROSECOND
    rest = 0
    if type_.unit == "ns":
        # Python's years reach further than 64 bits of nanoseconds.
        if not -(2**63) <= micros * 1000 < 2**63:
            return BELOW_ALL if micros < 0 else ABOVE_ALL
    else:
        rest = micros % _MICROS_PER[type_.unit]
    moment = _EPOCH + (micros - rest) * _MICROSECOND
    return Place(
        Position.AFTER if rest else Position.AT, moment if type_.tz is not None else moment.replace(tzinfo=None)
    )


def _in_times(value: Value, type_: pa.DataType) -> Place | None:
    if isinstance(value, str):
        value = parse_time(value)
    if not isinstance(value, time):
        return None
    rest = value.microsecond % _MICROS_PER.get(type_.unit, 1)
    return Place(Position.AFTER if rest else Position.AT, value.replace(microsecond=value.microsecond - rest))
