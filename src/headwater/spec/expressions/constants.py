"""Constants of filter text: numbers with Spark's suffixes, typed literals, and CAST of a constant."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import date, datetime, time, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from headwater.errors import InvalidExpression
from headwater.spec.expressions.nodes import Value
from headwater.spec.expressions.temporal import parse_date, parse_time, parse_timestamp

_NUMBER = re.compile(r"(-?)([0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?(BD|[LSYDF])?\Z", re.IGNORECASE)
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,300}\s*\Z")
_REAL = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*\Z")
_NOT_FINITE = re.compile(r"\s*([+-]?)(nan|inf|infinity)\s*\Z", re.IGNORECASE)
_LONGEST_NUMBER = 400

_TYPES = {
    "BOOLEAN": "boolean",
    "BYTE": "tinyint",
    "TINYINT": "tinyint",
    "SHORT": "smallint",
    "SMALLINT": "smallint",
    "INT": "int",
    "INTEGER": "int",
    "LONG": "bigint",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "REAL": "float",
    "DOUBLE": "double",
    "DECIMAL": "decimal",
    "DEC": "decimal",
    "NUMERIC": "decimal",
    "STRING": "string",
    "VARCHAR": "string",
    "CHAR": "string",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
    "BINARY": "binary",
}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
TRUE_WORDS = frozenset(("t", "true", "y", "yes", "1"))
FALSE_WORDS = frozenset(("f", "false", "n", "no", "0"))


def type_of_name(name: str) -> str | None:
    """The type that a name such as LONG or bigint means in SQL, or None.

    >>> type_of_name("Long"), type_of_name("uuid")
    ('bigint', None)
    """
    return _TYPES.get(name.upper())


def number_constant(text: str) -> Value:
    """The value of a number as Spark types it: 5 an integer, 2.5 and 5BD exact, 1e3 and 5D floating.

    >>> number_constant("5L"), number_constant("2.5"), number_constant("1e3"), number_constant("7BD")
    (5, Decimal('2.5'), 1000.0, Decimal('7'))
    """
    match = _NUMBER.match(text)
    if match is None:
        raise InvalidExpression(f"{text!r} is no number (suffixes are L, S, Y for integers and D, F, BD)")
    if len(text) > _LONGEST_NUMBER:
        raise InvalidExpression(f"a number of {len(text)} characters is longer than any column can hold")
    fraction, exponent, suffix = match.group(3), match.group(4), (match.group(5) or "").upper()
    digits = text[: len(text) - len(suffix)]
    if suffix in ("L", "S", "Y"):
        if fraction is not None or exponent is not None:
            raise InvalidExpression(f"{text!r} is no integer, as its suffix {suffix} says")
        return cast_constant(int(digits), {"L": "bigint", "S": "smallint", "Y": "tinyint"}[suffix])
    if suffix == "BD" or (suffix == "" and fraction is not None and exponent is None):
        return _decimal(digits)
    if suffix in ("D", "F") or exponent is not None:
        value = float(digits)
        if math.isinf(value):
            raise InvalidExpression(f"{text} is larger than a DOUBLE can hold")
        return single(value) if suffix == "F" else value
    return int(digits)


def single(value: float) -> float:
    """The nearest number of single precision.

    >>> single(0.1)
    0.10000000149011612
    """
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def integer_of(text: str) -> int | None:
    """The integer that a string says, or None.

    >>> integer_of(" 5 "), integer_of("5.5")
    (5, None)
    """
    return int(text) if _INTEGER.match(text) else None


def real_of(text: str) -> float | None:
    """The floating number that a string says, or None.

    >>> real_of("2.50"), real_of("-Infinity"), real_of("1_0")
    (2.5, -inf, None)
    """
    return float(text) if _REAL.match(text) or _NOT_FINITE.match(text) else None


def decimal_of(text: str) -> Decimal | None:
    """The exact number that a string says, or None.

    >>> decimal_of("2.50"), decimal_of("nan")
    (Decimal('2.50'), None)
    """
    return _decimal(text.strip()) if _REAL.match(text) and len(text) <= _LONGEST_NUMBER else None


def boolean_of(text: str) -> bool | None:
    """The truth value that a string says, or None.

    >>> boolean_of("Yes"), boolean_of("f"), boolean_of("2")
    (True, False, None)
    """
    word = text.strip().lower()
    return True if word in TRUE_WORDS else False if word in FALSE_WORDS else None


def in_utc(moment: datetime) -> datetime:
    """The timestamp with zone UTC, which is also what a timestamp without zone is taken to be in.

    >>> in_utc(datetime(2024, 1, 2)).isoformat()
    '2024-01-02T00:00:00+00:00'
    """
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)


def cast_constant(value: Value, type_: str, precision: int = 10, scale: int = 0) -> Value:
    """A constant as another type (a name of `type_of_name`).

    >>> cast_constant("2024-01-02", "date"), cast_constant("NaN", "double")
    (datetime.date(2024, 1, 2), nan)
    """
    if value is None:
        return None
    converted: Value
    if type_ in _BITS:
        converted = _to_integer(value, _BITS[type_])
    elif type_ == "decimal":
        converted = _to_decimal(value, precision, scale)
    else:
        converted = _CONVERSIONS[type_](value)
    if converted is None:
        raise InvalidExpression(f"{value!r} is no {type_.upper()} value")
    return converted


def _to_integer(value: Value, bits: int) -> int | None:
    whole: int | None = None
    if isinstance(value, str):
        whole = integer_of(value)
    elif isinstance(value, int | Decimal) or (isinstance(value, float) and math.isfinite(value)):
        whole = int(value)
    return whole if whole is not None and -(1 << bits - 1) <= whole < 1 << bits - 1 else None


def _to_decimal(value: Value, precision: int, scale: int) -> Decimal | None:
    if not 0 <= scale <= precision <= 38:
        raise InvalidExpression(f"there is no type DECIMAL({precision}, {scale})")
    exact: Decimal | None = None
    if isinstance(value, str):
        exact = decimal_of(value)
    elif isinstance(value, int | Decimal):
        exact = Decimal(value)
    elif isinstance(value, float) and math.isfinite(value):
        exact = Decimal(repr(value))
    if exact is None:
        return None
    try:
        return exact.quantize(Decimal((0, (1,), -scale)), context=Context(prec=precision, rounding=ROUND_HALF_UP))
    except InvalidOperation:
        return None


def _to_double(value: Value) -> float | None:
    if isinstance(value, str):
        return real_of(value)
    try:
        return float(value) if isinstance(value, int | float | Decimal) else None
    except OverflowError:
        return None


def _to_float(value: Value) -> float | None:
    double = _to_double(value)
    return None if double is None else single(double)


def _to_boolean(value: Value) -> bool | None:
    if isinstance(value, str):
        return boolean_of(value)
    return bool(value) if isinstance(value, int | float | Decimal) else None


def _to_string(value: Value) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime | float | bytes | time):
        return None
    return str(value)


def _to_date(value: Value) -> date | None:
    if isinstance(value, str):
        return parse_date(value)
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else None


def _to_timestamp(value: Value) -> datetime | None:
    if isinstance(value, str):
        value = parse_timestamp(value)
    if isinstance(value, datetime):
        return in_utc(value)
    return datetime(value.year, value.month, value.day, tzinfo=timezone.utc) if isinstance(value, date) else None


def _to_timestamp_ntz(value: Value) -> datetime | None:
    moment = _to_timestamp(value)
    return None if moment is None else moment.replace(tzinfo=None)


def _to_binary(value: Value) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else None


def _hexadecimal(text: str) -> bytes | None:
    if not re.fullmatch(r"[0-9A-Fa-f]*", text):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if abs(value.adjusted()) > _LONGEST_NUMBER:
        raise InvalidExpression(f"{text} has more digits than any column can hold")
    return value


_CONVERSIONS: dict[str, Callable[[Value], Value]] = {
    "boolean": _to_boolean,
    "float": _to_float,
    "double": _to_double,
    "string": _to_string,
    "date": _to_date,
    "timestamp": _to_timestamp,
    "timestamp_ntz": _to_timestamp_ntz,
    "binary": _to_binary,
}

CONSTRUCTORS: dict[str, Callable[[str], Value]] = {
    "DATE": parse_date,
    "TIMESTAMP": _to_timestamp,
    "TIMESTAMP_LTZ": _to_timestamp,
    "TIMESTAMP_NTZ": _to_timestamp_ntz,
    "TIME": parse_time,
    "X": _hexadecimal,
}
"""What a word before a string makes of it: `DATE '2024-01-02'`."""
