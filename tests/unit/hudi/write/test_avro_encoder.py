"""Arrow columns as Avro records, against fastavro and our own decoder."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidArgument, UnsupportedTable, WrongType
from headwater.hudi.avro_rows import decode_rows
from headwater.hudi.avro_schema import to_arrow, to_avro
from headwater.hudi.write.avro_bytes import RecordBytes, varints
from headwater.hudi.write.avro_encoder import encode_records, encode_rows

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int64(), st.integers(-70, 70)),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats()),
    "string": (pa.string(), st.text(max_size=20)),
    "long string": (pa.string(), st.text("ab", min_size=60, max_size=300)),
    "bytes": (pa.binary(), st.binary(max_size=20)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.timezone.utc))),
    "local": (pa.timestamp("us"), st.datetimes()),
    "decimal": (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    "wide decimal": (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    "odd decimal": (pa.decimal128(20, 0), st.decimals(-(10**19), 10**19, places=0)),
}


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    forms = [*KINDS] + (["list", "map", "struct"] if depth else [])
    form = draw(st.sampled_from(forms))
    if form in KINDS:
        return KINDS[form]
    if form == "struct":
        fields = {f"f{n}": draw(fields_(depth - 1)) for n in range(draw(st.integers(1, 3)))}
        made = pa.struct([field.with_name(name) for name, (field, _) in fields.items()])
        return made, st.fixed_dictionaries({name: values for name, (_, values) in fields.items()})
    item, values = draw(fields_(depth - 1))
    if form == "list":
        return pa.list_(item.with_name("element")), st.lists(values, max_size=4)
    keys = st.text(max_size=5)
    pairs = st.lists(st.tuples(keys, values), max_size=3, unique_by=lambda pair: pair[0])
    return pa.map_(pa.string(), item.with_name("value")), pairs


@st.composite
def fields_(draw: st.DrawFn, depth: int = 2) -> tuple[pa.Field, st.SearchStrategy[Any]]:
    kind, values = draw(types(depth))
    nullable = draw(st.booleans())
    return pa.field("c", kind, nullable=nullable), st.one_of(st.none(), values) if nullable else values


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(0, 9))
    columns = [draw(fields_()) for _ in range(draw(st.integers(1, 4)))]
    schema = pa.schema([field.with_name(f"c{n}") for n, (field, _) in enumerate(columns)])
    arrays = [pa.array(draw(st.lists(values, min_size=count, max_size=count)), field.type) for field, values in columns]
    table = pa.Table.from_arrays(arrays, schema=schema)
    # Rows cut out of a longer table begin in the middle of their buffers.
    start = draw(st.integers(0, count))
    return table.slice(start)


def encoded(schema: str, table: pa.Table, *, length_prefixed: bool = False) -> bytes:
    return b"".join(map(bytes, encode_rows(schema, table, length_prefixed=length_prefixed)))


@settings(max_examples=300, deadline=None)
@given(table=tables())
def test_every_table_comes_back_from_its_records(table: pa.Table) -> None:
    schema = to_avro(table.schema, "t")
    found = decode_rows(schema, encoded(schema, table), table.num_rows)
    assert as_text(found) == as_text(table)
    framed = decode_rows(schema, encoded(schema, table, length_prefixed=True), table.num_rows, length_prefixed=True)
    assert as_text(framed) == as_text(table)


@settings(max_examples=150, deadline=None)
@given(table=tables())
def test_records_are_those_that_fastavro_writes(table: pa.Table) -> None:
    schema = to_avro(table.schema, "t")
    parsed = fastavro.parse_schema(json.loads(schema))
    theirs = []
    for row in table.to_pylist(maps_as_pydicts="lossy"):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        theirs.append(stream.getvalue())
    ours = [record for array in encode_records(schema, table) for record in array.to_pylist()]
    assert ours == theirs


def test_a_last_cell_of_no_bytes_leaves_the_next_record_alone() -> None:
    # The second column takes nine bytes in one row: a cell of eight and one of one, which is empty in the others.
    table = pa.table({"a": pa.array([64, 1, 0], pa.int32()), "b": [2**50, 2**50, 2**60]})
    schema = to_avro(table.schema, "t")
    assert decode_rows(schema, encoded(schema, table), 3).to_pylist() == table.to_pylist()


def as_text(table: pa.Table) -> str:
    # NaN is not equal to itself, and is here.
    return repr(table.to_pylist())


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_varints_of_all_sizes_stand_together(values: list[int]) -> None:
    made = RecordBytes(len(values))
    for cell in varints(np.array(values, np.int64)):
        made.cell(*cell)
    for value, data in zip(values, made.join().to_pylist(), strict=True):
        stream = io.BytesIO(data)
        assert fastavro.schemaless_reader(stream, "long", None) == value
        assert stream.tell() == len(data)


@given(st.lists(st.integers(1 - 10**38, 10**38 - 1), min_size=1))
def test_decimals_of_any_length_are_those_of_java(numbers: list[int]) -> None:
    node = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 15}
    schema = {"type": "record", "name": "r", "fields": [{"name": "d", "type": ["null", node]}]}
    with decimal.localcontext(decimal.Context(prec=40)):
        values = [decimal.Decimal(number).scaleb(-15) for number in numbers]
    table = pa.table({"d": pa.array([None, *values], pa.decimal128(38, 15))})
    records = [record for array in encode_records(schema, table) for record in array.to_pylist()]
    assert records[0] == b"\0"
    for number, data in zip(numbers, records[1:], strict=True):
        plain = number.to_bytes(((number if number >= 0 else ~number).bit_length()) // 8 + 1, "big", signed=True)
        assert data == bytes([2, 2 * len(plain)]) + plain


def test_a_column_of_one_value_is_written_from_its_dictionary() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0, 0], pa.int32()), pa.array(["a value beyond eight bytes"]))
    few = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int32()), pa.array(["x", "y"]))
    table = pa.table({"one": column, "few": few})
    schema = to_avro(pa.schema([("one", pa.string()), ("few", pa.string())]), "t")
    assert decode_rows(schema, encoded(schema, table), 3).to_pylist() == table.to_pylist()


def test_null_may_be_the_second_branch() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": ["long", "null"]}]}
    assert encoded(json.dumps(schema), pa.table({"n": [1, None]})) == b"\x00\x02\x02"


def test_a_union_of_several_types_is_written_from_its_struct() -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "u", "type": ["null", "string", "long"]}]})
    rows = [{"u": {"member0": "a", "member1": None}}, {"u": {"member0": None, "member1": 7}}, {"u": None}]
    table = pa.Table.from_pylist(rows, to_arrow(schema))
    assert decode_rows(schema, encoded(schema, table), 3).to_pylist() == rows
    both = pa.Table.from_pylist([{"u": {"member0": "a", "member1": 7}}], to_arrow(schema))
    with pytest.raises(InvalidArgument, match="each row must have one"):
        encoded(schema, both)


def test_an_enum_is_written_by_its_symbols_place() -> None:
    node = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "e", "type": ["null", node]}]})
    assert encoded(schema, pa.table({"e": ["B", None, "A"]})) == b"\x02\x02\x00\x02\x00"
    with pytest.raises(InvalidArgument, match="'C' is none of the enum's symbols: A, B"):
        encoded(schema, pa.table({"e": ["C"]}))


def test_more_records_than_are_encoded_at_once_come_in_order() -> None:
    table = pa.table({"id": range(150_000), "s": [str(n) for n in range(150_000)]})
    schema = to_avro(table.schema, "t")
    assert decode_rows(schema, encoded(schema, table), 150_000).equals(table.cast(to_arrow(schema)))


@pytest.mark.parametrize(
    ("field", "array", "error", "says"),
    [
        ("long", pa.array([1, None]), InvalidArgument, "may not be null"),
        ("long", pa.array(["x"]), WrongType, "its Avro schema says int64"),
        ({"type": "array", "items": "int"}, pa.array([1]), WrongType, "an array"),
        ({"type": "map", "values": "int"}, pa.array([1]), WrongType, "a map"),
        (
            {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 9, "scale": 0},
            pa.array([decimal.Decimal(1)], pa.decimal128(9)),
            UnsupportedTable,
            "does not fit",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(field: Any, array: pa.Array, error: type[Exception], says: str) -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": field}]})
    with pytest.raises(error, match=says):
        encoded(schema, pa.table({"c": array}))


def test_a_missing_column_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="lack the columns id"):
        encoded(to_avro(pa.schema([("id", pa.int64())]), "t"), pa.table({"x": [1]}))
