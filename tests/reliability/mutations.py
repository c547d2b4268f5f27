"""Damage: what disks, networks and half-dead writers do to bytes, and what nobody does but an attacker.

A mutation is a pure function of a random generator and the bytes, so that a seed names the damaged input for good.
"""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

EXTREMES = (0, -1, 1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**40)
_WORDS = (">i", "<i", ">q", "<q")
_STRANGE: tuple[Any, ...] = (None, True, -1, 2**63, 2**200, 1e308, "", "\0", "x" * 300, [], [None], {}, {"": None}, "é")
# json.dumps cannot write these: they replace a placeholder in the text.
_STRANGE_TEXTS = ("1e999", "-1e999", "NaN", "9" * 5000, "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000)
_PLACEHOLDER = "@@strange@@"

Mutation: TypeAlias = Callable[[random.Random, bytes, bytes], bytes]


class Damaged(NamedTuple):
    """The bytes after the damage; `flipped` is the one byte that changed where nothing else did."""

    data: bytes
    how: str
    flipped: int | None = None


def mutate(rng: random.Random, data: bytes, other: bytes) -> Damaged:
    """One kind of damage, drawn at random; `other` is a second file to splice with."""
    name = rng.choices(list(_MUTATIONS), [weight for weight, _ in _MUTATIONS.values()])[0]
    if name == "json" and data[:1] not in b"{[":
        name = "flip"
    if not data:
        name = "insert"
    if name == "flip":
        return flip(rng, data, _place(rng, data))
    return Damaged(_MUTATIONS[name][1](rng, data, other), name)


def flip(rng: random.Random, data: bytes, at: int) -> Damaged:
    """One bit at a place."""
    return Damaged(_put(data, at, bytes([data[at] ^ (1 << rng.randrange(8))])), f"flip at {at}", at)


def _place(rng: random.Random, data: bytes) -> int:
    """Heads and tails hold the structure: they are hit more often than their share of the bytes."""
    size = len(data)
    where = rng.random()
    if where < 0.2:
        return rng.randrange(min(size, 64))
    if where < 0.35:
        return size - 1 - rng.randrange(min(size, 64))
    return rng.randrange(size)


def _put(data: bytes, at: int, piece: bytes) -> bytes:
    return data[:at] + piece + data[at + len(piece) :]


def _range(rng: random.Random, data: bytes, most: int = 256) -> tuple[int, int]:
    start = _place(rng, data)
    return start, min(start + 1 + rng.randrange(most), len(data))


def _flip(rng: random.Random, data: bytes, other: bytes) -> bytes:
    at = _place(rng, data)
    return _put(data, at, bytes([data[at] ^ (1 << rng.randrange(8))]))


def _flips(rng: random.Random, data: bytes, other: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.randint(2, 16)):
        damaged[_place(rng, data)] = rng.randrange(256)
    return bytes(damaged)


def _truncate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] if rng.random() < 0.8 else data[at:]


def _insert(rng: random.Random, data: bytes, other: bytes) -> bytes:
    at = _place(rng, data) if data else 0
    return data[:at] + rng.randbytes(rng.randint(1, 64)) + data[at:]


def _duplicate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    start, end = _range(rng, data, 2048)
    return data[:end] + data[start:end] * rng.choice((1, 1, 3)) + data[end:]


def _remove(rng: random.Random, data: bytes, other: bytes) -> bytes:
    start, end = _range(rng, data)
    return data[:start] + data[end:]


def _zero(rng: random.Random, data: bytes, other: bytes) -> bytes:
    start, end = _range(rng, data, 4096)
    return data[:start] + bytes(end - start) + data[end:]


def _splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: _place(rng, data)] + other[rng.randrange(len(other) + 1) :]


def _extreme(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A length set to something absurd, preferably where a small number stands, as lengths are."""
    word = rng.choice(_WORDS)
    size = struct.calcsize(word)
    at = _place(rng, data)
    for _ in range(20):
        if abs(int.from_bytes(data[at : at + size], "big" if word[0] == ">" else "little", signed=True)) < 2**20:
            break
        at = _place(rng, data)
    value = rng.choice([number for number in EXTREMES if -(2 ** (8 * size - 1)) <= number < 2 ** (8 * size - 1)])
    return _put(data, at, struct.pack(word, value))[: max(len(data), at + size)]


def _varint(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """An Avro, protobuf or Thrift length set to something absurd."""
    start = _place(rng, data)
    end = start
    while end < len(data) - 1 and data[end] >= 0x80 and end - start < 10:
        end += 1
    number = rng.choice((0, 1, 2**31, 2**32 - 1, 2**35, 2**63, 2**64 - 1, 2**64 - 2))
    piece = bytearray()
    while number > 0x7F:
        piece.append((number & 0x7F) | 0x80)
        number >>= 7
    piece.append(number)
    return data[:start] + bytes(piece) + data[end + 1 :]


def _digits(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A number in a text set to something absurd."""
    found = list(re.finditer(rb"\d+", data[:200_000]))
    if not found:
        return _flip(rng, data, other)
    match = rng.choice(found)
    return (
        data[: match.start()] + str(rng.choice((*EXTREMES, 10**400, "", "1e999", "٣"))).encode() + data[match.end() :]
    )


def _json(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Another value somewhere in a JSON document."""
    try:
        root = json.loads(data)
    except ValueError:
        return _flip(rng, data, other)
    top: Any = {"root": root}
    holder, key = top, "root"
    while isinstance(holder[key], dict | list) and len(holder[key]) and rng.random() < 0.85:
        holder = holder[key]
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    if holder is not top and rng.random() < 0.15:
        del holder[key]
        return json.dumps(top["root"]).encode()
    inner = holder[key]
    if isinstance(inner, str) and inner[:1] == "{" and rng.random() < 0.9:
        # A schema within a commit is a text of JSON.
        holder[key] = _json(rng, inner.encode(), other).decode("utf-8", "replace")
        return json.dumps(top["root"]).encode()
    text = rng.choice(_STRANGE_TEXTS) if rng.random() < 0.25 else None
    holder[key] = rng.choice(_STRANGE) if text is None else _PLACEHOLDER
    return json.dumps(top["root"]).replace(f'"{_PLACEHOLDER}"', text or "").encode()


_MUTATIONS: dict[str, tuple[int, Mutation]] = {
    "flip": (30, _flip),
    "flips": (10, _flips),
    "truncate": (10, _truncate),
    "insert": (6, _insert),
    "duplicate": (6, _duplicate),
    "remove": (6, _remove),
    "zero": (6, _zero),
    "splice": (6, _splice),
    "extreme": (14, _extreme),
    "varint": (10, _varint),
    "digits": (6, _digits),
    "json": (20, _json),
}
