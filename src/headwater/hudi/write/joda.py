"""Dates and times by Joda's patterns, which Hudi's time-based key generators are told in.

A pattern is letters (each run of one letter is a field), text in quotes, and whatever else stands for itself. Texts are
English, as in a JVM with that locale.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from headwater.errors import InvalidTableConfig, WriteRefused

_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_MONTHS = tuple(
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# Joda's calendar repeats itself after so many days; Python's ends with the year 9999.
CYCLE_YEARS, CYCLE_DAYS = 400, 146_097
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_CYCLE_MS = CYCLE_DAYS * 86_400_000
# Years that Python has, with a day to spare for zones.
_FIRST_MS, _LAST_MS = -62_135_510_400_000, 253_402_214_400_000

Zone: TypeAlias = "dt.tzinfo | None"
"""None for the zone of this machine, as a JVM takes it where none is set."""


@dataclass(frozen=True)
class Moment:
    """A time in a zone; `years` are to be added to what Python's calendar says."""

    time: dt.datetime
    years: int = 0

    @classmethod
    def at(cls, milliseconds: int, zone: Zone) -> Moment:
        """A time since the epoch, of any year.

        >>> Moment.at(1_704_067_262_345_678, dt.timezone.utc).year
        55969
        """
        cycles = 0
        if not _FIRST_MS <= milliseconds <= _LAST_MS:
            cycles = (milliseconds - 946_684_800_000) // _CYCLE_MS
        plain = _EPOCH + dt.timedelta(milliseconds=milliseconds - cycles * _CYCLE_MS)
        return cls(plain.astimezone(zone), cycles * CYCLE_YEARS)

    @property
    def year(self) -> int:
        return self.time.year + self.years


