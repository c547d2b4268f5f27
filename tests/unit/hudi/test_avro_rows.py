"""Decoding Avro rows: Polars and fastavro must give what was written, and damage must be told."""

from __future__ import annotations

import decimal
import io
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import ColumnNotFound, CorruptFile, UnsupportedTable
from headwater.hudi.avro_rows import decode_rows
from headwater.hudi.avro_schema import to_arrow

RELAXED = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def record(*fields: tuple[str, Any], name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": type_} for key, type_ in fields]}


def encode(schema: dict[str, Any], rows: Sequence[Any], *, prefixed: bool) -> bytes:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    parts = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        parts.append((struct.pack(">i", stream.tell()) if prefixed else b"") + stream.getvalue())
    return b"".join(parts)


@dataclass(frozen=True)
class Kind:
    """An Avro type with a strategy of pairs: the value to write, and the value that Arrow should show."""

    avro: Any
    pairs: st.SearchStrategy[tuple[Any, Any]]


def same(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    return strategy.map(lambda value: (value, value))


INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
_names = iter(range(10**9))


def fresh() -> str:
    return f"n{next(_names)}"


def decimal_kind(precision: int, scale: int, size: int | None) -> Kind:
    def pair(number: int) -> tuple[bytes, decimal.Decimal]:
        width = size or max((number.bit_length() + 8) // 8, 1)
        with decimal.localcontext(decimal.Context(prec=80)):
            return number.to_bytes(width, "big", signed=True), decimal.Decimal(number).scaleb(-scale)

    base = {"type": "bytes"} if size is None else {"type": "fixed", "name": fresh(), "size": size}
    limit = 10**precision - 1
    avro = {**base, "logicalType": "decimal", "precision": precision, "scale": scale}
    return Kind(avro, st.integers(-limit, limit).map(pair))


def leaves() -> st.SearchStrategy[Kind]:
    longs = ["timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis"]
    longs += ["local-timestamp-micros", "local-timestamp-nanos"]
    symbols = ["A", "B", "C_3"]
    return st.one_of(
        st.just(Kind("boolean", same(st.booleans()))),
        st.just(Kind("int", same(INT))),
        st.just(Kind("long", same(LONG))),
        st.just(Kind("float", same(st.floats(width=32, allow_nan=False)))),
        st.just(Kind("double", same(st.floats(allow_nan=False)))),
        st.just(Kind("string", same(st.text(max_size=9)))),
        st.just(Kind({"type": "string", "logicalType": "uuid"}, same(st.uuids().map(str)))),
        st.just(Kind("bytes", same(st.binary(max_size=9)))),
        st.just(Kind({"type": "int", "logicalType": "date"}, same(st.integers(-700_000, 700_000)))),
        st.just(Kind({"type": "int", "logicalType": "time-millis"}, same(st.integers(0, 86_399_999)))),
        st.just(Kind({"type": "long", "logicalType": "time-micros"}, same(st.integers(0, 86_399_999_999)))),
        st.sampled_from(longs).map(lambda name: Kind({"type": "long", "logicalType": name}, same(LONG))),
        st.builds(
            lambda size: Kind(
                {"type": "fixed", "name": fresh(), "size": size}, same(st.binary(min_size=size, max_size=size))
            ),
            st.integers(1, 17),
        ),
        st.builds(lambda: Kind({"type": "enum", "name": fresh(), "symbols": symbols}, same(st.sampled_from(symbols)))),
        st.sampled_from([(1, 0, 1), (9, 3, 4), (18, 2, 8), (38, 10, 16), (10, 2, 20), (60, 5, 26), (76, 0, 32)]).map(
            lambda args: decimal_kind(*args)
        ),
        st.sampled_from([(1, 0), (18, 2), (38, 38), (60, 5)]).map(lambda args: decimal_kind(*args, None)),
    )


def nullable(kind: Kind, first: bool) -> Kind:
    avro = ["null", kind.avro] if first else [kind.avro, "null"]
    return Kind(avro, st.one_of(st.just((None, None)), kind.pairs))


def alone(kind: Kind) -> Kind:
    return kind if isinstance(kind.avro, list) else Kind([kind.avro], kind.pairs)


def list_of(kind: Kind) -> Kind:
    pairs = st.lists(kind.pairs, max_size=3).map(lambda items: ([a for a, _ in items], [b for _, b in items]))
    return Kind({"type": "array", "items": kind.avro}, pairs)


def map_of(kind: Kind) -> Kind:
    pairs = st.dictionaries(st.text(max_size=3), kind.pairs, max_size=3).map(
        lambda items: ({k: v[0] for k, v in items.items()}, [(k, v[1]) for k, v in items.items()])
    )
    return Kind({"type": "map", "values": kind.avro}, pairs)


def struct_of(kinds: list[Kind]) -> Kind:
    avro = record(*((f"s{i}", kind.avro) for i, kind in enumerate(kinds)), name=fresh())
    pairs = st.tuples(*(kind.pairs for kind in kinds)).map(
        lambda values: tuple({f"s{i}": value[side] for i, value in enumerate(values)} for side in (0, 1))
    )
    return Kind(avro, pairs)  # type: ignore[arg-type]


def union_of(kinds: list[Kind]) -> Kind:
    """A union of a string and records: fastavro tells them apart by itself."""
    members = [Kind("string", same(st.text(max_size=4)))]
    for index, kind in enumerate(kinds):
        made = record((f"u{index}", kind.avro), name=fresh())
        members.append(Kind(made, kind.pairs.map(lambda p, i=index: ({f"u{i}": p[0]}, {f"u{i}": p[1]}))))

    def show(at: int, pair: tuple[Any, Any]) -> tuple[Any, Any]:
        return pair[0], {f"member{index}": pair[1] if index == at else None for index in range(len(members))}

    pairs = [m.pairs.map(lambda pair, at=at: show(at, pair)) for at, m in enumerate(members)]
    return Kind(["null", *(m.avro for m in members)], st.one_of(st.just((None, None)), *pairs))


def extend(children: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    plain = children.filter(lambda kind: not isinstance(kind.avro, list))
    return st.one_of(
        st.builds(nullable, plain, st.booleans()),
        plain.map(alone),
        children.map(list_of),
        children.map(map_of),
        st.lists(children, max_size=3).filter(bool).map(struct_of),
    )


KINDS = st.recursive(leaves(), extend, max_leaves=5)
NULL = Kind("null", st.just((None, None)))


@st.composite
def tables(draw: st.DrawFn, kinds: st.SearchStrategy[Kind]) -> tuple[dict[str, Any], list[Any], pa.Table]:
    columns = draw(st.lists(st.one_of(kinds, kinds, st.just(NULL)), min_size=1, max_size=4))
    schema = record(*((f"col{i}", kind.avro) for i, kind in enumerate(columns)))
    rows = draw(st.lists(st.tuples(*(kind.pairs for kind in columns)), max_size=5))
    arrow = to_arrow(schema)
    expected = pa.table(
        [pa.array([row[i][1] for row in rows], arrow.field(i).type) for i in range(len(columns))], schema=arrow
    )
    return schema, [{f"col{i}": value[0] for i, value in enumerate(row)} for row in rows], expected


def check(drawn: tuple[dict[str, Any], list[Any], pa.Table], readers: Sequence[str]) -> None:
    schema, rows, expected = drawn
    for prefixed in (False, True):
        body = encode(schema, rows, prefixed=prefixed)
        for reader in readers:
            if not prefixed and not len(body):
                continue
            found = decode_rows(schema, body, len(rows), length_prefixed=prefixed, reader=reader)
            found.validate(full=True)
            assert found.schema == expected.schema
            assert found.equals(expected), (reader, found.to_pydict(), expected.to_pydict())


@RELAXED
@given(tables(KINDS))
def test_random_rows_come_out_as_they_went_in(drawn: tuple[dict[str, Any], list[Any], pa.Table]) -> None:
    check(drawn, ["polars", "fastavro"])


@RELAXED
@given(
    tables(
        st.one_of(
            leaves(),
            st.lists(leaves(), min_size=1, max_size=3)
            .map(union_of)
            .flatmap(lambda k: st.sampled_from([k, list_of(k), map_of(k), struct_of([k])])),
        )
    )
)
def test_unions_of_several_types_come_out_as_structs_of_members(
    drawn: tuple[dict[str, Any], list[Any], pa.Table],
) -> None:
    check(drawn, ["auto", "fastavro"])


@RELAXED
@given(tables(KINDS), st.data())
def test_flipped_bytes_are_a_corrupt_file_or_other_rows(
    drawn: tuple[dict[str, Any], list[Any], pa.Table], data: st.DataObject
) -> None:
    schema, rows, _ = drawn
    body = bytearray(encode(schema, rows, prefixed=True))
    if not body:
        return
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(body)))
    for damaged in (body, body[:cut]):
        for reader in ("polars", "fastavro"):
            try:
                found = decode_rows(schema, bytes(damaged), len(rows), length_prefixed=True, reader=reader)
            except CorruptFile:
                continue
            assert len(found) == len(rows)


@pytest.mark.parametrize("count", [1, 2**31 - 1, -1, 10**15])
def test_count_that_the_bytes_cannot_hold_is_refused_at_once(count: int) -> None:
    with pytest.raises(CorruptFile, match="cannot hold"):
        decode_rows(record(("a", "double")), bytes(11), count, length_prefixed=True)


@pytest.mark.parametrize("kind", ["array", "map"])
@pytest.mark.parametrize("reader", ["polars", "fastavro"])
def test_array_that_claims_endless_items_is_a_corrupt_file(kind: str, reader: str) -> None:
    type_ = {"type": "array", "items": "int"} if kind == "array" else {"type": "map", "values": "int"}
    endless = bytes([0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F])
    body = struct.pack(">i", 109) + endless + bytes(100)
    with pytest.raises(CorruptFile):
        decode_rows(record(("a", type_)), body, 1, length_prefixed=True, reader=reader)


def test_array_of_items_without_bytes_is_refused() -> None:
    with pytest.raises(UnsupportedTable, match="'a' is an array of items that take no bytes"):
        decode_rows(record(("a", {"type": "array", "items": "null"})), b"\0", 1)


def test_only_the_columns_asked_for_come_out_in_that_order() -> None:
    schema = record(("a", "int"), ("b", {"type": "map", "values": "string"}), ("c", ["null", "string"]), ("d", "null"))
    body = encode(schema, [{"a": 1, "b": {"k": "v"}, "c": "x", "d": None}], prefixed=True)
    for reader in ("polars", "fastavro"):
        found = decode_rows(schema, body, 1, columns=["d", "c", "a"], length_prefixed=True, reader=reader)
        assert found.to_pylist() == [{"d": None, "c": "x", "a": 1}]
        assert decode_rows(schema, body, 1, columns=[], length_prefixed=True, reader=reader).num_columns == 0
    with pytest.raises(ColumnNotFound, match="no column 'z'"):
        decode_rows(schema, body, 1, columns=["z"], length_prefixed=True)


def test_enum_beyond_its_symbols_is_a_corrupt_file() -> None:
    schema = record(("e", {"type": "enum", "name": "e", "symbols": ["A"]}))
    for reader in ("polars", "fastavro"):
        with pytest.raises(CorruptFile):
            decode_rows(schema, b"\x02", 1, reader=reader)


def test_decimal_with_more_bytes_than_its_type_keeps_its_value_where_it_fits() -> None:
    schema = record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}))
    body = encode(schema, [{"d": (-7).to_bytes(20, "big", signed=True)}, {"d": b""}], prefixed=False)
    assert decode_rows(schema, body, 2).column("d").to_pylist() == [decimal.Decimal("-0.07"), decimal.Decimal("0.00")]
    with pytest.raises(CorruptFile, match="does not fit"):
        decode_rows(schema, encode(schema, [{"d": b"\x01" + bytes(19)}], prefixed=False), 1)


