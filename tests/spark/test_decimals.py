"""Decimals that are stored as bytes, in pages of every kind: Spark gets the values that were written."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.session import load, rows, spark
from tests.spark.stored_pages import pages_of

import headwater

ROWS = 5_000
PRECISIONS = (1, 2, 4, 5, 7, 9, 10, 12, 14, 16, 18, 19, 38)
"""One for every length up to eight bytes, and two that fit no number."""
SCHEMA = pa.schema([
    ("id", pa.string()),
    ("ts", pa.int64()),
    ("text", pa.string()),
    *((f"d{precision}", pa.decimal128(precision, precision // 3)) for precision in PRECISIONS),
    pa.field("sure", pa.decimal128(11, 2), nullable=False),
])  # fmt: skip
PAGES: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "dictionary": {"use_dictionary": True},
    "dictionary, then plain": {"use_dictionary": True, "dictionary_pagesize_limit": 600, "write_batch_size": 64},
    "version 2": {"use_dictionary": False, "data_page_version": "2.0"},
    "version 2, dictionary": {"use_dictionary": True, "data_page_version": "2.0"},
    "prefixes": {"use_dictionary": False, "column_encoding": {"d18": "DELTA_BYTE_ARRAY", "d4": "DELTA_BYTE_ARRAY"}},
}


def decimals(precision: int, shift: int, *, nulls: bool) -> pa.Array:
    """The longest values of both signs, small ones, zero, and nulls."""
    highest = 10**precision - 1
    found: list[Decimal | None] = []
    for row in range(ROWS):
        digits = (highest, -highest, row % (highest + 1), -(row % (highest + 1)), 0)[(row + shift) % 5]
        found.append(None if nulls and row % 7 == 0 else Decimal(f"{digits}E-{precision // 3}"))
    return pa.array(found, pa.decimal128(precision, precision // 3))


def given() -> pa.Table:
    sure = pa.array([Decimal(f"{row}E-2") for row in range(ROWS)], pa.decimal128(11, 2))
    columns = [decimals(precision, shift, nulls=shift % 2 == 0) for shift, precision in enumerate(PRECISIONS)]
    ids = pa.array([f"k{row:05d}" for row in range(ROWS)])
    text = pa.array([None if row % 3 == 0 else f"text {row}" for row in range(ROWS)])
    return pa.table([ids, pa.array([1] * ROWS), text, *columns, sure], schema=SCHEMA)


@pytest.fixture(scope="module", params=PAGES)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy-on-write and a merge-on-read table whose base files have such pages, in groups of a thousand rows."""
    folder = tmp_path_factory.mktemp("decimals")
    with pages_of(PAGES[request.param]):
        for kind in ("cow", "mor"):
            table = headwater.create(folder / kind, schema=SCHEMA, key="id", ordering="ts", kind=kind)
            table.bulk_insert(given())
            (file,) = (folder / kind).glob("*.parquet")
            assert pq.read_metadata(file).num_row_groups == 5
    changed = given().take(pa.array(range(3, ROWS, 9)))
    changed = changed.set_column(1, "ts", pa.array([2] * changed.num_rows))
    headwater.open(folder / "mor").upsert(changed.set_column(2, "text", pa.array(["changed"] * changed.num_rows)))
    return folder / "cow", folder / "mor"


@pytest.mark.parametrize("columns", [SCHEMA.names, ["id", "d18"], ["id", "sure", "d2"]], ids=["all", "one", "two"])
@pytest.mark.parametrize("split", ["128m", "20k"])
def test_every_value_is_read(stored: tuple[Path, Path], columns: list[str], split: str) -> None:
    for path in stored:
        expected = headwater.open(path).scan(columns=columns).to_arrow()
        found = rows(load(spark(), str(path), **{"split-size": split}).select(*columns))
        assert found.schema.types == expected.schema.types
        assert found.sort_by("id").to_pydict() == expected.sort_by("id").to_pydict()
        if path.name == "cow":
            assert found.sort_by("id").to_pydict() == given().select(columns).to_pydict()


def test_a_filter_matches_what_it_matches_without_one(stored: tuple[Path, Path]) -> None:
    for path in stored:
        everything = headwater.open(path).scan(columns=["id", "d18", "d4"]).to_arrow().to_pylist()
        wanted = sorted(row["id"] for row in everything if row["d18"] is not None and row["d18"] < 0 and row["d4"] != 0)
        frame = load(spark(), str(path)).where("d18 < 0 AND d4 <> 0").select("id")
        assert rows(frame).sort_by("id").column("id").to_pylist() == wanted


