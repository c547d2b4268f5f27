"""Values as Java prints them: numbers that became text, and key fields that became record keys.

>>> java_text(pa.array([1.0, 1e7, 0.001, float("nan"), -0.0], pa.float64())).to_pylist()
['1.0', '1.0E7', '0.001', 'NaN', '-0.0']
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def java_text(array: pa.Array) -> pa.Array:
    """Each value's text as `String.valueOf` gives it; nulls stay null."""
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_integer(kind):
        return array.cast(pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        return _floats(array)
    if pa.types.is_decimal(kind):
        return array.cast(pa.string())
    if pa.types.is_timestamp(kind):
        return array.cast(pa.int64()).cast(pa.string())
    return array.cast(pa.string())


def _floats(array: pa.Array) -> pa.Array:
    """Java: plain digits from 1e-3 up to 1e7, and a mantissa with E beyond; always one digit after the point."""
    distinct = array.unique()
    texts = [None if value is None else _java_float(text) for value, text in _shortest(distinct)]
    position = pc.index_in(array, value_set=distinct)
    return pa.array(texts, pa.string()).take(position)


def _shortest(distinct: pa.Array) -> list[tuple[float | None, str]]:
    """The shortest digits that give the value back, at the array's own precision (polars prints them so)."""
    values = distinct.to_pylist()
    if pa.types.is_float64(distinct.type):
        return [(value, "" if value is None else repr(value)) for value in values]
    import polars as pl  # slow to import, and seldom needed

    series = pl.from_arrow(distinct)
    assert isinstance(series, pl.Series)
    return list(zip(values, (text or "" for text in series.cast(pl.String).to_list()), strict=True))


def _java_float(text: str) -> str:
    lowered = text.lower()
    if "nan" in lowered:
        return "NaN"
    if "inf" in lowered:
        return "-Infinity" if lowered.startswith("-") else "Infinity"
    sign, lowered = ("-", lowered[1:]) if lowered.startswith("-") else ("", lowered)
    mantissa, _, exponent_text = lowered.partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    if not digits:
        return sign + "0.0"
    # the value is 0.DIGITS × 10^point
    point = int(exponent_text or 0) + len(whole) - (len(whole + part) - len((whole + part).lstrip("0")))
    digits = digits.rstrip("0") or "0"
    if -2 <= point <= 7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