def test_union_that_is_null_in_the_first_rows_and_set_later_is_read_right() -> None:
    schema = record(("id", "long"), ("u", ["null", "string", {"type": "array", "items": "long"}]), ("name", "string"))
    rows = [{"id": i, "u": None if i < 50 else "x" if i % 2 else [i], "name": f"n{i}"} for i in range(60)]
    found = decode_rows(schema, encode(schema, rows, prefixed=True), 60, length_prefixed=True)
    assert found.column("name").to_pylist() == [row["name"] for row in rows]
    assert found.column("u")[51].as_py() == {"member0": "x", "member1": None}
    assert found.column("u")[58].as_py() == {"member0": None, "member1": [58]}


def test_empty_record_and_fixed_of_no_bytes_come_out() -> None:
    empty = {"type": "record", "name": "e", "fields": [{"name": "n", "type": "null"}]}
    schema = record(("e", empty), ("f", {"type": "fixed", "name": "f0", "size": 0}), ("m", ["null", "e"]), ("x", "int"))
    rows = [{"e": {"n": None}, "f": b"", "m": {"n": None}, "x": 1}, {"e": {"n": None}, "f": b"", "m": None, "x": 2}]
    for reader in ("auto", "fastavro"):
        found = decode_rows(schema, encode(schema, rows, prefixed=True), 2, length_prefixed=True, reader=reader)
        assert found.to_pylist() == rows
