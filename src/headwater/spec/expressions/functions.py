"""Functions of a column in filters: those that give what Spark gives for every value, with all times in UTC.

Each was compared with Spark on odd values (`tests/data/written/functions.json`). What engines do not agree on, as
regular expressions and texts parsed by a pattern, is not among them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidExpression
from headwater.spec.expressions.cast import Values, cast_values
from headwater.spec.expressions.types import Kind, kind_of

Argument: TypeAlias = str | int
_Longs: TypeAlias = npt.NDArray[np.int64]

_TEXT, _TIME, _WHOLE = frozenset((Kind.STRING,)), frozenset((Kind.DATE, Kind.TIMESTAMP)), frozenset((Kind.INTEGER,))
_TIME_OR_TEXT = _TIME | _TEXT
_SECONDS_OF_DAY = 86_400
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MICROS = 1_000_000
_PIECE = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<quoted>[^']*)'|(?P<plain>[^A-Za-z'#{}\[\]]+)")
_PARTS = {"yyyy": 0, "MM": 1, "dd": 2, "HH": 3, "mm": 4, "ss": 5}
USUAL_FORMAT = "yyyy-MM-dd HH:mm:ss"


@dataclass(frozen=True, slots=True)
class _Function:
    """What a function takes and gives; `least` arguments behind the column and no more than `parameters`."""

    takes: frozenset[Kind]
    gives: pa.DataType
    compute: Callable[..., Values]
    parameters: tuple[type, ...] = ()
    least: int = 0


def result_type(function: str, arguments: tuple[Argument, ...], type_: pa.DataType, where: str) -> pa.DataType:
    """The type of a function's result on a column of a type; an error where it does not take such.

    >>> result_type("year", (), pa.date32(), "year(day)")
    DataType(int32)
    """
    known = _FUNCTIONS.get(function)
    if known is None:
        raise InvalidExpression(f"no function {function!r} in filters; there are: {', '.join(FUNCTIONS)}")
    if not known.least <= len(arguments) <= len(known.parameters) or not all(
        type(given) is wanted for given, wanted in zip(arguments, known.parameters, strict=False)
    ):
        wanted = ", ".join(("a column", *("a text" if p is str else "a whole number" for p in known.parameters)))
        optional = f", of which the last {n} may be left out" if (n := len(known.parameters) - known.least) else ""
        raise InvalidExpression(f"{where}: {function} takes {wanted}{optional}")
    if kind_of(type_) not in known.takes:
        takes = ", ".join(sorted(kind.value for kind in known.takes))
        raise InvalidExpression(f"{where}: {function} takes columns of type {takes}, and this one is {type_}")
    for argument in arguments if known.parameters[:1] == (str,) else ():
        pieces_of(str(argument), where)
    return known.gives


def compute(function: str, arguments: tuple[Argument, ...], values: Values) -> Values:
    """The function of decoded values.

    >>> compute("date_format", ("yyyy-MM",), pa.array([0], pa.timestamp("s"))).to_pylist()
    ['1970-01']
    """
    return _FUNCTIONS[function].compute(values, *arguments)


def pieces_of(pattern: str, where: str = "") -> tuple[int | str, ...]:
    """A time pattern in pieces: numbers stand for year, month, day, hour, minute and second.

    >>> pieces_of("yyyy-MM")
    (0, '-', 1)
    """
    pieces: list[int | str] = []
    at = 0
    while at < len(pattern):
        match = _PIECE.match(pattern, at)
        letters = None if match is None else match["letters"]
        if match is None or (letters is not None and letters not in _PARTS):
            shown = letters or pattern[at]
            raise InvalidExpression(
                f"{where}: {shown!r} in the pattern {pattern!r} is not known in filters; there are: "
                f"{', '.join(_PARTS)}, other characters, and text in quotes"
            )
        if letters is not None:
            pieces.append(_PARTS[letters])
        else:
            pieces.append((match["plain"] or match["quoted"] or "'") if match["quoted"] != "" else "'")
        at = match.end()
    return tuple(pieces)


def _each(values: Values, change: Callable[[pa.Array], pa.Array], type_: pa.DataType) -> Values:
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([change(chunk) for chunk in values.chunks], type_)
    return change(values)


def _numbers(values: pa.Array) -> tuple[_Longs, npt.NDArray[np.bool_]]:
    """The 64-bit numbers of an array, and where it has none."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    whole = values.cast(pa.int64()) if not pa.types.is_date32(values.type) else values.cast(pa.int32()).cast(pa.int64())
    return pc.fill_null(whole, 0).to_numpy(zero_copy_only=False), missing