def test_decimals_off_the_heap(stored: tuple[Path, Path]) -> None:
    session = spark()
    session.conf.set("spark.sql.columnVector.offheap.enabled", "true")
    try:
        for path in stored:
            expected = headwater.open(path).scan(columns=SCHEMA.names).to_arrow()
            found = rows(load(session, str(path)).select(*SCHEMA.names))
            assert found.sort_by("id").to_pydict() == expected.sort_by("id").to_pydict()
    finally:
        session.conf.unset("spark.sql.columnVector.offheap.enabled")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_pages_of_few_values(count: int, tmp_path: Path) -> None:
    table = headwater.create(tmp_path / "few", schema=SCHEMA, key="id", ordering="ts", kind="cow")
    with mock.patch("headwater.hudi.write.parquet_sink._dictionary_columns", return_value=False):
        table.bulk_insert(given().slice(1, count))
    found = rows(load(spark(), str(tmp_path / "few")).select(*SCHEMA.names))
    assert found.sort_by("id").to_pydict() == given().slice(1, count).to_pydict()


def test_beside_types_that_spark_does_not_know_by_the_file_alone(tmp_path: Path) -> None:
    schema = pa.schema([
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("wall_clock", pa.timestamp("us")),
        ("box", pa.struct([("price", pa.decimal128(10, 2)), ("size", pa.int32())])),
    ])  # fmt: skip
    clock = dt.datetime(2026, 1, 2, 3, 4, 5)
    held = [
        {"id": f"k{row}", "ts": 1, "price": Decimal(f"{row}.50"), "wall_clock": clock + dt.timedelta(hours=row),
         "box": {"price": Decimal(f"-{row}.25"), "size": row}}
        for row in range(20)
    ]  # fmt: skip
    table = headwater.create(tmp_path / "beside", schema=schema, key="id", ordering="ts", kind="cow")
    table.bulk_insert(pa.Table.from_pylist(held, schema=schema))
    for columns in (["id", "price", "wall_clock"], ["id", "price", "box.size"], ["id", "price", "box"]):
        frame = load(spark(), str(tmp_path / "beside")).select(*columns)
        found = sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: int(row["id"][1:]))
        wanted = [
            {name.split(".")[-1]: one["box"]["size"] if "." in name else one[name] for name in columns} for one in held
        ]
        assert found == wanted


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_decimals_that_are_bytes_of_any_length(tmp_path: Path, kind: str, dictionary: bool) -> None:
    """Avro's `bytes` with a precision, as schemas of other tools have them; Spark's reader fails on small ones."""
    schema = pa.schema([
        ("id", pa.string()),
        ("ts", pa.int32()),
        *((f"d{precision}", pa.decimal128(precision, 2)) for precision in (9, 18, 30)),
        ("box", pa.struct([("price", pa.decimal128(9, 2))])),
    ])  # fmt: skip
    table = headwater.create(tmp_path / "t", schema=schema, key="id", ordering="ts", kind=kind)
    prices = [None if row % 7 == 0 else Decimal(row % 50 - 20) / 4 for row in range(300)]
    held = pa.table(
        [
            [f"k{row:03d}" for row in range(300)],
            pa.array([1] * 300, pa.int32()),
            *(pa.array(prices, schema.field(name).type) for name in ("d9", "d18", "d30")),
            pa.array([{"price": price} for price in prices], schema.field("box").type),
        ],
        schema=schema,
    )
    table.bulk_insert(held)
    (file,) = (tmp_path / "t").glob("*.parquet")
    write_decimals_as_bytes(file, dictionary=dictionary)
    if kind == "mor":
        table.upsert(held.slice(5, 3))
    frame = load(spark(), str(tmp_path / "t"), metadata="false").select(*schema.names)
    assert rows(frame).sort_by("id").to_pydict() == held.to_pydict()
    wanted = [row for row in held.to_pylist() if row["d9"] is not None and row["d9"] > 3]
    assert rows(frame.where("d9 > 3 AND d18 > 3")).sort_by("id").to_pylist() == wanted


def write_decimals_as_bytes(file: Path, *, dictionary: bool) -> None:
    """The file's rows again, by a writer that takes any schema."""
    stored = pq.read_table(file)
    jvm = spark()._jvm
    parquet = jvm.org.apache.parquet
    kinds = {pa.string(): "binary {} (UTF8)", pa.int32(): "int32 {}"}

    def column(field: pa.Field) -> str:
        if pa.types.is_struct(field.type):
            return f"optional group {field.name} {{ {' '.join(map(column, field.type))} }}"
        if pa.types.is_decimal(field.type):
            return f"optional binary {field.name} (DECIMAL({field.type.precision}, {field.type.scale}));"
        return f"optional {kinds[field.type].format(field.name)};"

    schema = parquet.schema.MessageTypeParser.parseMessageType(
        f"message rows {{ {' '.join(map(column, stored.schema))} }}"
    )
    file.unlink()
    builder = parquet.hadoop.example.ExampleParquetWriter.builder(jvm.org.apache.hadoop.fs.Path(str(file)))
    writer = builder.withType(schema).withDictionaryEncoding(dictionary).build()

    def fill(group: Any, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, dict):
                fill(group.addGroup(name), value)
            elif isinstance(value, Decimal):
                number = int(value.scaleb(2))
                content = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
                group.append(name, parquet.io.api.Binary.fromConstantByteArray(content))
            elif value is not None:
                group.append(name, value)

    for row in stored.to_pylist():
        group = parquet.example.data.simple.SimpleGroup(schema)
        fill(group, row)
        writer.write(group)
    writer.close()
