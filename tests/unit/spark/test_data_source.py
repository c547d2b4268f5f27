"""The Python Data Source, called as Spark's workers call it; no JVM."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.fixtures.suites import FixtureTable, tables

import headwater
from headwater.errors import InvalidArgument, SparkSetupError
from headwater.hudi.evolution import conform

pytest.importorskip("pyspark.sql.datasource")

from headwater.spark import register_fallback
from headwater.spark.data_source import (
    HeadwaterDataSource,
    HeadwaterOnly,
    HeadwaterReader,
    PushingDataSource,
    PushingReader,
    arrow_schema_of,
    as_predicate,
)

TABLES = tables("generated")


def read(reader: HeadwaterReader, schema: pa.Schema) -> pa.Table:
    """All rows, each partition by a copy that went through pickle, as an executor has it."""
    copy: HeadwaterReader = pickle.loads(pickle.dumps(reader))
    found: list[pa.RecordBatch] = []
    for partition in reader.partitions():
        found += copy.read(pickle.loads(pickle.dumps(partition)))
    for batch in found:
        assert batch.schema.equals(schema)
    return pa.Table.from_batches(found, schema)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_gives_the_rows_of_a_scan(table: FixtureTable) -> None:
    source = HeadwaterDataSource({"path": str(table.path())})
    schema = source.schema()
    arrow = arrow_schema_of(schema)
    expected = conform(headwater.open(table.path()).scan().to_arrow(), arrow)
    found = read(source.reader(schema), arrow)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def path(kind: str = "MOR") -> Path:
    return next(table for table in TABLES if table.kind == kind).path()


def test_options_are_those_of_the_connector() -> None:
    where = str(path())
    base = HeadwaterDataSource({"path": where, "mode": "read_optimized"})
    rows = read(base.reader(base.schema()), arrow_schema_of(base.schema())).num_rows
    assert rows == headwater.open(where).scan(mode="read_optimized").count()
    session = HeadwaterDataSource({"path": where, "spark.headwater.read.mode": "read_optimized"})
    assert read(session.reader(session.schema()), arrow_schema_of(session.schema())).num_rows == rows
    with pytest.raises(InvalidArgument, match="did you mean 'mode'"):
        HeadwaterDataSource({"path": where, "mod": "snapshot"}).schema()
    with pytest.raises(InvalidArgument, match="no path"):
        HeadwaterDataSource({}).schema()


@pytest.mark.parametrize("of_a_spark", [lambda found: None, lambda found: found(None)], ids=["4.0", "later"])
def test_table_that_has_no_rows_is_read_as_such(of_a_spark: Any) -> None:
    from pyspark.sql.datasource import InputPartition

    source = HeadwaterDataSource({"path": str(path())})
    assert list(source.reader(source.schema()).read(of_a_spark(InputPartition))) == []


def test_names() -> None:
    import pyspark_headwater

    assert pyspark_headwater.DefaultSource.name() == PushingDataSource.name() == "headwater_python"
    assert HeadwaterOnly.name() == "headwater"


def test_reader_takes_filters_only_where_spark_will_give_them() -> None:
    assert not hasattr(HeadwaterReader, "pushFilters") or "pushFilters" not in vars(HeadwaterReader)
    assert "pushFilters" in vars(PushingReader)


def filters() -> Any:
    from pyspark.sql import datasource

    if not hasattr(datasource, "Filter"):
        pytest.skip("this Spark pushes no filters")
    return datasource


def test_filters_leave_out_slices_and_rows() -> None:
    kinds = filters()
    for table in TABLES:
        source = PushingDataSource({"path": str(table.path())})
        schema = source.schema()
        rows = headwater.open(table.path()).scan().to_arrow()
        keys = rows.column("_hoodie_record_key").drop_null()
        if not len(keys):
            continue
        reader = source.reader(schema)
        assert isinstance(reader, PushingReader)
        filter_ = kinds.EqualTo(("_hoodie_record_key",), keys[0].as_py())
        assert list(reader.pushFilters([filter_])) == [filter_], "Spark looks again"
        found = read(reader, arrow_schema_of(schema))
        assert found.num_rows == keys.to_pylist().count(keys[0].as_py())


def test_filter_on_a_partition_is_not_evaluated_again() -> None:
    kinds = filters()
    for table in TABLES:
        target = headwater.open(table.path())
        names = [n for n in target.hudi.config.partition_fields if n in target.schema.names]
        rows = target.scan().to_arrow()
        if not names or not rows.num_rows or not pa.types.is_string(target.schema.field(names[0]).type):
            continue
        value = rows.column(names[0])[0].as_py()
        source = PushingDataSource({"path": str(table.path())})
        reader = source.reader(source.schema())
        assert isinstance(reader, PushingReader)
        left = list(reader.pushFilters([kinds.EqualTo((names[0],), value)]))
        if left:
            continue  # paths that do not tell the value
        found = read(reader, arrow_schema_of(source.schema()))
        assert found.num_rows == rows.column(names[0]).to_pylist().count(value)
        return
    pytest.fail("no table is partitioned by its paths")


SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.decimal128(9, 2)),
        ("st", pa.struct([("x", pa.int8())])),
    ]
)


def test_filters_as_predicates() -> None:
    k = filters()
    moment = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert as_predicate(k.EqualTo(("i",), 3), SCHEMA) == {
        "op": "=",
        "args": [{"col": ["i"]}, {"lit": 3, "type": "integer"}],
    }
    assert as_predicate(k.Not(k.IsNull(("s",))), SCHEMA) == {
        "op": "NOT",
        "args": [{"op": "IS_NULL", "args": [{"col": ["s"]}]}],
    }
    for filter_ in (
        k.GreaterThan(("st", "x"), 1),
        k.In(("s",), ("a", "b")),
        k.StringStartsWith(("s",), "a"),
        k.LessThan(("d",), date(2026, 1, 1)),
        k.LessThanOrEqual(("t",), moment),
        k.GreaterThanOrEqual(("n",), Decimal("1.5")),
        k.EqualNullSafe(("f",), 1.5),
    ):
        assert as_predicate(filter_, SCHEMA) is not None, filter_


def test_what_is_not_surely_the_same_is_left_to_spark() -> None:
    k = filters()
    for filter_ in (
        k.EqualTo(("i",), "3"),
        k.EqualTo(("t",), datetime(2026, 1, 1)),
        k.EqualTo(("st",), {"x": 1}),
        k.EqualTo(("nope",), 1),
        k.In(("i",), (1, "2")),
        k.EqualTo(("f",), 1),
        object(),
    ):
        assert as_predicate(filter_, SCHEMA) is None, filter_


class OldSession:
    version = "3.5.4"


def test_spark_before_4_has_no_such_sources() -> None:
    with pytest.raises(SparkSetupError, match=r"Spark 3\.5\.4 has no Python data sources"):
        register_fallback(OldSession())  # type: ignore[arg-type]


class Session:
    """A session without a connector, on a server."""

    version = "4.1.0"

    def __init__(self, known: set[str], error: str = "") -> None:
        self.known, self.error = known, error
        self.conf = self.dataSource = self.read = self

    def get(self, name: str, default: Any) -> Any:
        return default

    def register(self, source: Any) -> None:
        if self.error:
            raise ValueError(self.error)
        self.known.add(source.name())

    def format(self, name: str) -> Session:
        return self

    def load(self, path: str) -> Session:
        return self

    @property
    def schema(self) -> None:
        raise ValueError("[DATA_SOURCE_NOT_FOUND] headwater")


def test_fallback_has_the_name_of_the_connector_where_that_is_not_there() -> None:
    known: set[str] = set()
    register_fallback(Session(known))  # type: ignore[arg-type]
    assert known == {"headwater", "headwater_python"}


def test_source_that_spark_found_itself_is_no_error() -> None:
    register_fallback(Session(set(), "[DATA_SOURCE_ALREADY_EXISTS] Data source"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="something else"):
        register_fallback(Session(set(), "something else"))  # type: ignore[arg-type]