@dataclass(frozen=True)
class Pattern:
    """A pattern, for writing times or for reading them.

    >>> Pattern("yyyy/MM/dd'T'HH").format(Moment.at(1_700_000_000_000, dt.timezone.utc))
    '2023/11/14T22'
    >>> Pattern("yyyy-MM-dd HH:mm:ss.SSS").parse("2024-01-02 03:04:05.678").isoformat()
    '2024-01-02T03:04:05.678000'
    """

    text: str

    @cached_property
    def _tokens(self) -> tuple[tuple[str, int, str], ...]:
        """Letter, length and literal text of each part."""
        found = []
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise InvalidTableConfig(f"the date pattern {self.text!r} has a quote that does not end; correct it")
            if match[2] is not None:
                found.append((match[2], len(match[0]), ""))
            else:
                found.append(
                    (
                        "",
                        0,
                        "'"
                        if match[0] == "''"
                        else (match[1] or "").replace("''", "'")
                        if match[1] is not None
                        else match[0],
                    )
                )
            at = match.end()
        return tuple(found)

    @property
    def tells_seconds(self) -> bool:
        """Whether times of the same minute may be written differently."""
        return any(letter in "sS" for letter, _, _ in self._tokens)

    @property
    def tells_minutes(self) -> bool:
        """Whether times of the same hour may be written differently."""
        return any(letter == "m" for letter, _, _ in self._tokens)

    def format(self, moment: Moment) -> str:
        """A time's text."""
        return "".join(
            literal if not letter else self._written(letter, size, moment) for letter, size, literal in self._tokens
        )

    def _written(self, letter: str, size: int, moment: Moment) -> str:
        time = moment.time
        if letter in "yYu":
            return f"{moment.year % 100:02d}" if size == 2 else _padded(moment.year, size)
        if letter == "M" and size > 2:
            return _MONTHS[time.month - 1] if size > 3 else _MONTHS[time.month - 1][:3]
        if letter == "E":
            return _DAYS[time.weekday()] if size > 3 else _DAYS[time.weekday()][:3]
        if letter == "a":
            return "AM" if time.hour < 12 else "PM"
        if letter == "S":
            return f"{time.microsecond // 1000:03d}".ljust(size, "0")[:size]
        if letter == "Z":
            return _offset(time, colon=size == 2)
        make = _NUMBERS.get(letter)
        if make is None:
            raise self._unknown(letter)
        return _padded(make(moment), size)

    def _unknown(self, letter: str) -> InvalidTableConfig:
        return InvalidTableConfig(
            f"the letter {letter!r} of the date pattern {self.text!r} is not known here; use another"
        )

    @cached_property
    def _reader(self) -> re.Pattern[str]:
        parts = []
        tokens = self._tokens
        for index, (letter, size, literal) in enumerate(tokens):
            if not letter:
                parts.append(re.escape(literal))
                continue
            beside = index + 1 < len(tokens) and tokens[index + 1][0] in tuple("yYuMdHhkKmsSD")
            parts.append(f"(?P<{letter}>{self._expected(letter, size, beside)})")
        return re.compile("".join(parts), re.IGNORECASE)

    def _expected(self, letter: str, size: int, beside: bool) -> str:
        if letter in "yYu":
            return rf"\d{{{size}}}" if beside or size == 2 else r"[+-]?\d{1,9}"
        if letter == "M" and size > 2:
            return "|".join(name for month in _MONTHS for name in (month, month[:3]))
        if letter == "E":
            return "|".join(name for day in _DAYS for name in (day, day[:3]))
        if letter == "a":
            return "AM|PM"
        if letter == "S":
            return rf"\d{{1,{max(size, 1)}}}"
        if letter == "Z":
            return r"Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?"
        if letter in "MdHhkKmsD":
            width = 3 if letter == "D" else 2
            return rf"\d{{{size}}}" if beside else rf"\d{{1,{max(size, width)}}}"
        raise self._unknown(letter)

    def parse(self, text: str) -> dt.datetime:
        """The time that a text says; it has a zone where the text says one."""
        match = self._reader.fullmatch(text)
        found = {} if match is None else match.groupdict()
        try:
            if match is None:
                raise ValueError("it does not fit the pattern")
            return self._time_of(found)
        except ValueError as error:
            raise WriteRefused(f"the date {text!r} cannot be read by the pattern {self.text!r}: {error}") from error

    def _time_of(self, found: dict[str, str]) -> dt.datetime:
        year = next((int(found[letter]) for letter in "yYu" if letter in found), 1970)
        if any(letter == "y" and size == 2 for letter, size, _ in self._tokens):
            # Joda: two digits mean the year within thirty years before, or seventy after, now.
            pivot = dt.datetime.now(dt.timezone.utc).year - 30
            year = pivot + (year - pivot) % 100
        month = found.get("M", "1")
        number = int(month) if month.isdigit() else 1 + [m[:3].lower() for m in _MONTHS].index(month[:3].lower())
        hour = int(found.get("H", found.get("k", 0))) % 24
        if "h" in found or "K" in found:
            hour = int(found.get("h", found.get("K", 0))) % 12 + (12 if found.get("a", "").upper() == "PM" else 0)
        zone = _zone_of(found["Z"]) if "Z" in found else None
        micros = int(found.get("S", "0").ljust(6, "0")[:6])
        day = dt.datetime(
            year, number, int(found.get("d", 1)), hour, int(found.get("m", 0)), int(found.get("s", 0)), micros, zone
        )
        return day + dt.timedelta(days=int(found["D"]) - 1) if "D" in found else day


_NUMBERS: dict[str, Callable[[Moment], int]] = {
    "M": lambda moment: moment.time.month,
    "d": lambda moment: moment.time.day,
    "H": lambda moment: moment.time.hour,
    "k": lambda moment: moment.time.hour or 24,
    "h": lambda moment: moment.time.hour % 12 or 12,
    "K": lambda moment: moment.time.hour % 12,
    "m": lambda moment: moment.time.minute,
    "s": lambda moment: moment.time.second,
    "D": lambda moment: moment.time.timetuple().tm_yday,
    "e": lambda moment: moment.time.isoweekday(),
    "w": lambda moment: moment.time.isocalendar().week,
    "x": lambda moment: moment.time.isocalendar().year + moment.years,
}


def _padded(number: int, size: int) -> str:
    return f"-{-number:0{size}d}" if number < 0 else f"{number:0{size}d}"


def _offset(time: dt.datetime, *, colon: bool) -> str:
    offset = time.utcoffset() or dt.timedelta()
    minutes = abs(int(offset.total_seconds())) // 60
    sign = "-" if offset < dt.timedelta() else "+"
    return f"{sign}{minutes // 60:02d}{':' if colon else ''}{minutes % 60:02d}"


def _zone_of(text: str) -> dt.timezone:
    if text.upper() == "Z":
        return dt.timezone.utc
    digits = text[1:].replace(":", "").ljust(6, "0")
    offset = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]), seconds=int(digits[4:]))
    return dt.timezone(-offset if text[0] == "-" else offset)
