"""Tables with columns of milliseconds in files that call them microseconds, as older releases of Hudi left them."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa

import headwater

_TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("at", _TIME),
        ("s", pa.struct([("w", _TIME)])),
        ("l", pa.list_(_TIME)),
        ("n", pa.timestamp("us")),
    ]
)


def time_in(year: int) -> datetime.datetime:
    return datetime.datetime(year, 5, 6, 7, 8, 9, 123000, tzinfo=datetime.timezone.utc)


def make(path: Path, kind: str, version: int) -> dict[str, int]:
    """Write such a table; the year of each key's times."""
    made = headwater.create(path, schema=SCHEMA, key="id", ordering="ts", kind=kind, version=version)
    made.insert(_rows("abc", 2023))
    made.upsert(_rows("ad", 2024))
    made.index.create("column_stats")
    for file in sorted((path / ".hoodie").rglob("*")):
        if file.is_file() and "metadata" not in file.relative_to(path).parts:
            content = file.read_bytes()
            relabelled = content.replace(b"timestamp-micros", b"timestamp-millis")
            relabelled = relabelled.replace(b"local-timestamp-millis", b"local-timestamp-micros")
            if relabelled != content:
                file.write_bytes(relabelled)
    return {"a": 2024, "b": 2023, "c": 2023, "d": 2024}


def _rows(ids: str, year: int) -> pa.Table:
    """Times of which as many microseconds have gone by since 1970 as milliseconds should have."""
    number = int(time_in(year).timestamp() * 1000)
    time = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(microseconds=number)
    row = {"ts": year, "at": time, "s": {"w": time}, "l": [time], "n": datetime.datetime(2020, 1, 1)}
    return pa.Table.from_pylist([{"id": id_, **row} for id_ in ids], SCHEMA)
