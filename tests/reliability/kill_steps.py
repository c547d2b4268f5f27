"""Steps that a writer takes until it is killed, and what a table holds after each of them.

A step is known by its number alone: whoever finds a table knows at which step it is.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa

import headwater

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string()), ("name", pa.string())])
KEYS = 60
CITIES = ("la", "ny", "sf")

State = dict[str, tuple[str, int, str, str]]


def city(key: int) -> str:
    return CITIES[key % len(CITIES)]


def frame(step: int, keys: list[int]) -> pa.Table:
    columns = {
        "id": [f"k{key:03d}" for key in keys],
        "ts": [step] * len(keys),
        "city": [city(key) for key in keys],
        "name": [f"step {step}"] * len(keys),
    }
    return pa.table(columns, schema=SCHEMA)


def upserted(step: int) -> list[int]:
    return [key for key in range(KEYS) if (key * 7 + step) % 4 == 0]


def deleted(step: int) -> list[int]:
    return [key for key in range(KEYS) if (key * 5 + step) % 9 == 0]


def take(table: headwater.Table, step: int) -> None:
    """Take one step with the rows in this process."""
    kind = step % 4
    if kind == 3:
        table.delete(frame(step, deleted(step)).select(["id", "city"]))
    elif kind == 2:
        table.insert_overwrite(frame(step, [key for key in upserted(step) if city(key) == "ny"]))
    else:
        table.upsert(frame(step, upserted(step)))


@cache
def state(step: int) -> State:
    """What the table holds after so many steps."""
    if step <= 0:
        return {}
    now = dict(state(step - 1))
    kind = step % 4
    if kind == 3:
        for key in deleted(step):
            now.pop(f"k{key:03d}", None)
        return now
    keys = upserted(step)
    if kind == 2:
        keys = [key for key in keys if city(key) == "ny"]
        now = {name: row for name, row in now.items() if row[0] != "ny"}
    return now | {f"k{key:03d}": (city(key), step, f"step {step}", f"k{key:03d}") for key in keys}


def found(path: Path, *, metadata: bool = True) -> State:
    rows = headwater.open(path, metadata=metadata).scan(columns=["id", "city", "ts", "name"]).to_arrow().to_pylist()
    held = {row["id"]: (row["city"], row["ts"], row["name"], row["id"]) for row in rows}
    assert len(held) == len(rows), "a key stands there twice"
    return held


def make(path: Path, kind: str, version: int) -> None:
    """An empty table with the indexes that a writer has to keep in step."""
    table = headwater.create(
        path, schema=SCHEMA, key="id", ordering="ts", partition_by="city", kind=kind, version=version, name="kills"
    )
    table.index.create("files", "column_stats", "bloom_filters")
