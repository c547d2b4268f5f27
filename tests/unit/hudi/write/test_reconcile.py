"""Columns that rows bring against those of the table."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import WriteRefused
from headwater.hudi.avro_schema import to_arrow, to_avro
from headwater.hudi.evolution import conform
from headwater.hudi.write.reconcile import evolved_avro, fit_rows, reconcile, stored_schema


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


KNOWN = schema(id=pa.int32(), name=pa.string(), price=pa.float32())


def test_columns_keep_the_tables_order() -> None:
    rows = pa.table({"price": pa.array([1.5], pa.float32()), "name": ["a"], "id": pa.array([1], pa.int32())})
    made = reconcile(KNOWN, rows.schema)
    assert made == KNOWN
    assert fit_rows(rows, made).to_pylist() == [{"id": 1, "name": "a", "price": 1.5}]


def test_new_columns_are_added_behind_the_others_and_may_be_null() -> None:
    new = pa.schema([pa.field("note", pa.large_string(), nullable=False), *KNOWN])
    assert reconcile(KNOWN, new) == pa.schema([*KNOWN, pa.field("note", pa.string())])


def test_missing_columns_are_null_unless_they_may_not_be() -> None:
    made = reconcile(KNOWN, schema(id=pa.int32()))
    assert fit_rows(pa.table({"id": pa.array([1], pa.int32())}), made).column("name").to_pylist() == [None]
    strict = pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string())])
    with pytest.raises(WriteRefused, match="column 'id' may not be null in this table and the rows do not have it"):
        reconcile(strict, schema(name=pa.string()))
    with pytest.raises(WriteRefused, match="1 of 2 rows are"):
        fit_rows(pa.table({"id": pa.array([1, None], pa.int32())}), strict)


@pytest.mark.parametrize(
    ("known", "incoming", "made"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.float64(), pa.int64(), pa.float64()),
        (pa.float64(), pa.float32(), pa.float64()),
        (pa.string(), pa.large_string(), pa.string()),
        (pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.string(), pa.null(), pa.string()),
        (pa.date32(), pa.date64(), pa.date32()),
        (pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
        (pa.decimal128(12, 3), pa.decimal128(9, 2), pa.decimal128(12, 3)),
        (pa.decimal128(12, 2), pa.int32(), pa.decimal128(12, 2)),
        (pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.int64())),
        (pa.list_(pa.int32()), pa.list_(pa.int32(), 2), pa.list_(pa.int32())),
        (pa.map_(pa.string(), pa.float32()), pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.float64())),
        (
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
            pa.struct([("c", pa.bool_()), ("a", pa.int64())]),
            pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())]),
        ),
    ],
)
def test_types_that_hold_both_are_taken(known: pa.DataType, incoming: pa.DataType, made: pa.DataType) -> None:
    found = reconcile(schema(c=known), schema(c=incoming)).field("c").type
    assert found.equals(made)


@pytest.mark.parametrize(
    ("known", "incoming", "says"),
    [
        (pa.int64(), pa.float64(), "lose digits"),
        (pa.int32(), pa.float32(), "lose digits"),
        (pa.int64(), pa.string(), "cast the rows to int64"),
        (pa.string(), pa.int64(), "cast the rows to string"),
        (pa.string(), pa.binary(), "cast the rows to string"),
        (pa.decimal128(9, 2), pa.decimal128(12, 2), "cast the rows"),
        (pa.decimal128(9, 2), pa.decimal128(9, 3), "cast the rows"),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "one is a moment"),
        (pa.date32(), pa.timestamp("us"), "cast the rows"),
        (pa.list_(pa.int64()), pa.int64(), "cast the rows"),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.string())]), r"column 'c\.a'"),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.int64(), pa.int64()), "keys of type int64"),
    ],
)
def test_what_would_change_values_is_refused(known: pa.DataType, incoming: pa.DataType, says: str) -> None:
    with pytest.raises(WriteRefused, match=says):
        reconcile(schema(c=known), schema(c=incoming))


def test_types_stay_where_that_is_asked_for() -> None:
    assert reconcile(KNOWN, schema(id=pa.int64()), promote=False) == KNOWN
    assert fit_rows(pa.table({"id": [7]}), KNOWN).column("id").to_pylist() == [7]
    with pytest.raises(WriteRefused, match="does not fit int32"):
        fit_rows(pa.table({"id": [2**40]}), KNOWN)
    with pytest.raises(WriteRefused, match="cast the rows to float"):
        reconcile(KNOWN, schema(price=pa.float64()), promote=False)


@pytest.mark.parametrize("name", ["", "a b", "1a", "a-b", "ä", "a.b"])
def test_names_that_avro_does_not_know_are_refused(name: str) -> None:
    with pytest.raises(WriteRefused, match="begins with a letter or an underscore"):
        reconcile(KNOWN, pa.schema([(name, pa.int32())]))
    with pytest.raises(WriteRefused, match="in 'st'"):
        stored_schema(schema(st=pa.struct([(name, pa.int32())])))


def test_a_struct_without_fields_is_refused() -> None:
    with pytest.raises(WriteRefused, match=r"column 'st\.in' is a struct without fields"):
        stored_schema(schema(st=pa.struct([("in", pa.struct([]))])))


def test_names_that_differ_in_case_alone_are_refused() -> None:
    with pytest.raises(WriteRefused, match="column 'ID' is 'id' in the table"):
        reconcile(KNOWN, schema(ID=pa.int32()))
    with pytest.raises(WriteRefused, match="the same name to Spark"):
        stored_schema(pa.schema([("a", pa.int32()), ("A", pa.int32())]))
    with pytest.raises(WriteRefused, match="the same name to Spark"):
        stored_schema(pa.schema([("a", pa.int32()), ("a", pa.int32())]))


def test_new_columns_are_stored_in_hudis_types() -> None:
    given_ = schema(
        a=pa.uint8(),
        b=pa.float16(),
        c=pa.timestamp("s"),
        d=pa.list_(pa.field("item", pa.int16())),
        e=pa.map_(pa.large_string(), pa.date64()),
    )
    made = stored_schema(given_)
    assert made == to_arrow(to_avro(made, "t"))
    assert [str(kind) for kind in made.types] == [
        "int32",
        "float",
        "timestamp[us]",
        "list<element: int32>",
        "map<string, date32[day]>",
    ]


@pytest.mark.parametrize("kind", [pa.null(), pa.duration("s"), pa.decimal256(50, 2), pa.month_day_nano_interval()])
def test_types_that_no_table_stores_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(WriteRefused, match="column 'c'"):
        reconcile(KNOWN, schema(c=kind))


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([2**53 + 1]), pa.float64()),
        (pa.array([2**63], pa.uint64()), pa.int64()),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([[2**24 + 1]]), pa.list_(pa.float32())),
        (pa.array([{"a": 2**40}]), pa.struct([("a", pa.int32())])),
    ],
)
def test_values_that_do_not_fit_are_refused(array: pa.Array, target: pa.DataType) -> None:
    with pytest.raises(WriteRefused, match="does not fit"):
        fit_rows(pa.table({"c": array}), schema(c=target))


def test_values_come_out_as_hudi_would_store_them() -> None:
    berlin = pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)], pa.timestamp("ns", "Europe/Berlin"))
    rows = pa.table(
        {
            "f": pa.array([0.1], pa.float32()),
            "at": berlin,
            "d": pa.array([decimal.Decimal("1.5")], pa.decimal128(3, 1)),
            "s": pa.array(["x"]).dictionary_encode(),
        }
    )
    target = schema(f=pa.float64(), at=pa.timestamp("us", "UTC"), d=pa.decimal128(9, 2), s=pa.string())
    assert fit_rows(rows, target).to_pylist() == [
        {"f": 0.1, "at": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), "d": decimal.Decimal("1.50"), "s": "x"}
    ]


LEAVES = st.sampled_from([pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.bool_(), pa.date32()])


def nested(leaf: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.dictionaries(st.sampled_from("abc"), leaf, min_size=1, max_size=3)
    return st.one_of(leaf.map(pa.list_), structs.map(lambda fields: pa.struct(list(fields.items()))))


SCHEMAS = st.dictionaries(st.sampled_from("pqrs"), st.recursive(LEAVES, nested, max_leaves=4), min_size=1).map(
    lambda fields: pa.schema(list(fields.items()))
)


@settings(max_examples=300, deadline=None)
@given(known=SCHEMAS, incoming=SCHEMAS)
def test_stored_and_incoming_rows_both_fit_the_schema_that_comes_out(known: pa.Schema, incoming: pa.Schema) -> None:
    try:
        made = reconcile(known, incoming)
    except WriteRefused:
        return
    assert made.names[: len(known)] == known.names
    assert reconcile(made, incoming) == made == reconcile(made, known)
    for given_ in (known, incoming):
        rows = pa.Table.from_pylist([dict.fromkeys(given_.names), _ones(given_)], given_)
        stored = fit_rows(rows, made)
        assert stored.schema == made
        assert stored.to_pylist() == conform(rows, made).to_pylist()


def _ones(given_: pa.Schema) -> dict[str, Any]:
    return {field.name: _one(field.type) for field in given_}


def _one(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: _one(field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_one(kind.value_type), None]
    if pa.types.is_date(kind):
        return dt.date(2026, 1, 1)
    return "1" if pa.types.is_string(kind) else True if pa.types.is_boolean(kind) else 1


def test_unchanged_columns_keep_their_avro_schema() -> None:
    written = json.loads(to_avro(KNOWN, "old"))
    written["fields"][1] |= {"default": "none", "type": ["string", "null"], "doc": "who"}
    made = reconcile(KNOWN, schema(id=pa.int64(), note=pa.string()))
    found = json.loads(evolved_avro(written, made, "new"))
    assert found["name"] == "old_record"
    assert [field["name"] for field in found["fields"]] == ["id", "name", "price", "note"]
    assert found["fields"][1] == written["fields"][1]
    assert found["fields"][0]["type"] == ["null", "long"]
    assert evolved_avro(None, made, "new") == to_avro(made, "new")


def test_a_type_whose_definition_went_with_its_column_is_written_anew() -> None:
    fixed = {"type": "record", "name": "pair", "fields": [{"name": "x", "type": ["null", "int"], "default": None}]}
    written = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "a", "type": ["null", fixed], "default": None},
            {"name": "b", "type": ["null", "pair"], "default": None},
        ],
    }
    known = to_arrow(written)
    made = reconcile(known, schema(a=pa.struct([("x", pa.int64())])))
    assert to_arrow(evolved_avro(written, made, "t")) == made
