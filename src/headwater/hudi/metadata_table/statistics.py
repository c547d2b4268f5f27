"""Statistics of a column as the index keeps them: which wrapper, which value type (facts 8.3).

Version 9 says with each value what it means; before, only the wrapper does, and the table's schema.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def kept_columns(schema: pa.Schema, columns: Sequence[str] | None, version: int) -> dict[str, pa.DataType]:
    """The columns that the index keeps statistics of, with their types; fields of structs have their path as name.

    `columns` are those that the index is defined for; None stands for all.

    >>> schema = pa.schema([("a", pa.int32()), ("s", pa.struct([("b", pa.string())])), ("l", pa.list_(pa.int8()))])
    >>> kept_columns(schema, None, 9)
    {'a': DataType(int32), 's.b': DataType(string)}
    """
    leaves = dict(_leaves(schema, ""))
    wanted = leaves if columns is None else [name for name in columns if name in leaves]
    return {name: leaves[name] for name in wanted if _form(leaves[name], version) is not None}


def _leaves(fields: Iterable[pa.Field], above: str) -> Iterator[tuple[str, pa.DataType]]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, f"{above}{field.name}.")
        elif not pa.types.is_nested(field.type):
            yield f"{above}{field.name}", field.type


def statistics_content(
    column: ColumnRange, kind: pa.DataType, name: str, version: int, *, of_partition: bool = False
) -> dict[str, Any] | None:
    """What the index keeps of a column of the file or partition `name`; None where it cannot keep all that is known.

    Hudi's readers take missing bounds for no values, and a bound of NaN for no bound that anything exceeds. A file with
    such a column gets no statistics at all; a partition gets bounds that hold all values of the type.

    >>> column = ColumnRange("x", 1, 5, null_count=0, value_count=9)
    >>> statistics_content(column, pa.int32(), "a.parquet", 9)["maxValue"]
    ('org.apache.hudi.avro.model.IntWrapper', {'value': 5})
    >>> nothing_known = ColumnRange("x", None, None, 0, 9)
    >>> statistics_content(nothing_known, pa.int32(), "a.parquet", 9) is None
    True
    >>> statistics_content(nothing_known, pa.int32(), "p", 9, of_partition=True)["maxValue"][1]
    {'value': 2147483647}
    """
    form = _form(kind, version)
    assert form is not None, "only for columns of kept_columns"
    wrapper, ordinal, info = form
    low: Any = None
    high: Any = None
    if column.null_count < column.value_count:
        low = None if column.minimum is None else _raw(column.minimum, kind, version)
        high = None if column.maximum is None else _raw(column.maximum, kind, version)
        unclear = low is None or high is None or low != low or high != high
        if unclear and not of_partition:
            return None
        if unclear:
            low, high = _widest(kind, version)
    content: dict[str, Any] = {
        "fileName": name,
        "columnName": column.column,
        "minValue": None if low is None else wrapped(wrapper, low),
        "maxValue": None if high is None else wrapped(wrapper, high),
        "valueCount": column.value_count,
        "nullCount": column.null_count,
        "totalSize": column.size,
        "totalUncompressedSize": column.uncompressed_size,
        "isDeleted": False,
        "isTightBound": of_partition,
    }
    if version >= 9:
        content["valueType"] = {"typeOrdinal": int(ordinal), "additionalInfo": info}
    return content


def _widest(kind: pa.DataType, version: int) -> tuple[Any, Any]:
    """Bounds that hold every value of a type, or every one that is met with."""
    types = pa.types
    if types.is_decimal(kind):
        greatest = Decimal(10**kind.precision - 1).scaleb(-kind.scale)
        low, high = _raw(-greatest, kind, version), _raw(greatest, kind, version)
        if low is None or high is None:
            legacy = Decimal(10**_LEGACY_PRECISION - 1).scaleb(-_LEGACY_SCALE)
            low, high = _raw(-legacy, kind, version), _raw(legacy, kind, version)
        return low, high
    if types.is_boolean(kind):
        return False, True
    if types.is_floating(kind):
        return -math.inf, math.inf
    if types.is_integer(kind):
        bits = max(kind.bit_width, 32)
        return -(1 << bits - 1), (1 << bits - 1) - 1
    ends: tuple[Any, Any]
    if types.is_timestamp(kind):
        ends = datetime.datetime.min, datetime.datetime.max
    elif types.is_date(kind):
        ends = datetime.date.min, datetime.date.max
    elif types.is_time(kind):
        ends = datetime.time.min, datetime.time.max
    elif types.is_string(kind) or types.is_large_string(kind):
        ends = "", "\U0010ffff" * 16
    else:
        ends = b"", b"\xff" * 64
    return _raw(ends[0], kind, version), _raw(ends[1], kind, version)


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
    if types.is_fixed_size_binary(kind):
        return "BytesWrapper", ValueType.FIXED, None
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
        if not pa.types.is_decimal(kind):
            return None
        scale = kind.scale if version >= 9 else _LEGACY_SCALE
        unscaled = value.scaleb(scale)
        number = int(unscaled)
        if number != unscaled or (version < 9 and abs(number) >= 10**_LEGACY_PRECISION):
            return None
        return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
    if isinstance(value, datetime.datetime):
        if not pa.types.is_timestamp(kind):
            return None
        plain = value.astimezone(datetime.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        micros = (plain - _EPOCH) // _MICROSECOND
        return micros if kind.unit == "us" else micros // 1000
    if isinstance(value, datetime.date):
        return None if not pa.types.is_date(kind) else (value - _DAY_ONE).days
    if isinstance(value, datetime.time):
        if not pa.types.is_time(kind):
            return None
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        return micros if kind.unit == "us" else micros // 1000
    if isinstance(value, bytes) and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    # A column may have had another type when the file was written, whose values have another order.
    return value if isinstance(value, _python_type(kind)) and isinstance(value, bool) == (kind == pa.bool_()) else None


def _python_type(kind: pa.DataType) -> type | tuple[type, ...]:
    types = pa.types
    if types.is_floating(kind):
        return (float, int)
    if types.is_integer(kind) or types.is_boolean(kind):
        return int
    return str if types.is_string(kind) or types.is_large_string(kind) else bytes
