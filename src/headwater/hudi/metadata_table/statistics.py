"""Statistics of a column as the index keeps them: which wrapper, which value type (facts 8.3).

Version 9 says with each value what it means; before, only the wrapper does, and the table's schema.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.hudi.metadata_table.encoding import wrapped
from headwater.hudi.metadata_table.values import ValueType
from headwater.hudi.write.model import ColumnRange

_DAY_ONE = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
# What the wrapper of decimals before version 9 holds.
_LEGACY_PRECISION, _LEGACY_SCALE = 30, 15


def statistics_content(
    column: ColumnRange, kind: pa.DataType, name: str, version: int, *, tight: bool = False
) -> dict[str, Any] | None:
    """What the index keeps of a column of the file or partition `name`; None where it cannot keep all that is known.

    A column whose values have no bounds is left out: readers would take the missing bounds for no values.

    >>> column = ColumnRange("x", 1, 5, null_count=0, value_count=9)
    >>> statistics_content(column, pa.int32(), "a.parquet", 9)["maxValue"]
    ('org.apache.hudi.avro.model.IntWrapper', {'value': 5})
    >>> statistics_content(ColumnRange("x", None, None, 0, 9), pa.list_(pa.int32()), "a.parquet", 9) is None
    True
    """
    form = _form(kind, version)
    if form is None or ((column.minimum is None or column.maximum is None) and column.null_count < column.value_count):
        return None
    wrapper, ordinal, info = form
    bounds: list[Any] = []
    for value in (column.minimum, column.maximum):
        raw = None if value is None else _raw(value, kind, version)
        if value is not None and raw is None:
            return None
        bounds.append(None if raw is None else wrapped(wrapper, raw))
    content: dict[str, Any] = {
        "fileName": name,
        "columnName": column.column,
        "minValue": bounds[0],
        "maxValue": bounds[1],
        "valueCount": column.value_count,
        "nullCount": column.null_count,
        "totalSize": column.size,
        "totalUncompressedSize": column.uncompressed_size,
        "isDeleted": False,
        "isTightBound": tight,
    }
    if version >= 9:
        content["valueType"] = {"typeOrdinal": int(ordinal), "additionalInfo": info}
    return content


def deleted_content(column: str, name: str, version: int) -> Mapping[str, Any]:
    """What the index keeps of a column of a file that is gone."""
    zero = dict.fromkeys(("valueCount", "nullCount", "totalSize", "totalUncompressedSize"), 0)
    content: dict[str, Any] = {"fileName": name, "columnName": column, "minValue": None, "maxValue": None, **zero}
    content.update(isDeleted=True, isTightBound=False)
    if version >= 9:
        content["valueType"] = None
    return content


def _form(kind: pa.DataType, version: int) -> tuple[str, ValueType, str | None] | None:
    """Wrapper, value type and what belongs to it."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_decimal(kind):
        if version >= 9:
            return "BytesWrapper", ValueType.DECIMAL, f"{kind.precision},{kind.scale}"
        return "DecimalWrapper", ValueType.V1, None
    if types.is_timestamp(kind):
        return None if (ordinal := _timestamp_type(kind)) is None else ("LongWrapper", ordinal, None)
    if types.is_date32(kind):
        return ("IntWrapper" if version >= 9 else "DateWrapper"), ValueType.DATE, None
    if types.is_time(kind) and version < 9:
        return None
    return _PLAIN.get(str(kind))


_PLAIN: dict[str, tuple[str, ValueType, str | None]] = {
    "bool": ("BooleanWrapper", ValueType.BOOLEAN, None),
    "int8": ("IntWrapper", ValueType.INT, None),
    "int16": ("IntWrapper", ValueType.INT, None),
    "int32": ("IntWrapper", ValueType.INT, None),
    "int64": ("LongWrapper", ValueType.LONG, None),
    "float": ("FloatWrapper", ValueType.FLOAT, None),
    "double": ("DoubleWrapper", ValueType.DOUBLE, None),
    "string": ("StringWrapper", ValueType.STRING, None),
    "large_string": ("StringWrapper", ValueType.STRING, None),
    "binary": ("BytesWrapper", ValueType.BYTES, None),
    "large_binary": ("BytesWrapper", ValueType.BYTES, None),
    "time32[ms]": ("IntWrapper", ValueType.TIME_MILLIS, None),
    "time64[us]": ("LongWrapper", ValueType.TIME_MICROS, None),
}


def _timestamp_type(kind: pa.TimestampType) -> ValueType | None:
    local = kind.tz is None
    if kind.unit == "ms":
        return ValueType.LOCAL_TIMESTAMP_MILLIS if local else ValueType.TIMESTAMP_MILLIS
    if kind.unit == "us":
        return ValueType.LOCAL_TIMESTAMP_MICROS if local else ValueType.TIMESTAMP_MICROS
    return None


def _raw(value: Any, kind: pa.DataType, version: int) -> Any:
    """A bound as its wrapper holds it; None where it does not fit there."""
    if isinstance(value, Decimal):
        scale = kind.scale if version >= 9 else _LEGACY_SCALE
        unscaled = value.scaleb(scale)
        number = int(unscaled)
        if number != unscaled or (version < 9 and abs(number) >= 10**_LEGACY_PRECISION):
            return None
        return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
    if isinstance(value, datetime.datetime):
        plain = value.astimezone(datetime.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        micros = (plain - _EPOCH) // _MICROSECOND
        return micros if kind.unit == "us" else micros // 1000
    if isinstance(value, datetime.date):
        return (value - _DAY_ONE).days
    if isinstance(value, datetime.time):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        return micros if kind.unit == "us" else micros // 1000
    if pa.types.is_floating(kind) and isinstance(value, int):
        return float(value)
    if isinstance(value, bytes) and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return value
