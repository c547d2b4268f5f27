"""Rows of the matrix's tables: random batches of a seed, as Python values, as Arrow, and as what Spark reads."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.interop.values import to_json
from tests.interop.write_matrix.specs import Spec

Row = dict[str, Any]
Column = tuple[pa.DataType, str]

PARTS = {"plain": ("p0", "p1", "p2"), "encoded": ("a b", "x/y", "ü+1")}
KEYS = ("k{}", "k {}", "ü{}", "k:{}")
_EPOCH = datetime(2024, 1, 1, tzinfo=timezone.utc)
_PLAIN: Mapping[str, Column] = {
    "name": (pa.string(), "string"),
    "price": (pa.float64(), "double"),
    "n": (pa.int32(), "int"),
}
_RICH: Mapping[str, Column] = {
    "amount": (pa.decimal128(12, 2), "decimal(12,2)"),
    "day": (pa.date32(), "date"),
    "at": (pa.timestamp("us", "UTC"), "timestamp"),
    "is_new": (pa.bool_(), "boolean"),
    "tags": (pa.list_(pa.string()), "array<string>"),
    "geo": (pa.struct([("lat", pa.float64()), ("place", pa.string())]), "struct<lat:double,place:string>"),
    "marks": (pa.map_(pa.string(), pa.int32()), "map<string,int>"),
}


def has_text_times(spec: Spec) -> bool:
    """Whether the time that a path is made of is a text: 0.15.0 cannot read numbers there."""
    return spec.keys == "timestamp" and spec.version == 6


class Rows:
    """Makes a table's rows. A key's partition never changes, so that a key is one record whatever the index."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self.spec = spec
        self.rng = random.Random(seed)
        self.columns: dict[str, Column] = {"id": (pa.string(), "string")}
        if spec.keys == "complex2":
            self.columns["id2"] = (pa.int32(), "int")
        self.columns["ts"] = (pa.int64(), "bigint")
        if spec.merge == "several":
            self.columns["ts2"] = (pa.string(), "string") if spec.log == "avro" else (pa.int32(), "int")
        if spec.is_partitioned and spec.keys != "timestamp":
            self.columns["part"] = (pa.string(), "string")
        if spec.keys in ("timestamp", "custom"):
            self.columns["ev"] = (pa.string(), "string") if has_text_times(spec) else (pa.int64(), "bigint")
        self.columns |= _PLAIN
        if spec.columns == "rich":
            self.columns |= _RICH
        if spec.operations == "whole":
            self.columns["_hoodie_is_deleted"] = (pa.bool_(), "boolean")
        self.next_id = 0
        self.clock = 10

    @property
    def key_columns(self) -> tuple[str, ...]:
        return tuple(name for name in ("id", "id2") if name in self.columns)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, kind) for name, (kind, _) in self.columns.items()])

    def arrow(self, rows: Sequence[Row], columns: Sequence[str] | None = None) -> pa.Table:
        schema = pa.schema([field for field in self.schema if columns is None or field.name in columns])
        return pa.Table.from_pylist(list(rows), schema=schema)

    def for_spark(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The rows and their schema as JSON."""
        ddl = ", ".join(f"`{name}` {ddl}" for name, (_, ddl) in self.columns.items())
        return {"schema": ddl, "rows": [{name: to_json(row.get(name)) for name in self.columns} for row in rows]}

    def new(self, count: int) -> list[Row]:
        """Rows with keys that were never used."""
        self.clock += 1
        rows = [self._row(self.next_id + number) for number in range(count)]
        self.next_id += count
        return rows

    def again(self, stored: Sequence[Row], *, late: bool) -> list[Row]:
        """New versions of rows: later ones, and, if wanted, ones with an equal or an earlier ordering value."""
        self.clock += 1
        found = []
        for number, old in enumerate(stored):
            row = {**self._row(0), **{name: old[name] for name in old if name in ("id", "id2", "part", "ev")}}
            kind = ("later", "equal", "earlier")[number % 3] if late and self.spec.ordering else "later"
            if kind == "equal":
                row |= {name: old[name] for name in ("ts", "ts2") if name in row}
            elif kind == "earlier":
                row["ts"] = old["ts"] - 5
            found.append(row)
        return found

    def evolve(self) -> None:
        """From here on rows have one more column, and a wider number."""
        self.columns["n"] = (pa.int64(), "bigint")
        self.columns["added"] = (pa.string(), "string")

    def _time(self, number: int) -> str | int:
        moment = _EPOCH + timedelta(days=number % 3, seconds=number)
        return moment.strftime("%Y-%m-%d %H:%M:%S") if has_text_times(self.spec) else int(moment.timestamp() * 1000)

    def _row(self, number: int) -> Row:
        rng = self.rng
        choices = PARTS["encoded" if "encoded" in self.spec.style else "plain"]
        made = {
            "id": KEYS[number % len(KEYS)].format(number),
            "id2": number % 5,
            "ts": self.clock,
            "ts2": f"s{rng.randint(1, 9)}" if self.columns.get("ts2", (None, ""))[1] == "string" else rng.randint(1, 9),
            "part": choices[number % len(choices)],
            "ev": self._time(number),
            "name": rng.choice(("a", "Zürich", "", None, f"n{number}")),
            "price": rng.choice((None, 0.5, round(rng.uniform(-9, 99), 3))),
            "n": rng.choice((None, rng.randint(-(2**31), 2**31 - 1))),
            "amount": Decimal(rng.randint(-(10**9), 10**9)).scaleb(-2),
            "day": date(2020, 1, 1) + timedelta(days=rng.randint(0, 2000)),
            "at": _EPOCH + timedelta(microseconds=rng.randint(0, 10**15)),
            "is_new": rng.random() < 0.5,
            "tags": [rng.choice(("x", "y", "")) for _ in range(rng.randint(0, 3))],
            "geo": rng.choice((None, {"lat": rng.random(), "place": rng.choice((None, "here"))})),
            "marks": {letter: rng.randint(0, 9) for letter in rng.sample("abc", rng.randint(0, 3))},
            "added": rng.choice((None, "new")),
            "_hoodie_is_deleted": False,
        }
        return {name: made[name] for name in self.columns}
