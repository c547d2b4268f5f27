"""What Spark's optimizer gets to know and pushes down, read from the executed plan. A section per phase of RFC-98."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from tests.fixtures.suites import FixtureTable, tables
from tests.spark.session import executed_plan, load, rows, scan_metrics, spark, using

import headwater


def table_with(kind: str, *, partitions: int = 2) -> FixtureTable:
    """A table of a kind with several partitions, and logs where it is merge-on-read."""
    for table in tables("generated"):
        if table.kind != kind:
            continue
        opened = headwater.open(table.path())
        if len(opened.hudi.config.partition_fields) != 1:
            continue
        plan = opened.scan().plan()
        if len({task.partition.path for task in plan.tasks}) < partitions or any(
            not task.partition.values or not task.slice.paths[0].endswith(".parquet") for task in plan.tasks
        ):
            continue
        if kind == "COW" or any(task.slice.base_file and task.slice.delta_files for task in plan.tasks):
            return table
    raise AssertionError(f"no {kind} table with {partitions} partitions")


@pytest.fixture(params=["COW", "MOR"])
def partitioned(request: pytest.FixtureRequest) -> FixtureTable:
    return table_with(request.param)


def plan_text(frame: DataFrame) -> str:
    return str(executed_plan(frame).toString())


def partition_filter(table: FixtureTable) -> tuple[str, str]:
    """A filter that one partition alone matches, and the column's name."""
    opened = headwater.open(table.path())
    (name,) = opened.hudi.config.partition_fields
    value = opened.scan().plan().tasks[0].partition.as_mapping()[name]
    return f"{name} = '{value}'", name


# -- Phase 1: end to end ---------------------------------------------------------------------------------------------


def test_only_asked_for_columns_are_read(partitioned: FixtureTable) -> None:
    frame = load(spark(), str(partitioned.path())).select("_hoodie_record_key")
    (scan,) = re.findall(r"BatchScan [^\n]*", plan_text(frame))[:1]
    assert "_hoodie_record_key" in scan
    assert "_hoodie_commit_time" not in scan


# -- Phase 2: filters ------------------------------------------------------------------------------------------------


def test_partition_filters_are_not_evaluated_again(partitioned: FixtureTable) -> None:
    where, name = partition_filter(partitioned)
    frame = load(spark(), str(partitioned.path())).where(where)
    text = plan_text(frame)
    assert re.search(rf"fully pushed: \[[^\]]*{name}", text), text
    assert not re.search(rf"Filter \([^\n]*{name}#", text), text
    assert rows(frame).num_rows == headwater.open(partitioned.path()).scan(filter=where).count()


def test_data_filters_are_pushed_and_evaluated_again(partitioned: FixtureTable) -> None:
    frame = load(spark(), str(partitioned.path()))
    key = frame.select("_hoodie_record_key").first()[0]
    text = plan_text(frame.where(f"_hoodie_record_key = '{key}'"))
    assert re.search(r"partially pushed: \[[^\]]*_hoodie_record_key", text), text
    assert re.search(r"Filter [^\n]*_hoodie_record_key#", text), text


def test_filters_that_nobody_knows_stay_with_spark(partitioned: FixtureTable) -> None:
    text = plan_text(load(spark(), str(partitioned.path())).where("crc32(_hoodie_record_key) > 5"))
    assert "fully pushed: []" in text
    assert re.search(r"Filter [^\n]*crc32", text), text


def test_plans_do_not_grow_with_the_literals_of_a_filter(partitioned: FixtureTable) -> None:
    values = ", ".join(f"'{number:040d}'" for number in range(2_000))
    frame = load(spark(), str(partitioned.path())).where(f"_hoodie_record_key IN ({values})")
    # Spark 3.5 words its own filter in full.
    scan = plan_text(frame).partition("BatchScan")[2]
    assert "partially pushed: [" in scan
    assert len(scan) < 20_000
    assert frame.count() == 0


def test_pruned_partitions_are_not_read(partitioned: FixtureTable) -> None:
    where, _ = partition_filter(partitioned)
    frame = load(spark(), str(partitioned.path()))
    assert frame.where(where).rdd.getNumPartitions() <= frame.rdd.getNumPartitions()
    assert re.search(r"skipped_by_partition: [1-9]", plan_text(frame.where(where)))


