"""Arrow's types as Spark has them, and columns inside structs."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.fixtures import suites
from tests.unit.spark.test_positional import VERSION, counted, opened, rows_of

import headwater
from headwater.errors import ColumnNotFound, UnsupportedTable
from headwater.hudi.evolution import conform
from headwater.spark.sidecar.merging import SliceScan, batches, bitmap, decode_slice
from headwater.spark.sidecar.planning import plan
from headwater.spark.types import arrow_schema, from_json, pruned, spark_type, to_json, to_spark

EVERY = pa.schema(
    [
        ("i8", pa.int8()),
        ("i32", pa.int32()),
        ("d", pa.decimal128(20, 4)),
        ("ms", pa.timestamp("ms", "UTC")),
        ("ns", pa.timestamp("ns")),
        ("t32", pa.time32("ms")),
        ("t64", pa.time64("us")),
        ("fixed", pa.binary(2)),
        ("big", pa.large_string()),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("list", pa.list_(pa.field("item", pa.struct([("t", pa.time32("ms"))])))),
        ("map", pa.map_(pa.string(), pa.binary(1))),
    ]
)


def test_every_type_has_a_spark_type_and_its_rows_go_there() -> None:
    spark = to_spark(EVERY)
    assert [field["type"] for field in spark["fields"]][:10] == [
        "byte",
        "integer",
        "decimal(20,4)",
        "timestamp",
        "timestamp_ntz",
        "integer",
        "long",
        "binary",
        "string",
        "string",
    ]
    row = {
        "i8": 1,
        "i32": 2,
        "d": Decimal("1.5000"),
        "ms": datetime(2024, 1, 1, tzinfo=timezone.utc),
        "ns": datetime(2024, 1, 1),
        "t32": time(0, 0, 1),
        "t64": time(0, 0, 1),
        "fixed": b"ab",
        "big": "x",
        "word": "y",
        "list": [{"t": time(0, 0, 2)}],
        "map": [("k", b"v")],
    }
    converted = conform(pa.Table.from_pylist([row], schema=EVERY), arrow_schema(spark))
    assert converted.schema.equals(arrow_schema(spark))
    found = converted.to_pylist()[0]
    assert found["t32"] == 1000
    assert found["t64"] == 1_000_000
    assert found["fixed"] == b"ab"
    assert found["list"] == [{"t": 2000}]
    assert found["ms"] == row["ms"]


def test_a_decimal_that_spark_does_not_have_is_refused() -> None:
    with pytest.raises(UnsupportedTable, match="x: is decimal256"):
        to_spark(pa.schema([("x", pa.decimal256(50, 2))]))


def test_schemas_survive_json() -> None:
    assert json.loads(json.dumps(to_spark(EVERY))) == to_spark(EVERY)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (date(1969, 12, 31), "date"),
        (datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc), "timestamp"),
        (datetime(9999, 12, 31, 23, 59, 59, 999999), "timestamp_ntz"),
        (Decimal("-0.01"), "decimal(9,2)"),
        (b"\x00\xff", "binary"),
        (True, "boolean"),
        ("text", "string"),
        (2**62, "long"),
        (1.5, "double"),
        (float("inf"), "double"),
    ],
)
def test_values_survive_json(value: Any, kind: str) -> None:
    assert from_json(json.loads(json.dumps(to_json(value))), kind) == value


def test_a_column_that_is_not_there_is_named() -> None:
    inner = {"type": "struct", "fields": [{"name": "b", "type": "integer"}]}
    with pytest.raises(ColumnNotFound, match="'b'; s has: a"):
        pruned(pa.schema([("s", pa.struct([("a", pa.int32())]))]), {"fields": [{"name": "s", "type": inner}]})


NESTED = [t for t in suites.tables("generated") if t.name.startswith(("types_", "evo_"))]


@pytest.mark.parametrize("table", NESTED, ids=lambda table: table.name)
def test_one_field_of_each_struct_can_be_read(table: suites.FixtureTable) -> None:
    found = opened(table.path())
    for keep in (0, -1):
        narrow = _narrowed(to_spark(found.schema), keep)
        answer = plan(found, {"read_schema": narrow}, VERSION)
        expected = conform(found.scan.to_arrow(), arrow_schema(narrow))
        assert counted(rows_of(answer)) == counted(expected)


def _narrowed(spark: Any, keep: int) -> Any:
    """The same type, with one field of each struct below the top."""
    if not isinstance(spark, dict):
        return spark
    if spark["type"] == "array":
        return {**spark, "elementType": _one(spark["elementType"], keep)}
    if spark["type"] == "map":
        return {**spark, "valueType": _one(spark["valueType"], keep)}
    return {**spark, "fields": [{**field, "type": _one(field["type"], keep)} for field in spark["fields"]]}


def _one(spark: Any, keep: int) -> Any:
    narrow = _narrowed(spark, keep)
    if isinstance(narrow, dict) and narrow["type"] == "struct":
        return {**narrow, "fields": [narrow["fields"][keep]]}
    return narrow


def test_batches_are_neither_many_nor_large() -> None:
    wide = pa.table({"x": pa.array(["y" * 1000] * 20_000)})
    parts = list(batches(wide))
    assert sum(part.num_rows for part in parts) == 20_000
    assert all(part.nbytes <= 17 * 2**20 for part in parts)
    small = pa.concat_tables([pa.table({"x": [1]})] * 100)
    assert len(list(batches(small))) == 1
    counted_only = list(batches(pa.table({"x": pa.nulls(100_000)}).select([])))
    assert sum(part.num_rows for part in counted_only) == 100_000


def test_no_positions_are_no_words() -> None:
    assert bitmap([]).tobytes() == b""


def test_a_scan_without_columns_still_has_rows() -> None:
    for table in suites.tables("generated")[::5]:
        found = opened(table.path())
        answer = plan(found, {"read_schema": {"type": "struct", "fields": []}}, VERSION)
        scan = SliceScan.from_bytes(base64.b64decode(answer["scan"]), VERSION)
        slices = [decode_slice(base64.b64decode(task["payload"])) for task in answer["tasks"]]
        counts = [part.num_rows for one in slices for whole in scan.read(one) for part in batches(whole)]
        assert sum(counts) == headwater.open(table.path()).scan().count()


def test_spark_type_of_nested_types() -> None:
    assert spark_type(pa.map_(pa.string(), pa.int32())) == {
        "type": "map",
        "keyType": "string",
        "valueType": "integer",
        "valueContainsNull": True,
    }
