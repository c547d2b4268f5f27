"""Tables by path, by a warehouse's name and through the session catalog; time travel in SQL; nothing else changes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.fixtures.suites import FixtureTable, tables
from tests.spark.session import executed_plan, load, rows, spark

import headwater


def traveller() -> FixtureTable:
    """A merge-on-read table with at least two commits to travel between."""
    return next(
        table
        for table in tables("generated")
        if table.kind == "MOR" and sum(case.mode == "time_travel" for case in table.cases) >= 2
    )


@pytest.fixture(scope="session")  # as long as Spark keeps the catalog that is made of it
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("warehouse")
    shutil.copytree(traveller().path(), folder / "db" / "trips")
    session = spark()
    session.conf.set("spark.sql.catalog.lake", "io.headwater.spark.HeadwaterCatalog")
    session.conf.set("spark.sql.catalog.lake.warehouse", str(folder))
    yield folder
    session.conf.unset("spark.sql.catalog.lake")


def counts(session: SparkSession, text: str) -> int:
    return int(session.sql(text).collect()[0][0])


def test_table_of_a_warehouse(warehouse: Path) -> None:
    expected = headwater.open(warehouse / "db" / "trips").scan().count()
    assert counts(spark(), "SELECT count(_hoodie_record_key) FROM lake.db.trips") == expected


def test_namespaces_and_tables_are_folders(warehouse: Path) -> None:
    (warehouse / "db" / "not_a_table").mkdir()
    assert [row[0] for row in spark().sql("SHOW NAMESPACES IN lake").collect()] == ["db"]
    assert [row.tableName for row in spark().sql("SHOW TABLES IN lake.db").collect()] == ["trips"]


def test_path_as_a_name(warehouse: Path) -> None:
    path = warehouse / "db" / "trips"
    expected = headwater.open(path).scan().count()
    assert counts(spark(), f"SELECT count(_hoodie_record_key) FROM headwater.`{path}`") == expected


def test_table_that_is_not_there(warehouse: Path) -> None:
    with pytest.raises(AnalysisException, match=r"(?i)not.?found|cannot be found"):
        spark().sql("SELECT * FROM lake.db.nothing").collect()


def test_time_travel_in_sql(warehouse: Path) -> None:
    table = traveller()
    for case in table.cases:
        if case.mode == "time_travel":
            asked = f"SELECT count(_hoodie_record_key) FROM lake.db.trips VERSION AS OF '{case.opts['as_of']}'"
            assert counts(spark(), asked) == len(case.rows)


def test_time_travel_by_timestamp(warehouse: Path) -> None:
    expected = headwater.open(warehouse / "db" / "trips").scan().count()
    asked = "SELECT count(_hoodie_record_key) FROM lake.db.trips TIMESTAMP AS OF '2999-01-01 00:00:00'"
    assert counts(spark(), asked) == expected
    with pytest.raises(Exception, match="InstantNotFound"):
        spark().sql("SELECT * FROM lake.db.trips TIMESTAMP AS OF '1999-01-01'").collect()


def test_time_travel_by_sparks_own_options(warehouse: Path) -> None:
    """Spark 4 loads a named table by these, and hands them on to its scan."""
    case = next(case for case in traveller().cases if case.mode == "time_travel")
    session = spark()
    newest = session.table("lake.db.trips").count()
    for name, value, expected in (
        ("timestampAsOf", "2999-01-01 00:00:00", newest),
        ("versionAsOf", case.opts["as_of"], len(case.rows)),
    ):
        frame = session.read.option(name, value).table("lake.db.trips")
        assert rows(frame).num_rows == expected
        assert frame.where("length(_hoodie_record_key) > 0").count() == expected
    with pytest.raises(Exception, match="InstantNotFound"):
        session.read.option("timestampAsOf", "1999-01-01").table("lake.db.trips").collect()


@pytest.mark.parametrize("name", ["as-of", "as.of.instant", "AS-OF"])
def test_hudis_own_option_names(warehouse: Path, name: str) -> None:
    case = next(case for case in traveller().cases if case.mode == "time_travel")
    found = rows(load(spark(), str(warehouse / "db" / "trips"), **{name: case.opts["as_of"]}))
    assert found.num_rows == len(case.rows)


def test_columns_in_another_case(warehouse: Path) -> None:
    frame = load(spark(), str(warehouse / "db" / "trips"))
    assert frame.select("_HOODIE_RECORD_KEY").count() == frame.count()


@pytest.fixture
def session_catalog(warehouse: Path) -> Iterator[SparkSession]:
    """A session whose own catalog is Headwater's, with what other programs left in it."""
    session = spark().newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "io.headwater.spark.HeadwaterSessionCatalog")
    yield session
    for name in ("by_headwater", "by_hudi", "by_spark"):
        session.sql(f"DROP TABLE IF EXISTS {name}")


def make_by_hudi(session: SparkSession, path: Path) -> None:
    """The entry that `CREATE TABLE by_hudi USING hudi LOCATION …` of a session with Hudi's jar leaves in the catalog.

    Spark refuses that statement where no source named hudi is on the class path, so another entry is changed.
    """
    session.sql(f"CREATE TABLE by_hudi USING headwater LOCATION '{path}'")
    catalog = session._jsparkSession.sessionState().catalog()
    entry = catalog.externalCatalog().getTable("default", "by_hudi")
    fields = [entry.productElement(index) for index in range(entry.productArity())]
    provider = next(i for i, field in enumerate(fields) if str(getattr(field, "toString", str)()) == "Some(headwater)")
    fields[provider] = session._jvm.scala.Option.apply("hudi")
    catalog.externalCatalog().alterTable(entry.copy(*fields))


@pytest.mark.parametrize("provider", ["headwater", "hudi"])
def test_tables_of_the_session_catalog(warehouse: Path, session_catalog: SparkSession, provider: str) -> None:
    path = warehouse / "db" / "trips"
    if provider == "hudi":
        make_by_hudi(session_catalog, path)
    else:
        session_catalog.sql(f"CREATE TABLE by_headwater USING headwater LOCATION '{path}'")
    name = f"by_{provider}"
    expected = headwater.open(path).scan().to_arrow()
    frame = session_catalog.table(name)
    assert frame.columns == expected.column_names
    assert "slices: " in executed_plan(frame).toString()
    found = rows(frame)
    key = "_hoodie_record_key"
    assert sorted(found.column(key).to_pylist()) == sorted(expected.column(key).to_pylist())
    for case in traveller().cases:
        if case.mode == "time_travel":
            asked = f"SELECT count({key}) FROM {name} VERSION AS OF '{case.opts['as_of']}'"
            assert counts(session_catalog, asked) == len(case.rows)


def test_other_tables_of_the_session_catalog_are_sparks(session_catalog: SparkSession, tmp_path: Path) -> None:
    session_catalog.sql(f"CREATE TABLE by_spark (id INT) USING parquet LOCATION '{tmp_path / 'plain'}'")
    session_catalog.sql("INSERT INTO by_spark VALUES (1), (2)")
    frame = session_catalog.table("by_spark")
    assert sorted(row.id for row in frame.collect()) == [1, 2]
    assert "FileScan parquet" in executed_plan(frame).toString()


def test_other_tables_are_left_as_they_are(warehouse: Path, tmp_path: Path) -> None:
    session = spark()
    session.range(5).write.parquet(str(tmp_path / "plain"))
    assert session.read.parquet(str(tmp_path / "plain")).count() == 5
    session.range(3).createOrReplaceTempView("three")
    assert counts(session, "SELECT count(*) FROM three") == 3
