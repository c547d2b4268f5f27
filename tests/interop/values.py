"""Columns of random tables: each type's Spark DDL, its Arrow type, a maker of values, and their JSON for Spark."""

from __future__ import annotations

import base64
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

TEXTS = (
    "",
    "a",
    "\U0001f600",
    "\uffee",
    "Zürich",
    "o'brien",
    "a,b:c",
    "x y",
    "100%",
    "日本",
    "null",
    "\\",
    '"q"',
    "line\nbreak",
    "N/A",
    " ",
)


@dataclass(frozen=True)
class Kind:
    """A column type."""

    ddl: str
    arrow: pa.DataType
    make: Callable[[random.Random], Any]


def _double(rng: random.Random) -> float:
    if rng.random() < 0.2:
        return rng.choice((math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-300))
    return rng.choice((rng.uniform(-1000, 1000), float(rng.randint(-9, 9)), 0.1))


def _float(rng: random.Random) -> float:
    return float(
        pa.array([rng.choice((0.1, 1.5, -2.25, math.nan, math.inf, 3e-38, rng.random()))], pa.float32())[0].as_py()
    )


def _decimal(precision: int, scale: int) -> Callable[[random.Random], Decimal]:
    def make(rng: random.Random) -> Decimal:
        digits = rng.choice((1, precision // 2, precision))
        return Decimal(rng.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-scale, Context(prec=60))

    return make


def _date(rng: random.Random) -> date:
    return date(1950, 1, 1) + timedelta(days=rng.randint(0, 40_000))


def _time(rng: random.Random) -> datetime:
    micros = rng.choice((0, rng.randint(0, 999) * 1000, rng.randint(0, 999_999)))
    return datetime(1950, 1, 1) + timedelta(seconds=rng.randint(0, 3_000_000_000), microseconds=micros)


def _list_of(make: Callable[[random.Random], Any]) -> Callable[[random.Random], list[Any]]:
    return lambda rng: [make(rng) for _ in range(rng.randint(0, 3))]


def _map_of(make: Callable[[random.Random], Any]) -> Callable[[random.Random], dict[str, Any]]:
    return lambda rng: {rng.choice("abcdef"): maybe(rng, make(rng)) for _ in range(rng.randint(0, 3))}


def _struct_of(**makers: Callable[[random.Random], Any]) -> Callable[[random.Random], dict[str, Any]]:
    return lambda rng: {name: maybe(rng, make(rng)) for name, make in makers.items()}


def maybe(rng: random.Random, value: Any, share: float = 0.15) -> Any:
    return None if rng.random() < share else value


def _integer(bits: int) -> Callable[[random.Random], int]:
    edge = 2 ** (bits - 1)
    return lambda rng: rng.choice((rng.randint(-20, 20), rng.randint(-edge, edge - 1), edge - 1, -edge, 0))


def _text(rng: random.Random) -> str:
    return rng.choice(TEXTS) if rng.random() < 0.5 else f"t{rng.randint(0, 999)}"


_pair = pa.struct([("a", pa.int32()), ("b", pa.string())])
_inner = pa.struct([("c", pa.string()), ("d", pa.decimal128(10, 2))])
_inner_wide = pa.struct([*_inner, ("x", pa.float64())])
KINDS: dict[str, Kind] = {
    "text": Kind("string", pa.string(), _text),
    "int": Kind("int", pa.int32(), _integer(32)),
    "long": Kind("bigint", pa.int64(), _integer(64)),
    "short": Kind("smallint", pa.int32(), _integer(16)),
    "bool": Kind("boolean", pa.bool_(), lambda rng: rng.random() < 0.5),
    "float": Kind("float", pa.float32(), _float),
    "double": Kind("double", pa.float64(), _double),
    "dec_small": Kind("decimal(9,2)", pa.decimal128(9, 2), _decimal(9, 2)),
    "dec_mid": Kind("decimal(18,6)", pa.decimal128(18, 6), _decimal(18, 6)),
    "dec_big": Kind("decimal(38,10)", pa.decimal128(38, 10), _decimal(38, 10)),
    "bytes": Kind("binary", pa.binary(), lambda rng: rng.randbytes(rng.randint(0, 6))),
    "day": Kind("date", pa.date32(), _date),
    "time": Kind("timestamp", pa.timestamp("us", "UTC"), lambda rng: _time(rng).replace(tzinfo=timezone.utc)),
    "ntz": Kind("timestamp_ntz", pa.timestamp("us"), _time),
    "ints": Kind("array<int>", pa.list_(pa.int32()), _list_of(_integer(32))),
    "texts": Kind("array<string>", pa.list_(pa.string()), _list_of(_text)),
    "lists": Kind("array<array<double>>", pa.list_(pa.list_(pa.float64())), _list_of(_list_of(_double))),
    "pairs": Kind("array<struct<a:int,b:string>>", pa.list_(_pair), _list_of(_struct_of(a=_integer(32), b=_text))),
    "map": Kind("map<string,int>", pa.map_(pa.string(), pa.int32()), _map_of(_integer(32))),
    "map_pairs": Kind(
        "map<string,struct<a:int,b:string>>", pa.map_(pa.string(), _pair), _map_of(_struct_of(a=_integer(8), b=_text))
    ),
    "struct": Kind(
        "struct<a:int,b:struct<c:string,d:decimal(10,2)>,e:array<date>>",
        pa.struct([("a", pa.int32()), ("b", _inner), ("e", pa.list_(pa.date32()))]),
        _struct_of(a=_integer(32), b=_struct_of(c=_text, d=_decimal(10, 2)), e=_list_of(_date)),
    ),
}
KINDS |= {
    "longs": Kind("array<bigint>", pa.list_(pa.int64()), _list_of(_integer(64))),
    "map_long": Kind("map<string,bigint>", pa.map_(pa.string(), pa.int64()), _map_of(_integer(64))),
    "struct_wide": Kind(
        "struct<a:bigint,b:struct<c:string,d:decimal(10,2),x:double>,e:array<date>,y:string>",
        pa.struct([("a", pa.int64()), ("b", _inner_wide), ("e", pa.list_(pa.date32())), ("y", pa.string())]),
        _struct_of(a=_integer(64), b=_struct_of(c=_text, d=_decimal(10, 2), x=_double), e=_list_of(_date), y=_text),
    ),
}
WIDER = {
    "int": "long",
    "float": "double",
    "long": "text",
    "ints": "longs",
    "map": "map_long",
    "struct": "struct_wide",
}
"""What a type may be widened to."""
PLAIN = ("text", "int", "long", "double")
"""Types whose JSON is the same for everyone: change rows hold images as JSON."""


def to_json(value: Any) -> Any:
    """What Spark's JSON reader turns back into the value.

    >>> to_json({"a": Decimal("1.50"), "b": [b"hi", float("nan")]})
    {'a': '1.50', 'b': ['aGk=', 'NaN']}
    """
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
