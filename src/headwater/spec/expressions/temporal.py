"""Dates, times and timestamps in text, as Spark's casts read them."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_DATE = re.compile(r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?\s*\Z", re.ASCII | re.DOTALL)
_TIME = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?"
_TIMESTAMP = re.compile(rf"\s*(\d{{4}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[ T](?:{_TIME}\s*(\S+)?)?)?)?)?\s*\Z", re.ASCII)
_TIME_OF_DAY = re.compile(rf"\s*T?{_TIME}\s*\Z", re.ASCII)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?\Z", re.ASCII)


def parse_date(text: str) -> date | None:
    """The date that the text begins with, or None.

    >>> parse_date("2024-1-2"), parse_date("2024-01-02 10:00:00"), parse_date("soon")
    (datetime.date(2024, 1, 2), datetime.date(2024, 1, 2), None)
    """
    match = _DATE.match(text)
    if match is None:
        return None
    year, month, day = match.groups(default="1")
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def parse_timestamp(text: str) -> datetime | None:
    """The timestamp that the text says, without zone when the text has none, or None. Digits past micros are cut.

    >>> parse_timestamp("2024-01-02T03:04:05.6")
    datetime.datetime(2024, 1, 2, 3, 4, 5, 600000)
    >>> parse_timestamp("2024-01-02 03:04:05+02:00").isoformat()
    '2024-01-02T01:04:05+00:00'
    """
    match = _TIMESTAMP.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            _micros(fraction),
        )
        if zone is None:
            return moment
        found = _zone(zone)
        return None if found is None else moment.replace(tzinfo=found).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def parse_time(text: str) -> time | None:
    """The time of day, or None.

    >>> parse_time("10:30")
    datetime.time(10, 30)
    """
    match = _TIME_OF_DAY.match(text)
    if match is None:
        return None
    hour, minute, second, fraction = match.groups()
    try:
        return time(int(hour), int(minute), int(second or 0), _micros(fraction))
    except ValueError:
        return None


def _micros(fraction: str | None) -> int:
    return int((fraction or "")[:6].ljust(6, "0"))


def _zone(name: str) -> tzinfo | None:
    if name.upper() in ("Z", "UTC", "GMT", "UT"):
        return timezone.utc
    offset = _OFFSET.match(name)
    if offset is not None:
        sign, hours, minutes, seconds = offset.groups(default="0")
        delta = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))
        return timezone(-delta if sign == "-" else delta) if delta <= timedelta(hours=18) else None
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # an unknown zone, a folder of zones, a name that is no path
        return None
