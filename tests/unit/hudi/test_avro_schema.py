"""Avro schemas to Arrow schemas and back."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from headwater.errors import CorruptFile, UnsupportedTable
from headwater.hudi.avro_schema import decimal_width, from_arrow, parse, to_arrow


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": type_} for name, type_ in fields.items()]}


def logical(kind: str, logical_name: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_name, **more}


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("null", pa.null()),
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ("bytes", pa.binary()),
        ({"type": "fixed", "name": "f", "size": 7}, pa.binary(7)),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        (logical("int", "date"), pa.date32()),
        (logical("int", "time-millis"), pa.time32("ms")),
        (logical("long", "time-micros"), pa.time64("us")),
        (logical("long", "timestamp-millis"), pa.timestamp("ms", "UTC")),
        (logical("long", "timestamp-micros"), pa.timestamp("us", "UTC")),
        (logical("long", "timestamp-nanos"), pa.timestamp("ns", "UTC")),
        (logical("long", "local-timestamp-millis"), pa.timestamp("ms")),
        (logical("long", "local-timestamp-micros"), pa.timestamp("us")),
        (logical("long", "local-timestamp-nanos"), pa.timestamp("ns")),
        (logical("string", "uuid"), pa.string()),
        (logical("bytes", "decimal", precision=10, scale=2), pa.decimal128(10, 2)),
        (logical("bytes", "decimal", precision=10), pa.decimal128(10, 0)),
        (logical("fixed", "decimal", name="d", size=16, precision=38, scale=10), pa.decimal128(38, 10)),
        (logical("fixed", "decimal", name="d", size=30, precision=60, scale=10), pa.decimal256(60, 10)),
        (logical("fixed", "duration", name="d", size=12), pa.binary(12)),
        (logical("long", "of-another-planet"), pa.int64()),
        (logical("bytes", "decimal", precision=2, scale=5), pa.binary()),
        ({"type": "array", "items": "int"}, pa.list_(pa.field("element", pa.int32(), nullable=False))),
        ({"type": "array", "items": ["null", "int"]}, pa.list_(pa.field("element", pa.int32()))),
        ({"type": "map", "values": ["int", "null"]}, pa.map_(pa.string(), pa.int32())),
        (
            {"type": "record", "name": "s", "fields": [{"name": "a", "type": "int"}]},
            pa.struct([pa.field("a", pa.int32(), nullable=False)]),
        ),
        (["null"], pa.null()),
        (["int"], pa.int32()),
        (["null", "int", "long"], pa.int64()),
        (["float", "double"], pa.float64()),
        (["null", "int", "string"], pa.struct([("member0", pa.int32()), ("member1", pa.string())])),
    ],
)
def test_type_becomes_that_of_spark(avro: Any, arrow: pa.DataType) -> None:
    assert to_arrow(record(c=avro)).field("c").type == arrow


@pytest.mark.parametrize(
    ("avro", "nullable"), [("int", False), (["null", "int"], True), (["int", "null"], True), (["int", "string"], False)]
)
def test_field_is_nullable_where_its_union_has_null(avro: Any, nullable: bool) -> None:
    assert to_arrow(record(c=avro)).field("c").nullable is nullable


def test_named_types_are_found_by_name_in_the_namespace_they_are_in() -> None:
    inner = {"type": "record", "name": "inner", "namespace": "x.y", "fields": [{"name": "a", "type": "int"}]}
    user = {"type": "record", "name": "user", "namespace": "x.y", "fields": [{"name": "b", "type": "inner"}]}
    schema = to_arrow(record(first=["null", inner], second=["null", "x.y.inner"], third=user))
    assert schema.field("first").type == schema.field("second").type
    assert schema.field("third").type.field("b").type == schema.field("first").type


def test_record_that_holds_itself_is_refused_by_name() -> None:
    node = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    with pytest.raises(UnsupportedTable, match=r"'tree\.next' is a record that holds itself"):
        to_arrow(record(tree=node))


def test_schema_that_is_endless_when_written_out_is_refused() -> None:
    fields = [
        {
            "name": f"f{depth}",
            "type": {
                "type": "record",
                "name": f"r{depth}",
                "fields": [{"name": f"c{i}", "type": f"r{depth - 1}" if depth else "int"} for i in range(10)],
            },
        }
        for depth in range(12)
    ]
    with pytest.raises(UnsupportedTable, match="more than 100000 types"):
        parse({"type": "record", "name": "bomb", "fields": fields})


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "{",
        "[]",
        '"int"',
        "null",
        b"\xff\xfe",
        "[" * 100_000,
        record(c="no_such_type"),
        record(c=[]),
        record(c={"type": "array"}),
        record(c={"type": "fixed", "name": "f", "size": -1}),
        record(c={"name": "x"}),
        {"type": "record", "name": "r"},
        {"type": "record", "name": "r", "fields": [5]},
        {"type": "record", "name": "r", "fields": 5},
        record(c=[["null", "int"], "string"]),
    ],
)
def test_schema_that_is_none_is_a_corrupt_file(broken: Any) -> None:
    with pytest.raises(CorruptFile):
        to_arrow(broken)


def test_decimal_of_more_digits_than_arrow_has_names_its_column() -> None:
    with pytest.raises(UnsupportedTable, match="'c' is decimal"):
        to_arrow(record(c=logical("bytes", "decimal", precision=77)))


def test_arrow_schema_survives_the_way_to_avro_and_back() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("flag", pa.bool_()),
            ("small", pa.int32()),
            ("real", pa.float32()),
            ("number", pa.float64()),
            ("text", pa.string()),
            ("raw", pa.binary()),
            ("tag", pa.binary(4)),
            ("day", pa.date32()),
            ("clock", pa.time64("us")),
            ("at", pa.timestamp("us", "UTC")),
            ("at_local", pa.timestamp("us")),
            ("price", pa.decimal128(18, 2)),
            ("names", pa.list_(pa.field("element", pa.string()))),
            ("marks", pa.map_(pa.string(), pa.decimal128(5, 1))),
            ("inner", pa.struct([("inner", pa.struct([("price", pa.decimal128(18, 2))])), ("a", pa.int32())])),
        ]
    )
    avro = from_arrow(schema, name="trips", namespace="hoodie.trips")
    assert to_arrow(json.dumps(avro)) == schema
    assert avro["fields"][1] == {"name": "flag", "type": ["null", "boolean"], "default": None}
    assert avro["fields"][12]["type"][1] | {"namespace": "", "name": ""} == {
        "type": "fixed",
        "name": "",
        "namespace": "",
        "size": 8,
        "logicalType": "decimal",
        "precision": 18,
        "scale": 2,
    }


def test_arrow_type_without_an_avro_type_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedTable, match="'u' of Arrow type uint64"):
        from_arrow(pa.schema([("u", pa.uint64())]))


def test_decimal_width_is_that_of_parquet() -> None:
    assert [decimal_width(p) for p in (2, 4, 9, 18, 38, 76)] == [1, 2, 4, 8, 16, 32]
