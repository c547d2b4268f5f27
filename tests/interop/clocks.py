"""Columns that tell a time, and how a key generator makes a partition's path of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any


@dataclass(frozen=True)
class Clock:
    """How a column tells the time that a partition's path is made of."""

    kind: str
    options: dict[str, str]
    value: Callable[[datetime], Any]


def _clock(kind: str, type_: str, value: Callable[[datetime], Any], **more: str) -> Clock:
    options = {"timestamp.type": type_, **{name.replace("_", "."): text for name, text in more.items()}}
    return Clock(kind, {f"hoodie.keygen.timebased.{name}": text for name, text in options.items()}, value)


def _seconds(moment: datetime) -> int:
    return int(moment.replace(tzinfo=timezone.utc).timestamp())


CLOCKS = (
    _clock("long", "EPOCHMILLISECONDS", lambda moment: _seconds(moment) * 1000 + 5),
    _clock("long", "UNIX_TIMESTAMP", lambda moment: _seconds(moment) + 5),
    _clock("long", "SCALAR", lambda moment: _seconds(moment) // 86400, timestamp_scalar_time_unit="DAYS"),
    _clock("text", "DATE_STRING", lambda moment: f"{moment:%Y-%m-%d} 21:30:05", input_dateformat="yyyy-MM-dd HH:mm:ss"),
)
