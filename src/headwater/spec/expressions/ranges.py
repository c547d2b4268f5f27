"""The values that a column may hold, from its statistics, in keys that compare whatever types they came from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.spec.expressions.constants import in_utc, single
from headwater.spec.expressions.nodes import BoundColumn
from headwater.spec.expressions.types import NUMERIC, Kind, compared_type, kind_of, plain_type
from headwater.spec.statistics import ColumnStatistics


@dataclass(frozen=True, slots=True)
class Range:
    """What may be among a column's rows: NULL, NaN, and other values from `low` to `high` (None: no bound known)."""

    low: Any = None
    high: Any = None
    nulls: bool = True
    values: bool = True
    nan: bool = True

    @property
    def present(self) -> bool:
        """Whether there may be anything but NULL."""
        return self.values or self.nan


UNKNOWN_RANGE = Range()
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_DOUBLE_SLACK = 1e-15
"""How far two ways of rounding a number to double may lie apart."""


def range_of(column: BoundColumn, statistics: ColumnStatistics) -> Range:
    """The range of a column's values as they are compared.

    >>> range_of(BoundColumn(("x",), pa.int64()), ColumnStatistics(1, 5, null_count=0))
    Range(low=1, high=5, nulls=False, values=True, nan=False)
    """
    if statistics.all_null:
        return Range(nulls=bool(statistics.null_count), values=False, nan=False)
    source, target = kind_of(column.type), kind_of(compared_type(column))
    read_from_text = source is Kind.STRING and target not in (Kind.STRING, Kind.BINARY)
    low = _bound(column, statistics.minimum, upper=False)
    high = _bound(column, statistics.maximum, upper=True)
    if low is not None and high is not None and not _in_order(low, high):
        low = high = None
    nan = target is Kind.FLOAT and (read_from_text or (source is Kind.FLOAT and statistics.may_have_nan))
    return Range(low, high, nulls=statistics.null_count != 0 or read_from_text, nan=nan)


def point_of(column: BoundColumn, value: Any) -> Range:
    """The range of a column that holds one known value; unbounded where only a cast could tell.

    >>> point_of(BoundColumn(("x",), pa.int64()), 5)
    Range(low=5, high=5, nulls=False, values=True, nan=False)
    """
    if value is None:
        return Range(nulls=True, values=False, nan=False)
    if column.cast is not None:
        return UNKNOWN_RANGE
    kind = kind_of(column.type)
    if kind is Kind.FLOAT and isinstance(value, float) and math.isnan(value):
        return Range(nulls=False, values=False, nan=True)
    key = _key(kind, value)
    if kind is Kind.FLOAT and key is not None and not pa.types.is_float64(plain_type(column.type)):
        key = single(key)
    return UNKNOWN_RANGE if key is None else Range(key, key, nulls=False, nan=False)


def literal_key(value: Any) -> Any:
    """A bound constant as a key.

    >>> literal_key(datetime(1970, 1, 1, 0, 0, 1)), literal_key("a")
    (1000000, 'a')
    """
    return (in_utc(value) - _EPOCH) // _MICROSECOND if isinstance(value, datetime) else value


def _bound(column: BoundColumn, value: Any, *, upper: bool) -> Any:
    """A bound as a key no tighter than the values that readers of this column see, or None."""
    if value is None:
        return None
    kind = kind_of(column.type)
    key = _key(kind, value)
    if key is None:
        return None
    if column.cast is not None:
        key = _cast_key(key, kind, kind_of(column.cast), upper=upper)
    plain = plain_type(column.type)
    if kind is Kind.FLOAT and key is not None and not pa.types.is_float64(plain):
        # The bound may have been rounded to single precision, or not.
        return max(key, single(key)) if upper else min(key, single(key))
    if kind is Kind.TIMESTAMP and upper and key is not None and plain.unit == "ns":
        return key + 1  # Python's datetime has cut nanoseconds off
    return key


def _key(kind: Kind, value: Any) -> Any:
    """A value of statistics as a key of its column's kind, or None when it is of another."""
    if kind is Kind.INTEGER:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if kind is Kind.DECIMAL:
        finite = isinstance(value, Decimal) and value.is_finite()
        return value if finite or (isinstance(value, int) and not isinstance(value, bool)) else None
    if kind is Kind.FLOAT:
        return _double(value)
    if kind is Kind.TIMESTAMP:
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        return _micros(value) if isinstance(value, datetime) else None
    if kind is Kind.DATE:
        return value if isinstance(value, date) and not isinstance(value, datetime) else None
    expected = _PYTHON_TYPES.get(kind)
    return value if expected is not None and isinstance(value, expected) else None


_PYTHON_TYPES: dict[Kind, type] = {Kind.STRING: str, Kind.BINARY: bytes, Kind.BOOLEAN: bool, Kind.TIME: time}


def _cast_key(key: Any, source: Kind, target: Kind, *, upper: bool) -> Any:
    """The key after a cast that keeps the order of values, or None."""
    if source in NUMERIC and target is Kind.FLOAT:
        double = _double(key)
        slack = 0.0 if double is None or source is Kind.FLOAT else abs(double) * _DOUBLE_SLACK
        return None if double is None else double + slack if upper else double - slack
    if source is target or (source in NUMERIC and target in NUMERIC):
        return key
    if source is Kind.TIMESTAMP and target is Kind.DECIMAL:
        return key
    if source is Kind.DATE and target in (Kind.TIMESTAMP, Kind.DECIMAL):
        return literal_key(datetime(key.year, key.month, key.day))
    if source is Kind.STRING and target is Kind.BINARY:
        return key.encode("utf-8", "surrogatepass")
    return None


def _double(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        double = float(value)
    except (OverflowError, ValueError):
        return None
    return None if math.isnan(double) else double


def _micros(value: datetime) -> int | None:
    try:
        plain = datetime(
            value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond, value.tzinfo
        )
        return (in_utc(plain) - _EPOCH) // _MICROSECOND
    except (OverflowError, ValueError):
        return None


def _in_order(low: Any, high: Any) -> bool:
    try:
        return bool(low <= high)
    except TypeError:
        return False