def _array(found: npt.NDArray[Any], missing: npt.NDArray[np.bool_], type_: pa.DataType) -> pa.Array:
    return pa.array(found, mask=missing).cast(type_)


@dataclass(frozen=True, slots=True)
class _Moments:
    """Days since 1970 and seconds of the day."""

    days: _Longs
    seconds: _Longs
    missing: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, values: pa.Array) -> _Moments:
        found, missing = _numbers(values)
        if pa.types.is_date(values.type):
            return cls(found, np.zeros_like(found), missing)
        ticks = _TICKS[values.type.unit]
        days = found // (ticks * _SECONDS_OF_DAY)
        return cls(days, (found - days * ticks * _SECONDS_OF_DAY) // ticks, missing)

    def parts(self) -> tuple[_Longs, ...]:
        """Year, month, day, hour, minute and second, in the proleptic Gregorian calendar."""
        # Counted from 1 March of year 0: eras of 400 years, years that end with February, 153 days in 5 months.
        era = (self.days + 719_468) // 146_097
        day_of_era = self.days + 719_468 - era * 146_097
        year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
        day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
        shifted = (5 * day_of_year + 2) // 153
        day = day_of_year - (153 * shifted + 2) // 5 + 1
        month = np.where(shifted < 10, shifted + 3, shifted - 9)
        year = year_of_era + era * 400 + (month <= 2)
        hour, rest = self.seconds // 3_600, self.seconds % 3_600
        return year, month, day, hour, rest // 60, rest % 60


def _as_date(values: Values) -> Values:
    if kind_of(values.type) is Kind.STRING:
        return cast_values(values, pa.date32())
    if kind_of(values.type) is Kind.DATE:
        return values.cast(pa.date32())

    def day(array: pa.Array) -> pa.Array:
        moments = _Moments.of(array)
        return pa.array(moments.days.astype(np.int32), mask=moments.missing).cast(pa.date32())

    return _each(values, day, pa.date32())


def _as_timestamp(values: Values) -> Values:
    return cast_values(values, pa.timestamp("us")) if kind_of(values.type) is Kind.STRING else values


def _part(index: int, prepare: Callable[[Values], Values]) -> Callable[[Values], Values]:
    def compute(values: Values) -> Values:
        def part(array: pa.Array) -> pa.Array:
            moments = _Moments.of(array)
            return _array(moments.parts()[index], moments.missing, pa.int32())

        return _each(prepare(values), part, pa.int32())

    return compute


def _formatted(moments: _Moments, pattern: str) -> pa.Array:
    parts = moments.parts()
    texts: list[Any] = []
    for piece in pieces_of(pattern):
        if isinstance(piece, str):
            texts.append(piece)
        elif piece == 0:
            year = parts[0]
            digits = pc.utf8_lpad(pa.array(np.abs(year)).cast(pa.string()), 4, padding="0")
            # Years of more than four digits have their sign.
            sign = pa.array(np.select([year < 0, year > 9_999], ["-", "+"], ""))
            texts.append(pc.binary_join_element_wise(sign, digits, ""))
        else:
            texts.append(pc.utf8_lpad(pa.array(parts[piece]).cast(pa.string()), 2, padding="0"))
    if not any(isinstance(text, pa.Array) for text in texts):
        texts.append(pa.array([""] * len(moments.days), pa.string()))
    found = pc.binary_join_element_wise(*texts, "")
    return pc.if_else(pa.array(moments.missing), pa.scalar(None, pa.string()), found)


def _date_format(values: Values, pattern: str) -> Values:
    return _each(_as_timestamp(values), lambda array: _formatted(_Moments.of(array), pattern), pa.string())


def _from_unixtime(values: Values, pattern: str = USUAL_FORMAT) -> Values:
    def text(array: pa.Array) -> pa.Array:
        seconds, missing = _numbers(array)
        with np.errstate(over="ignore"):
            micros = seconds * _MICROS  # wraps where Spark's does
        days = micros // (_MICROS * _SECONDS_OF_DAY)
        return _formatted(_Moments(days, (micros - days * _MICROS * _SECONDS_OF_DAY) // _MICROS, missing), pattern)

    return _each(values, text, pa.string())


def _unix_timestamp(values: Values) -> Values:
    def seconds(array: pa.Array) -> pa.Array:
        found, missing = _numbers(array)
        if pa.types.is_date(array.type):
            return _array(found * _SECONDS_OF_DAY, missing, pa.int64())
        ticks = _TICKS[array.type.unit]
        # Spark cuts a fraction off towards 1970.
        return _array(np.sign(found) * (np.abs(found) // ticks), missing, pa.int64())

    return _each(values, seconds, pa.int64())


def _moved(sign: int) -> Callable[[Values, int], Values]:
    def compute(values: Values, days: int) -> Values:
        def move(array: pa.Array) -> pa.Array:
            found, missing = _numbers(array)
            return pa.array((found + sign * days).astype(np.int32), mask=missing).cast(pa.date32())

        return _each(_as_date(values), move, pa.date32())

    return compute


def _cased(change: Callable[[str], str], ascii_only: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """Letters beyond ASCII one text becomes several of, or depend on what is around them, as in Python and Java."""

    def compute(values: Values) -> Values:
        def convert(array: pa.Array) -> pa.Array:
            array = array.cast(pa.string())
            if pc.all(pc.string_is_ascii(array), min_count=0).as_py():
                return ascii_only(array)
            coded = array.dictionary_encode()
            changed = [change(text) for text in coded.dictionary.to_pylist()]
            return pa.array(changed, pa.string()).take(coded.indices)

        return _each(values, convert, pa.string())

    return compute


def _substring(values: Values, position: int, length: int = 2**31 - 1) -> Values:
    """Counted from 1, or from the end when negative, in characters; a start before the text takes of the length."""
    start = position - 1 if position > 0 else position
    stop = start + max(length, 0)
    if length <= 0:
        return pc.utf8_slice_codeunits(values, 0, 0)
    if start < 0 <= stop:
        return pc.utf8_slice_codeunits(values, start)
    return pc.utf8_slice_codeunits(values, start, min(stop, 2**31 - 1))


def _trimmed(kernel: Callable[..., Values]) -> Callable[[Values], Values]:
    return lambda values: kernel(values, characters=" ")


_FUNCTIONS = {
    "year": _Function(_TIME_OR_TEXT, pa.int32(), _part(0, _as_date)),
    "month": _Function(_TIME_OR_TEXT, pa.int32(), _part(1, _as_date)),
    "day": _Function(_TIME_OR_TEXT, pa.int32(), _part(2, _as_date)),
    "dayofmonth": _Function(_TIME_OR_TEXT, pa.int32(), _part(2, _as_date)),
    "hour": _Function(_TIME_OR_TEXT, pa.int32(), _part(3, _as_timestamp)),
    "date_format": _Function(_TIME_OR_TEXT, pa.string(), _date_format, (str,), 1),
    "from_unixtime": _Function(_WHOLE, pa.string(), _from_unixtime, (str,)),
    "unix_timestamp": _Function(_TIME, pa.int64(), _unix_timestamp),
    "to_date": _Function(_TIME_OR_TEXT, pa.date32(), _as_date),
    "date_add": _Function(_TIME_OR_TEXT, pa.date32(), _moved(1), (int,), 1),
    "date_sub": _Function(_TIME_OR_TEXT, pa.date32(), _moved(-1), (int,), 1),
    "lower": _Function(_TEXT, pa.string(), _cased(str.lower, pc.ascii_lower)),
    "upper": _Function(_TEXT, pa.string(), _cased(str.upper, pc.ascii_upper)),
    "length": _Function(_TEXT, pa.int32(), pc.utf8_length),
    "trim": _Function(_TEXT, pa.string(), _trimmed(pc.utf8_trim)),
    "ltrim": _Function(_TEXT, pa.string(), _trimmed(pc.utf8_ltrim)),
    "rtrim": _Function(_TEXT, pa.string(), _trimmed(pc.utf8_rtrim)),
    "substring": _Function(_TEXT, pa.string(), _substring, (int, int), 1),
}
FUNCTIONS = tuple(_FUNCTIONS)
"""The names of all functions."""