# -- Phase 3: statistics ---------------------------------------------------------------------------------------------


def statistics(frame: DataFrame) -> tuple[int, int | None]:
    stats = frame._jdf.queryExecution().optimizedPlan().stats()
    count = stats.rowCount()
    return int(str(stats.sizeInBytes())), int(str(count.get())) if count.isDefined() else None


def test_size_is_known(partitioned: FixtureTable) -> None:
    size, _ = statistics(load(spark(), str(partitioned.path())))
    assert 0 < size < 10**8


def test_size_is_that_of_what_is_left_after_pruning(partitioned: FixtureTable) -> None:
    where, _ = partition_filter(partitioned)
    frame = load(spark(), str(partitioned.path()))
    assert statistics(frame.where(where))[0] < statistics(frame)[0]


def test_small_tables_are_broadcast(partitioned: FixtureTable) -> None:
    frame = load(spark(), str(partitioned.path())).select("_hoodie_record_key")
    big = spark().range(10_000_000).selectExpr("cast(id AS string) AS _hoodie_record_key")
    assert "BroadcastHashJoin" in plan_text(big.join(frame, "_hoodie_record_key"))


# -- Phase 4: schema evolution ---------------------------------------------------------------------------------------


EVOLVED = [table for table in tables("generated") if table.name.startswith("evo")]


@pytest.mark.parametrize("table", EVOLVED[::4], ids=lambda table: table.name)
def test_evolved_tables_are_columnar(table: FixtureTable) -> None:
    frame = load(spark(), str(table.path()))
    assert is_columnar(frame)
    assert rows(frame).num_rows == headwater.open(table.path()).scan().count()


@pytest.mark.parametrize("table", EVOLVED, ids=lambda table: table.name)
def test_plan_says_which_files_are_left_to_the_sidecar(table: FixtureTable) -> None:
    """The footers decide on the executors; the commits' schemas foretell it."""
    frame = load(spark(), str(table.path()))
    told = re.findall(r"(\d+) (?:parquet|positional) \(left to the sidecar: ", slices(frame))
    streamed = re.findall(r"(\d+) stream", slices(frame))
    assert scan_metrics(frame)["slices_by_sidecar"] == sum(map(int, (*told, *streamed)))


def slices(frame: DataFrame) -> str:
    """How a plan says that slices are read."""
    found = re.search(r"; slices: (.*?); slices_total", plan_text(frame))
    assert found is not None
    return found[1]


# -- Phase 5: columns ------------------------------------------------------------------------------------------------


def is_columnar(frame: DataFrame) -> bool:
    return "ColumnarToRow" in plan_text(frame)


def test_scans_are_columnar(partitioned: FixtureTable) -> None:
    assert is_columnar(load(spark(), str(partitioned.path())).where("length(_hoodie_record_key) > 0"))


def test_merging_reader_says_so(partitioned: FixtureTable) -> None:
    with using("merge") as session:
        text = plan_text(load(session, str(partitioned.path())))
    assert "reader=merge" in text


# -- Beyond the RFC --------------------------------------------------------------------------------------------------


def test_count_is_answered_without_reading_rows(partitioned: FixtureTable) -> None:
    frame = load(spark(), str(partitioned.path())).groupBy().count()
    text = plan_text(frame)
    assert "LocalTableScan" in text or "partial aggregates: COUNT(*)" in text, text
    assert frame.collect()[0][0] == headwater.open(partitioned.path()).scan().count()


def without_rows(table: FixtureTable, folder: Path) -> Path:
    """A copy whose base files have their footers alone: whoever looks at a row stumbles."""
    copy = Path(shutil.copytree(table.path(), folder / table.name))
    for task in headwater.open(copy).scan().plan().tasks:
        for path in task.slice.paths:
            content = bytearray((copy / path).read_bytes())
            footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
            content[4:footer] = b"\xff" * (footer - 4)
            (copy / path).write_bytes(content)
    return copy


