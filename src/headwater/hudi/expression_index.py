"""Expression indexes: statistics of a function's values, for filters that have the same function of the same column.

The values are the writer's, in the time zone of its session, which no table tells. Filters are evaluated in UTC: where
a value depends on the zone, its bounds are moved apart by a day, or not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from headwater.hudi.metadata_table.reader import MetadataTable
from headwater.hudi.metadata_table.records import ColumnStats
from headwater.hudi.metadata_table.values import is_ordered_alike
from headwater.spec.expressions import BoundFunction, Expression, referenced
from headwater.spec.expressions.functions import USUAL_FORMAT, pieces_of
from headwater.spec.statistics import ColumnStatistics

_OPTIONS = {
    "date_format": ("format",),
    "from_unixtime": ("format",),
    "substring": ("pos", "len"),
    "date_add": ("days",),
    "date_sub": ("days",),
}
_WIDTHS = (4, 2, 2, 2, 2, 2)
_DAY = timedelta(days=1)


def indexed_functions(metadata: MetadataTable, bound: Expression) -> dict[BoundFunction, str]:
    """The functions of a filter that the table has an index on, with the index's name."""
    wanted = [column for column in referenced(bound) if isinstance(column, BoundFunction)]
    found: dict[BoundFunction, str] = {}
    for name, definition in metadata.definitions.items() if wanted else ():
        if definition.get("indexType") == "column_stats" and metadata.has(name):
            for function in wanted:
                if _is_on(definition, function):
                    found[function] = name
    return found


def _is_on(definition: Mapping[str, Any], function: BoundFunction) -> bool:
    if definition.get("sourceFields") != [".".join(function.path)]:
        return False
    name = {"dayofmonth": "day"}.get(function.function, function.function)
    if str(definition.get("indexFunction")).lower() != name:
        return False
    options = {str(key): str(value) for key, value in (definition.get("indexOptions") or {}).items()}
    options.pop("expr", None)
    arguments = function.arguments
    if name == "from_unixtime":
        options.setdefault("format", USUAL_FORMAT)
        arguments = arguments or (USUAL_FORMAT,)
    return options == dict(zip(_OPTIONS.get(name, ()), map(str, arguments), strict=False)) and len(options) == len(
        arguments
    )


def function_statistics(stat: ColumnStats, function: BoundFunction) -> ColumnStatistics | None:
    """What a record of the index says of the function's values in UTC; None where it says nothing certain."""
    if stat.value_count is None or stat.null_count is None:
        return None
    # Unlike those of columns, these count the values without the nulls.
    rows = stat.value_count + stat.null_count
    if stat.value_count == 0 and stat.min is None and stat.max is None:
        return ColumnStatistics(None, None, null_count=stat.null_count, value_count=rows, exact=False)
    low, high = _fitting(stat.min, function.type), _fitting(stat.max, function.type)
    if _depends_on_zone(function):
        low, high = _apart(function, low, high)
    if low is None or high is None:
        return None
    return ColumnStatistics(low, high, null_count=stat.null_count, value_count=rows, exact=False)


def _fitting(value: Any, type_: pa.DataType) -> Any:
    kind = str if pa.types.is_string(type_) else date if pa.types.is_date(type_) else int
    return value if type(value) is kind and is_ordered_alike(value) else None


def _depends_on_zone(function: BoundFunction) -> bool:
    source: Any = function.source
    if function.function == "from_unixtime":
        return True
    if pa.types.is_timestamp(source):
        return source.tz is not None and function.function != "unix_timestamp"
    if pa.types.is_date(source):
        return function.function == "unix_timestamp"
    return function.function in ("hour", "date_format")


def _apart(function: BoundFunction, low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds such as they may be in any other zone."""
    if low is None or high is None:
        return None, None
    try:
        if function.function == "year":
            return low - 1, high + 1
        if function.function in ("to_date", "date_add", "date_sub"):
            return low - _DAY, high + _DAY
        if function.function == "unix_timestamp":
            return low - 86_400, high + 86_400
        if function.function in ("date_format", "from_unixtime"):
            return _texts_apart(str(function.arguments[0]) if function.arguments else USUAL_FORMAT, low, high)
    except (OverflowError, ValueError):
        pass  # no such day
    return None, None


def _texts_apart(pattern: str, low: str, high: str) -> tuple[str | None, str | None]:
    """The first text a day earlier and the last a day later, where the order of texts is that of time."""
    pieces = pieces_of(pattern)
    parts = [piece for piece in pieces if isinstance(piece, int)]
    if parts != list(range(len(parts))) or not parts:
        return None, None
    shape = "".join(re.escape(p) if isinstance(p, str) else rf"(\d{{{_WIDTHS[p]}}})" for p in pieces)
    first, last = _moment(shape, low), _moment(shape, high)
    if first is None or last is None:
        return None, None
    return _text(pieces, first - _DAY), _text(pieces, _end(last, len(parts)) + _DAY)


def _moment(shape: str, text: str) -> datetime | None:
    match = re.fullmatch(shape, text, re.ASCII)
    if match is None:
        return None
    year, month, day, hour, minute, second = (*map(int, match.groups()), *(1, 1, 1, 0, 0, 0)[len(match.groups()) :])
    return datetime(year, month, day, hour, minute, second)


def _end(start: datetime, parts: int) -> datetime:
    """The last second of a year, a month, a day …"""
    if parts <= 2:
        months = start.year * 12 + start.month - 1 + (12 if parts == 1 else 1)
        return start.replace(year=months // 12, month=months % 12 + 1) - timedelta(seconds=1)
    units = (_DAY, timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1))
    return start + units[parts - 3] - timedelta(seconds=1)


def _text(pieces: tuple[int | str, ...], moment: datetime) -> str:
    numbers = (moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)
    return "".join(p if isinstance(p, str) else f"{numbers[p]:0{_WIDTHS[p]}d}" for p in pieces)
