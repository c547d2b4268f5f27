"""The values of column statistics: what a wrapped number, string or byte array means (format facts 8.3)."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from typing import TypeAlias

StatValue: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | Decimal
    | datetime.date
    | datetime.time
    | datetime.datetime
    | tuple["StatValue", ...]
    | None
)


class ValueType(IntEnum):
    """Hudi's value types, by ordinal; V1 and absent: the wrapper alone says what the value is."""

    V1 = 0
    NULL = 1
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    UUID = 11
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


# The scale that the legacy DecimalWrapper blows every decimal up to.
_LEGACY_SCALE = 15
_DAY = 86_400_000_000
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_MICROS = -62_135_596_800_000_000
_LAST_MICROS = 253_402_300_799_999_999


def stat_value(
    raw: bool | int | float | str | bytes, wrapper: str, ordinal: int | None, info: str | None, *, upper: bool = False
) -> StatValue:
    """The Python value of a wrapped bound.

    Nanoseconds are rounded away from the range (down, or up for an `upper` bound); times that Python cannot hold
    become the first or last one that it can: a range never gets narrower.

    >>> stat_value(19743, "IntWrapper", ValueType.DATE, None), stat_value(19743, "DateWrapper", None, None)
    (datetime.date(2024, 1, 21), datetime.date(2024, 1, 21))
    >>> stat_value(b"\\x04\\xd2", "BytesWrapper", ValueType.DECIMAL, "10,2")
    Decimal('12.34')
    """
    if ordinal is None or ordinal == ValueType.V1:
        return _legacy(raw, wrapper)
    if ordinal == ValueType.DECIMAL and isinstance(raw, bytes):
        return decimal_of(raw, int((info or "0,0").split(",")[1]))
    convert = _CONVERSIONS.get(ordinal)
    if convert is None or not isinstance(raw, int):
        return raw
    return convert(raw, upper)


def is_ordered_alike(value: StatValue) -> bool:
    """Whether Java orders a bound among others as SQL does; what Hudi united by another order may leave values out.

    Bytes are signed there, and Hudi unites ranges so that Parquet found by unsigned ones. Text goes by its UTF-16
    units, in which characters beyond 16 bits come before U+E000.

    >>> is_ordered_alike("Zürich"), is_ordered_alike("\U0001f600"), is_ordered_alike(b"a")
    (True, False, False)
    """
    if isinstance(value, bytes):
        return False
    return not isinstance(value, str) or not value or max(value) < "\ud800"


def decimal_of(raw: bytes, scale: int) -> Decimal:
    """A decimal from its unscaled big-endian two's complement.

    >>> decimal_of(b"\\xff", 1)
    Decimal('-0.1')
    """
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale)


def date_of(days: int) -> datetime.date:
    """A date from days since 1970, kept within what Python can hold."""
    return _datetime(days * _DAY).date()


def _datetime(micros: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=min(max(micros, _FIRST_MICROS), _LAST_MICROS))


def _time(micros: int) -> datetime.time:
    return _datetime(min(max(micros, 0), _DAY - 1)).time()


def _micros(nanos: int, upper: bool) -> int:
    return -(-nanos // 1000) if upper else nanos // 1000


def _aware(micros: int) -> datetime.datetime:
    return _datetime(micros).replace(tzinfo=datetime.timezone.utc)


_CONVERSIONS: dict[int, Callable[[int, bool], StatValue]] = {
    ValueType.DATE: lambda raw, upper: date_of(raw),
    ValueType.TIME_MILLIS: lambda raw, upper: _time(raw * 1000),
    ValueType.TIME_MICROS: lambda raw, upper: _time(raw),
    ValueType.TIMESTAMP_MILLIS: lambda raw, upper: _aware(raw * 1000),
    ValueType.TIMESTAMP_MICROS: lambda raw, upper: _aware(raw),
    ValueType.TIMESTAMP_NANOS: lambda raw, upper: _aware(_micros(raw, upper)),
    ValueType.LOCAL_TIMESTAMP_MILLIS: lambda raw, upper: _datetime(raw * 1000),
    ValueType.LOCAL_TIMESTAMP_MICROS: lambda raw, upper: _datetime(raw),
    ValueType.LOCAL_TIMESTAMP_NANOS: lambda raw, upper: _datetime(_micros(raw, upper)),
}


def _legacy(raw: bool | int | float | str | bytes, wrapper: str) -> StatValue:
    if isinstance(raw, bytes):
        return decimal_of(raw, _LEGACY_SCALE) if wrapper == "DecimalWrapper" else raw
    if isinstance(raw, int):
        if wrapper in ("DateWrapper", "LocalDateWrapper"):
            return date_of(raw)
        if wrapper == "TimestampMicrosWrapper":
            return _aware(raw)
        if wrapper == "TimeMicrosWrapper":
            return _time(raw)
    return raw