def whole_number_columns(table: FixtureTable) -> list[str]:
    return [field.name for field in headwater.open(table.path()).schema if pa.types.is_signed_integer(field.type)]


PLAIN = [
    table
    for table in tables("generated")
    if table.kind == "COW" and not table.name.startswith(("orc", "evo")) and whole_number_columns(table)
]


@pytest.mark.parametrize("table", PLAIN[::4], ids=lambda table: table.name)
def test_cost_of_aggregates_does_not_grow_with_rows(table: FixtureTable, tmp_path: Path) -> None:
    """COUNT, MIN and MAX look at no row, however many there are: the plan has no scan, and files need have none."""
    names = ["_hoodie_record_key", "_hoodie_commit_time", *whole_number_columns(table)[:2]]
    asked = ["count(*)", *(f"{function}({name})" for name in names for function in ("count", "min", "max"))]
    expected = load(spark(), str(table.path()), **{"push-down-aggregates": "false"}).selectExpr(*asked).collect()
    copy = without_rows(table, tmp_path)
    with pytest.raises(Exception, match=r"CorruptFile|Parquet|parquet"):
        rows(load(spark(), str(copy)))
    frame = load(spark(), str(copy)).selectExpr(*asked)
    text = plan_text(frame)
    assert "LocalTableScan" in text
    assert "BatchScan" not in text
    assert frame.collect() == expected


def test_limit_is_pushed(partitioned: FixtureTable) -> None:
    frame = load(spark(), str(partitioned.path())).limit(2)
    assert "limit: 2" in plan_text(frame)
    assert rows(frame).num_rows == 2


def test_first_rows_of_an_order_are_pushed(partitioned: FixtureTable) -> None:
    _, name = partition_filter(partitioned)
    frame = load(spark(), str(partitioned.path()), mode="read_optimized").orderBy(f"{name}").limit(1)
    text = plan_text(frame)
    assert re.search(rf"first rows, partially pushed: 1 by {name} ASC NULLS FIRST", text), text
    assert re.search(r"TakeOrderedAndProject\(limit=1", text), "Spark does its part again"
    assert re.search(r"skipped_by_(partition|statistics): [1-9]", text), text
    everything = load(spark(), str(partitioned.path()), mode="read_optimized").select(name)
    assert [row[name] for row in frame.collect()] == sorted(row[0] for row in everything.collect())[:1]


@pytest.mark.parametrize("order", ["length({key}), {name}", "{name} || 'x'"])
def test_order_by_an_expression_is_sparks(partitioned: FixtureTable, order: str) -> None:
    _, name = partition_filter(partitioned)
    load(spark(), str(partitioned.path())).createOrReplaceTempView("ordered")
    columns = order.format(key="_hoodie_record_key", name=name)
    text = plan_text(spark().sql(f"SELECT * FROM ordered ORDER BY {columns} LIMIT 2"))
    assert "first rows" not in text


def test_first_rows_behind_a_filter_of_sparks_are_not_pushed(partitioned: FixtureTable) -> None:
    _, name = partition_filter(partitioned)
    frame = load(spark(), str(partitioned.path())).where("crc32(_hoodie_record_key) > 5").orderBy(name).limit(1)
    assert "first rows" not in plan_text(frame)


def test_metadata_columns(partitioned: FixtureTable) -> None:
    path = partitioned.path()
    for way in ("dsv2", "merge"):
        with using(way) as session:
            found = rows(load(session, str(path)).select("_file", "_pos", "_partition", "_hoodie_record_key"))
        names = {Path(file).name for file in found.column("_file").to_pylist()}
        tasks = headwater.open(path).scan().plan().tasks
        assert names <= {Path(task.slice.paths[0]).name for task in tasks}
        assert pa.types.is_struct(found.schema.field("_partition").type)
        assert found.num_rows == headwater.open(path).scan().count()
        placed = [
            place
            for place in zip(*(found.column(n).to_pylist() for n in ("_file", "_pos")), strict=True)
            if place[1] is not None
        ]
        assert placed
        assert len(set(placed)) == len(placed), "no two rows lie at the same place"
