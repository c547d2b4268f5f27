"""SQL that writes: CREATE TABLE, AS SELECT, INSERT INTO and OVERWRITE, DELETE, TRUNCATE and DROP, and `saveAsTable`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.spark.session import spark
from tests.spark.write.frames import batch, on_executors

import headwater
from headwater.errors import InvalidArgument, WriteRefused

COLUMNS = "id STRING, ts BIGINT, city STRING COMMENT 'where', fare DOUBLE"


@pytest.fixture(scope="session")  # as long as Spark keeps the catalog that is made of it
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pond")
    spark().conf.set("spark.sql.catalog.pond", "io.headwater.spark.HeadwaterCatalog")
    spark().conf.set("spark.sql.catalog.pond.warehouse", str(folder))
    return folder


@pytest.fixture
def trips(warehouse: Path) -> Iterator[str]:
    """A partitioned table with three rows, made in SQL."""
    sql(
        f"CREATE TABLE pond.db.trips ({COLUMNS}) USING headwater PARTITIONED BY (city) "
        "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor')"
    )
    sql("INSERT INTO pond.db.trips VALUES ('a', 1, 'oslo', 1.5), ('b', 1, 'oslo', 2), ('c', 1, 'rome', 3)")
    yield "pond.db.trips"
    sql("DROP TABLE IF EXISTS pond.db.trips")


def sql(text: str) -> None:
    spark().sql(text)


def found(table: str, columns: str = "id") -> list[object]:
    rows = spark().sql(f"SELECT {columns} FROM {table}").collect()
    return sorted(tuple(row) if len(row) > 1 else row[0] for row in rows)


def test_create_table_makes_a_table_of_its_properties(warehouse: Path, trips: str) -> None:
    table = headwater.open(warehouse / "db" / "trips")
    config = table.hudi.config
    assert (config.record_key_fields, config.ordering_fields, config.partition_fields) == (("id",), ("ts",), ("city",))
    assert config.is_merge_on_read
    assert table.scan(columns=["id", "fare"]).to_arrow().sort_by("id").to_pylist() == [
        {"id": "a", "fare": 1.5},
        {"id": "b", "fare": 2.0},
        {"id": "c", "fare": 3.0},
    ]
    sql(f"CREATE TABLE IF NOT EXISTS {trips} (id INT) USING headwater")
    with pytest.raises(AnalysisException, match="already exists"):
        sql(f"CREATE TABLE {trips} (id INT) USING headwater")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("USING headwater TBLPROPERTIES (primarykeys = 'id')", "did you mean 'primarykey'"),
        ("USING headwater TBLPROPERTIES (key = 'nothing')", "no column 'nothing'"),
        ("USING parquet", "holds Headwater tables"),
        ("USING headwater LOCATION '/elsewhere'", "cannot remember the location"),
        ("USING headwater PARTITIONED BY (bucket(4, id))", "takes columns"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(warehouse: Path, text: str, message: str) -> None:
    with pytest.raises(AnalysisException, match=message) as caught:
        sql(f"CREATE TABLE pond.db.refused ({COLUMNS}) {text}")
    assert "Traceback" not in str(caught.value)
    assert not (warehouse / "db" / "refused").exists()


@pytest.mark.parametrize("version", [6, 8])
def test_what_show_create_table_says_makes_the_same_table(warehouse: Path, version: int) -> None:
    sql(
        f"CREATE TABLE pond.db.first ({COLUMNS}) USING headwater PARTITIONED BY (city) COMMENT 'trips' TBLPROPERTIES "
        f"(key = 'id', ordering = 'ts', kind = 'cow', version = '{version}', 'hive-style' = 'true', index = 'simple')"
    )
    text = spark().sql("SHOW CREATE TABLE pond.db.first").collect()[0][0]
    path = warehouse / "db" / "first"
    before = headwater.open(path).hudi
    sql("DROP TABLE pond.db.first")
    assert not path.exists()
    sql(text)
    after = headwater.open(path).hudi
    assert after.config.properties == before.config.properties
    assert after.schema.arrow == before.schema.arrow
    described = {row[0]: row[1] for row in spark().sql("DESCRIBE TABLE EXTENDED pond.db.first").collect()}
    assert (described["Provider"], described["Comment"], described["Location"]) == ("headwater", "trips", str(path))
    assert "where" in text
    sql("DROP TABLE pond.db.first PURGE")


def test_create_table_as_select(warehouse: Path) -> None:
    batch(0, 9).createOrReplaceTempView("source")
    for _ in range(2):
        sql(
            "CREATE TABLE IF NOT EXISTS pond.db.made USING headwater PARTITIONED BY (city) TBLPROPERTIES (key = 'id') "
            "AS SELECT * FROM source"
        )
    assert len(found("pond.db.made")) == 9
    with pytest.raises(InvalidArgument, match="no column 'nothing'"):
        sql("CREATE TABLE pond.db.other USING headwater TBLPROPERTIES (key = 'nothing') AS SELECT * FROM source")
    assert not (warehouse / "db" / "other").exists()
    sql("CREATE OR REPLACE TABLE pond.db.made USING headwater AS SELECT * FROM source WHERE city = 'c1'")
    assert len(found("pond.db.made")) == 3
    with pytest.raises(WriteRefused, match="no column v"):
        sql("CREATE OR REPLACE TABLE pond.db.made USING headwater AS SELECT id, city, ts, price FROM source")
    with pytest.raises(WriteRefused, match="key is id, not ts"):
        sql("REPLACE TABLE pond.db.made USING headwater TBLPROPERTIES (key = 'ts') AS SELECT * FROM source")
    sql("DROP TABLE pond.db.made")


def test_a_create_that_fails_half_way_leaves_no_table(warehouse: Path) -> None:
    batch(0, 9).selectExpr("id", "CAST(raise_error('too bad') AS string) AS v").createOrReplaceTempView("bad")
    with pytest.raises(Exception, match="too bad"):
        sql("CREATE TABLE pond.db.half USING headwater TBLPROPERTIES (key = 'id') AS SELECT * FROM bad")
    assert not (warehouse / "db" / "half").exists()


def test_insert_into_goes_by_position_or_by_name(trips: str) -> None:
    sql(f"INSERT INTO {trips} SELECT concat(id, '2'), ts, city, 7 FROM {trips}")
    sql(f"INSERT INTO {trips} (fare, id, ts, city) VALUES (1, 'd', 2, 'oslo')")
    sql(f"INSERT INTO {trips} PARTITION (city = 'bern') VALUES ('e', 2, 4.5)")
    assert found(trips) == ["a", "a2", "b", "b2", "c", "c2", "d", "e"]
    assert ("e", "bern", 4.5) in found(trips, "id, city, fare")
    sql(f"INSERT INTO {trips} SELECT * FROM {trips}")
    assert len(found(trips)) == 8
    with pytest.raises(AnalysisException, match=r"(?i)not enough data columns"):
        sql(f"INSERT INTO {trips} VALUES ('f', 2)")


def test_insert_into_updates_what_has_the_same_key_unless_told(trips: str) -> None:
    sql(f"INSERT INTO {trips} VALUES ('a', 2, 'oslo', 9)")
    assert found(trips, "id, fare") == [("a", 9.0), ("b", 2.0), ("c", 3.0)]
    spark().conf.set("hoodie.spark.sql.insert.into.operation", "insert")
    try:
        sql(f"INSERT INTO {trips} VALUES ('a', 3, 'rome', 9)")
    finally:
        spark().conf.unset("hoodie.spark.sql.insert.into.operation")
    assert found(trips) == ["a", "a", "b", "c"]


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_insert_overwrite(trips: str, mode: str) -> None:
    sql(f"INSERT OVERWRITE {trips} PARTITION (city = 'oslo') SELECT 'x', 1, 7")
    assert found(trips) == ["c", "x"]
    spark().conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    try:
        sql(f"INSERT OVERWRITE {trips} SELECT 'y', 1, 'oslo', 7")
    finally:
        spark().conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert found(trips) == (["y"] if mode == "static" else ["c", "y"])


def test_overwriting_a_partition_with_nothing_empties_it(trips: str) -> None:
    sql(f"INSERT OVERWRITE {trips} PARTITION (city = 'oslo') SELECT 'x', 1, 7 WHERE 1 > 2")
    assert found(trips) == ["c"]


def test_writers_of_data_frames(warehouse: Path, trips: str) -> None:
    rows = spark().sql("SELECT 'd' AS id, 5L AS ts, 'rome' AS city, 1.0D AS fare")
    rows.writeTo(trips).append()
    rows.selectExpr("'e'", "ts", "city", "fare").write.insertInto(trips)
    rows.selectExpr("city", "fare", "'f' AS id", "ts").write.format("headwater").mode("append").saveAsTable(trips)
    assert found(trips) == ["a", "b", "c", "d", "e", "f"]
    rows.writeTo(trips).overwritePartitions()
    assert found(trips) == ["a", "b", "d"]
    from pyspark.sql.functions import col

    rows.selectExpr("'g' AS id", "ts", "'oslo' AS city", "fare").writeTo(trips).overwrite(col("city") == "oslo")
    assert found(trips) == ["d", "g"]
    with pytest.raises(WriteRefused, match="partitions alone do not decide"):
        rows.writeTo(trips).overwrite(col("fare") > 3)
    rows.write.insertInto(trips, overwrite=True)
    assert found(trips) == ["d"]


def test_save_as_table(warehouse: Path) -> None:
    with on_executors():
        batch(0, 9).write.format("headwater").option("key", "id").partitionBy("city").saveAsTable("pond.db.saved")
    assert len(found("pond.db.saved")) == 9
    assert headwater.open(warehouse / "db" / "saved").hudi.config.record_key_fields == ("id",)
    with pytest.raises(AnalysisException, match="already exists"):
        batch(0, 9).write.format("headwater").saveAsTable("pond.db.saved")
    batch(0, 3).write.format("headwater").mode("ignore").saveAsTable("pond.db.saved")
    batch(0, 3).write.format("headwater").mode("overwrite").saveAsTable("pond.db.saved")
    assert len(found("pond.db.saved")) == 3
    assert len(headwater.open(warehouse / "db" / "saved").hudi.timeline.commits) == 2
    batch(0, 2).writeTo("pond.db.saved").using("headwater").createOrReplace()
    assert len(found("pond.db.saved")) == 2
    sql("DROP TABLE pond.db.saved")


def test_delete_and_truncate(trips: str) -> None:
    sql(f"DELETE FROM {trips} WHERE city = 'oslo' AND fare > 1.8")
    assert found(trips) == ["a", "c"]
    sql(f"TRUNCATE TABLE {trips}")
    assert found(trips) == []
    sql(f"INSERT INTO {trips} VALUES ('a', 1, 'oslo', 1.5)")
    sql(f"DELETE FROM {trips}")
    assert found(trips) == []


def test_drop_table(warehouse: Path, trips: str) -> None:
    path = warehouse / "db" / "trips"
    with pytest.raises(AnalysisException, match="PURGE"):
        sql(f"DROP TABLE headwater.`{path}`")
    assert path.exists()
    sql(f"DROP TABLE {trips}")
    assert not path.exists()
    with pytest.raises(AnalysisException, match=r"(?i)cannot be found|not found"):
        sql(f"DROP TABLE {trips}")
    sql(f"CREATE TABLE headwater.`{path}` ({COLUMNS}) USING headwater")
    sql(f"DROP TABLE headwater.`{path}` PURGE")
    assert not path.exists()


@pytest.fixture
def session() -> Iterator[SparkSession]:
    """A session whose own catalog is Headwater's."""
    made = spark().newSession()
    made.conf.set("spark.sql.catalog.spark_catalog", "io.headwater.spark.HeadwaterSessionCatalog")
    yield made
    for name in ("here", "there", "again"):
        made.sql(f"DROP TABLE IF EXISTS {name}")


