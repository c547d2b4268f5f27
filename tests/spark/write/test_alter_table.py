"""ALTER TABLE in SQL, on tables of a warehouse and of the session catalog; stored rows are read by Spark as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from tests.spark.session import spark

import headwater

COLUMNS = "id STRING, ts BIGINT, qty INT, price FLOAT, st STRUCT<a: INT, b: STRING>"


@pytest.fixture(scope="session")  # as long as Spark keeps the catalog that is made of it
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mill")
    spark().conf.set("spark.sql.catalog.mill", "io.headwater.spark.HeadwaterCatalog")
    spark().conf.set("spark.sql.catalog.mill.warehouse", str(folder))
    return folder


@pytest.fixture(params=[("cow", 9), ("mor", 8), ("mor", 6)], ids=["cow-v9", "mor-v8", "mor-v6"])
def table(warehouse: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    kind, version = request.param
    sql(
        f"CREATE TABLE mill.t ({COLUMNS}) USING headwater "
        f"TBLPROPERTIES (key = 'id', ordering = 'ts', kind = '{kind}', version = '{version}')"
    )
    sql("INSERT INTO mill.t VALUES ('a', 1, 1, 1.5, named_struct('a', 1, 'b', 'x'))")
    yield "mill.t"
    sql("DROP TABLE mill.t")


def sql(text: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark().sql(text).collect()]


def columns(table: str) -> list[str]:
    return [name for name in spark().table(table).columns if not name.startswith("_hoodie")]


def test_columns_are_added_moved_and_widened(table: str) -> None:
    sql(f"ALTER TABLE {table} ADD COLUMNS (note STRING COMMENT 'why' AFTER id, st.c DATE)")
    sql(f"ALTER TABLE {table} ALTER COLUMN qty TYPE BIGINT")
    sql(f"ALTER TABLE {table} ALTER COLUMN qty FIRST")
    sql(f"ALTER TABLE {table} ALTER COLUMN qty COMMENT 'pieces'")
    assert columns(table) == ["qty", "id", "note", "ts", "price", "st"]
    described = {row[0]: (row[1], row[2]) for row in sql(f"DESCRIBE TABLE {table}")}
    assert described["qty"] == ("bigint", "pieces")
    assert described["note"] == ("string", "why")
    sql(
        f"INSERT INTO {table} VALUES "
        "(5000000000, 'b', 'new', 1, 2.5, named_struct('a', 2, 'b', 'y', 'c', date'2026-01-01'))"
    )
    assert sorted(sql(f"SELECT id, qty, note, st.c IS NULL FROM {table}")) == [
        ("a", 1, None, True),
        ("b", 5000000000, "new", False),
    ]


def test_columns_are_renamed_and_dropped(warehouse: Path, table: str) -> None:
    sql(f"ALTER TABLE {table} RENAME COLUMN price TO cost")
    sql(f"ALTER TABLE {table} RENAME COLUMN st.b TO bb")
    sql(f"ALTER TABLE {table} DROP COLUMN qty")
    sql(f"ALTER TABLE {table} ADD COLUMN qty STRING")
    assert columns(table) == ["id", "ts", "cost", "st", "qty"]
    sql(f"INSERT INTO {table} VALUES ('b', 1, 2.5, named_struct('a', 2, 'bb', 'y'), 'many')")
    sql(f"INSERT INTO {table} VALUES ('a', 2, 3.5, named_struct('a', 1, 'bb', 'z'), 'one'), ('c', 1, 1, NULL, NULL)")
    expected = [("a", 3.5, "z", "one"), ("b", 2.5, "y", "many"), ("c", 1.0, None, None)]
    assert sorted(sql(f"SELECT id, cost, st.bb, qty FROM {table}")) == expected
    assert sql(f"SELECT id FROM {table} WHERE cost > 2 AND qty = 'many'") == [("b",)]
    found = headwater.open(warehouse / "t").scan(columns=["id", "cost"]).to_arrow().sort_by("id")
    assert found.column("cost").to_pylist() == [3.5, 2.5, 1.0]


def test_what_cannot_be_altered_is_refused_in_a_sentence(table: str) -> None:
    for text, message in (
        ("RENAME COLUMN id TO key", "record key"),
        ("DROP COLUMN ts", "ordering"),
        ("SET TBLPROPERTIES ('hoodie.table.name' = 'x')", "cannot be set later"),
        ("RENAME TO mill.other", "renames none"),
    ):
        with pytest.raises(Exception, match=message) as caught:
            sql(f"ALTER TABLE {table} {text}")
        assert "Traceback" not in str(caught.value)
    with pytest.raises(AnalysisException):
        sql(f"ALTER TABLE {table} DROP COLUMN nothing")
    sql(f"ALTER TABLE {table} DROP COLUMN IF EXISTS nothing")


def test_properties_that_are_ours_are_set(table: str) -> None:
    sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('headwater.read.split-size' = '1m', 'comment' = 'trips')")
    assert dict(sql(f"SHOW TBLPROPERTIES {table}"))["headwater.read.split-size"] == "1m"
    sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('headwater.read.split-size')")
    assert "headwater.read.split-size" not in dict(sql(f"SHOW TBLPROPERTIES {table}"))


def test_tables_of_the_session_catalog_are_altered(tmp_path: Path) -> None:
    session = spark().newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "io.headwater.spark.HeadwaterSessionCatalog")
    session.sql(
        f"CREATE TABLE altered ({COLUMNS}) USING headwater TBLPROPERTIES (key = 'id') LOCATION '{tmp_path / 't'}'"
    )
    try:
        session.sql("INSERT INTO altered VALUES ('a', 1, 1, 1.5, NULL)")
        session.sql("ALTER TABLE altered RENAME COLUMN qty TO amount")
        session.sql("ALTER TABLE altered ADD COLUMN note STRING")
        assert [tuple(row) for row in session.sql("SELECT id, amount, note FROM altered").collect()] == [("a", 1, None)]
    finally:
        session.sql("DROP TABLE altered")
