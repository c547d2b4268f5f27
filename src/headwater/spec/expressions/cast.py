"""Whole columns cast for comparison as Spark casts them: text that says no value of the type becomes NULL."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headwater.spec.expressions.constants import FALSE_WORDS, TRUE_WORDS
from headwater.spec.expressions.types import Kind, kind_of, plain_type

Values: TypeAlias = "pa.Array | pa.ChunkedArray"

_SPACE = " \t\n\r\v\f"
_INTEGER = r"^(?P<sign>[+-]?)0*(?P<digits>[0-9]*)(?:\.[0-9]*)?$"
_REAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE = r"^[+-]?(nan|inf|infinity)$"
_LONGEST_LONG = "9223372036854775807"
_DATE = r"^(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T].*)?)?)?$"
_TIMESTAMP = (
    r"^(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
    r"(?:[ T](?:(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{0,9}))?)?"
    r"\s*(?:Z|UTC|GMT|(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?)?)?)?)?)?$"
)
_NANOS_PER = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def decode(values: Values) -> Values:
    """The values without dictionary, view or other special encoding.

    >>> decode(pa.array(["a", "b", "a"]).dictionary_encode()).type
    DataType(string)
    """
    if isinstance(values.type, pa.BaseExtensionType):
        values = (
            pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
            if isinstance(values, pa.ChunkedArray)
            else values.storage
        )
        return decode(values)
    if pa.types.is_run_end_encoded(values.type):
        return decode(pc.run_end_decode(values))
    plain = plain_type(values.type)
    return values if values.type.equals(plain) else values.cast(plain)


def cast_values(values: Values, type_: pa.DataType) -> Values:
    """Decoded values as another type.

    >>> cast_values(pa.array(["5", "5.9", "five", None]), pa.int64()).to_pylist()
    [5, 5, None, None]
    """
    source, target = kind_of(values.type), kind_of(type_)
    if values.type.equals(type_):
        return values
    if source is Kind.STRING and target is not Kind.STRING:
        return _from_text(values, type_, target)
    if source in (Kind.DATE, Kind.TIMESTAMP) and target is Kind.DECIMAL:
        return _nanoseconds(values.cast(pa.timestamp("s")) if source is Kind.DATE else values)
    if source is Kind.FLOAT and target is Kind.FLOAT:
        return values.cast(type_, safe=False)
    # Integers past 2^53 and long decimals round as doubles; that is what Spark compares.
    return values.cast(type_, safe=target is not Kind.FLOAT)


def _from_text(values: Values, type_: pa.DataType, kind: Kind) -> Values:
    if kind is Kind.BINARY:
        return values.cast(type_)
    text = pc.utf8_trim(values.cast(pa.large_string()), characters=_SPACE)
    if kind is Kind.INTEGER:
        return _integers(text)
    if kind is Kind.FLOAT:
        return _reals(text)
    if kind is Kind.BOOLEAN:
        return _booleans(text)
    if kind is Kind.DATE:
        return _days(pc.extract_regex(text, pattern=_DATE)).cast(pa.date32())
    return _nanoseconds(_timestamps(text)) if kind is Kind.DECIMAL else _timestamps(text)


def _where(condition: Values, values: Values) -> Values:
    """The values where the condition is true, NULL elsewhere."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _text(constant: str) -> pa.Scalar:
    return pa.scalar(constant, pa.large_string())


def _integers(text: Values) -> Values:
    parts = pc.extract_regex(text, pattern=_INTEGER)
    sign, digits = pc.struct_field(parts, "sign"), pc.struct_field(parts, "digits")
    some_digit = pc.match_substring_regex(text, "[0-9]")
    length = pc.utf8_length(digits)
    negative = pc.equal(sign, "-")
    longest = pc.if_else(negative, _text(_LONGEST_LONG[:-1] + "8"), _text(_LONGEST_LONG))
    fits = pc.or_kleene(pc.less(length, 19), pc.and_kleene(pc.equal(length, 19), pc.less_equal(digits, longest)))
    digits = pc.if_else(pc.equal(length, 0), _text("0"), digits)
    signed = pc.binary_join_element_wise(pc.if_else(negative, _text("-"), _text("")), digits, _text(""))
    return _where(pc.and_kleene(some_digit, fits), signed).cast(pa.int64())


def _reals(text: Values) -> Values:
    special = pc.match_substring_regex(text, _NOT_FINITE, ignore_case=True)
    readable = pc.or_kleene(special, pc.match_substring_regex(text, _REAL))
    # Arrow reads no leading plus, and no sign before nan.
    plain = pc.replace_substring_regex(text, r"^\+|^-(?i:(nan))", r"\1")
    return _where(readable, plain).cast(pa.float64())


def _booleans(text: Values) -> Values:
    word = pc.utf8_lower(text)
    true = pc.is_in(word, value_set=pa.array(sorted(TRUE_WORDS), pa.large_string()))
    false = pc.is_in(word, value_set=pa.array(sorted(FALSE_WORDS), pa.large_string()))
    return _where(pc.or_(true, false), true)


def _days(parts: Values) -> Values:
    """Midnight of the day that year, month and day say, NULL when there is no such day."""
    month, day = (_two_digits(parts, name, "01") for name in ("month", "day"))
    text = pc.binary_join_element_wise(pc.struct_field(parts, "year"), month, day, _text("-"))
    moment = pc.strptime(text, format="%Y-%m-%d", unit="s", error_is_null=True)
    # strptime makes 2 March of 31 February.
    return _where(pc.equal(pc.strftime(moment, format="%Y-%m-%d").cast(pa.large_string()), text), moment)


def _timestamps(text: Values) -> Values:
    parts = pc.extract_regex(text, pattern=_TIMESTAMP)

    def number(name: str) -> Values:
        return _two_digits(parts, name, "00").cast(pa.int64())

    hour, minute, second = number("hour"), number("minute"), number("second")
    valid = pc.and_kleene(pc.and_kleene(pc.less(hour, 24), pc.less(minute, 60)), pc.less(second, 60))
    fraction = pc.utf8_slice_codeunits(pc.struct_field(parts, "fraction"), 0, 6)
    micros = pc.utf8_rpad(fraction, 6, padding="0").cast(pa.int64())
    offset = pc.add(pc.multiply(number("hours"), 3600), pc.multiply(number("minutes"), 60))
    offset = pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-"), pc.negate(offset), offset)
    seconds = pc.add(pc.multiply(pc.add(pc.multiply(hour, 60), minute), 60), second)
    seconds = pc.subtract(pc.add(_days(parts).cast(pa.int64()), seconds), offset)
    total = pc.add(pc.multiply(seconds, 1_000_000), micros)
    return _where(valid, total).cast(pa.timestamp("us"))


def _two_digits(parts: Values, name: str, missing: str) -> Values:
    text = pc.struct_field(parts, name)
    return pc.utf8_lpad(pc.if_else(pc.equal(text, ""), _text(missing), text), 2, padding="0")


def _nanoseconds(stamps: Values) -> Values:
    """A count that no year overflows."""
    count = stamps.cast(pa.int64()).cast(pa.decimal128(19, 0))
    factor = pa.scalar(Decimal(_NANOS_PER[stamps.type.unit]), pa.decimal128(10, 0))
    return pc.multiply(count, factor).cast(pa.decimal128(38, 0))