def test_tables_of_the_session_catalog_are_written(session: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "there"
    session.sql(
        f"CREATE TABLE there ({COLUMNS}) USING headwater PARTITIONED BY (city) TBLPROPERTIES (key = 'id') "
        f"LOCATION '{path}'"
    )
    session.sql("INSERT INTO there VALUES ('a', 1, 'oslo', 1.5), ('b', 1, 'rome', 2)")
    session.sql("INSERT OVERWRITE there PARTITION (city = 'rome') VALUES ('c', 1, 2)")
    session.sql("DELETE FROM there WHERE id = 'a'")
    assert [row.id for row in session.table("there").collect()] == ["c"]
    assert headwater.open(path).scan().count() == 1
    session.sql("DROP TABLE there")
    assert path.exists(), "a table with a location of its own is not deleted"
    session.sql(f"CREATE TABLE there USING headwater LOCATION '{path}'")
    assert session.table("there").count() == 1
    with pytest.raises(AnalysisException, match="Leave the columns out"):
        session.sql(f"CREATE TABLE again ({COLUMNS}) USING headwater LOCATION '{path}'")


def test_managed_tables_of_the_session_catalog(session: SparkSession) -> None:
    session.sql("CREATE TABLE here USING headwater TBLPROPERTIES (key = 'id') AS SELECT 1 AS id, 'x' AS v")
    session.sql("INSERT INTO here VALUES (2, 'y')")
    session.sql("SELECT 1 AS id, 'z' AS v").writeTo("here").append()
    assert sorted(row.id for row in session.table("here").collect()) == [1, 2]
    place = {row[0]: row[1] for row in session.sql("DESCRIBE TABLE EXTENDED here").collect()}["Location"]
    path = Path(place.removeprefix("file:"))
    assert headwater.open(path).hudi.config.record_key_fields == ("id",)
    session.sql("DROP TABLE here")
    assert not path.exists()
    with pytest.raises(InvalidArgument):
        session.sql("CREATE TABLE here USING headwater TBLPROPERTIES (key = 'no') AS SELECT 1 AS id")
    assert not session.catalog.tableExists("here")
