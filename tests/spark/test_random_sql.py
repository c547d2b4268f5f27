"""Filters, projections, aggregates, orders and limits in SQL give, by every path, what Spark gives on the whole rows.

The judge is Spark itself on a data frame that holds the table's rows: nothing is pushed down there. Queries come from a
seed; HEADWATER_FILTER_SEED=<number> runs others, HEADWATER_SQL_QUERIES=<number> more of them.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests import places as fixtures
from tests.fixtures.random_filters import FilterMaker
from tests.fixtures.suites import FixtureTable, tables
from tests.fixtures.test_random_filters import Place
from tests.spark.session import PATHS, load, rows, spark, using

import headwater
from headwater.spec.expressions.printing import quote_name

QUERIES = int(os.environ.get("HEADWATER_SQL_QUERIES", "5"))


def chosen() -> list[Any]:
    """Every third table; another seed takes others."""
    shift = int(os.environ.get("HEADWATER_FILTER_SEED", "0")) % 3
    found: list[FixtureTable] = list(tables("generated"))
    if fixtures.is_there("hudi"):
        found += tables("hudi")
    return [pytest.param(Place(table), id=table.id) for table in found[shift::3]]


def counted(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, rows(frame).to_pylist()))


def in_memory(session: SparkSession, whole: pa.Table, folder: Path) -> DataFrame:
    """The rows as a data frame that has nothing to do with the table."""
    # Spark 4.1 takes timestamps without a time zone for ones of UTC here.
    if hasattr(DataFrame, "toArrow") and not session.version.startswith("4.1"):
        return session.createDataFrame(whole)
    pq.write_table(whole, folder / "whole.parquet")
    return session.read.parquet(str(folder / "whole.parquet"))


def wheres(place: Place, whole: pa.Table, prefer: list[str]) -> Iterator[tuple[str, list[str]]]:
    maker = FilterMaker(whole, place.seed("spark"), prefer=prefer)
    for _ in range(QUERIES):
        columns = maker.columns()
        yield str(maker.filter()), whole.column_names if columns is None else columns


def choices(place: Place, whole: pa.Table, partitions: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Filters that choose partitions by what Spark alone can evaluate."""
    draw = random.Random(place.seed("choices"))
    for asked in [partitions, *([name] for name in partitions[:2])] if partitions else []:
        hashed = f"hash({', '.join(map(quote_name, asked))})"
        yield f"pmod({hashed}, 3) = {draw.randint(0, 2)}", whole.column_names


def aggregates(place: Place, whole: pa.Table, partitions: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Groups and aggregates; what can be answered from metadata and what cannot."""
    draw = random.Random(place.seed("aggregates"))
    simple = [f.name for f in whole.schema if not pa.types.is_nested(f.type)]
    for groups in ([], partitions[:1]):
        picked = draw.sample(simple, min(2, len(simple)))
        yield (
            groups,
            [
                "count(*) AS n",
                *(
                    f"{function}({quote_name(name)}) AS {function}_{i}"
                    for i, name in enumerate(picked)
                    for function in ("count", "min", "max")
                ),
            ],
        )


def orders(place: Place, whole: pa.Table, partitions: list[str]) -> Iterator[tuple[list[str], str, int, int]]:
    """Columns, an order by all of them (so that it is certain), a limit and an offset."""
    draw = random.Random(place.seed("orders"))
    simple = [f.name for f in whole.schema if not pa.types.is_nested(f.type)]
    for first in [*partitions[:1], *draw.sample(simple, min(QUERIES, len(simple)))]:
        names = list(dict.fromkeys([first, *draw.sample(simple, 1), "_hoodie_record_key"]))
        ways = [
            f"{quote_name(name)} {draw.choice(['ASC', 'DESC'])} NULLS {draw.choice(['FIRST', 'LAST'])}"
            for name in names
        ]
        yield names, ", ".join(ways), draw.choice([1, 2, 7, max(1, whole.num_rows)]), draw.choice([0, 0, 1])


def ordered(frame: DataFrame, names: list[str], order: str, limit: int, offset: int) -> list[str]:
    """The first rows, in their order."""
    frame.createOrReplaceTempView("unordered")
    shown = ", ".join(map(quote_name, names))
    asked = f"SELECT {shown} FROM unordered ORDER BY {order} LIMIT {limit} OFFSET {offset}"
    return [repr(row) for row in rows(frame.sparkSession.sql(asked)).to_pylist()]


@pytest.mark.parametrize("place", chosen())
def test_queries(place: Place, tmp_path: Path) -> None:
    session = spark()
    path = str(place.table.path(place.stage))
    config = headwater.open(path).hudi.config
    whole = rows(load(session, path))
    plain = in_memory(session, whole, tmp_path).cache()
    prefer = ["_hoodie_record_key", "_hoodie_partition_path", *config.record_key_fields, *config.partition_fields]
    partitions = [name for name in config.partition_fields if name in whole.column_names]
    queries = []
    for filter_, columns in [*wheres(place, whole, prefer), *choices(place, whole, partitions)]:
        selected = [quote_name(name) for name in columns]
        queries.append((filter_, lambda f, w=filter_, s=selected: f.where(w).selectExpr(*s)))
    for groups, functions in aggregates(place, whole, partitions):
        label = f"{functions} by {groups}"
        queries.append((label, lambda f, g=groups, a=functions: f.groupBy(*map(quote_name, g)).agg(*map(_expr, a))))
    found = []
    for label, query in queries:
        expected = counted(query(plain))
        for way in PATHS:
            with using(way) as reading:
                try:
                    got = counted(query(load(reading, path)))
                except Exception as error:
                    found.append(f"{way}: {label}: {type(error).__name__}: {str(error)[:300]}")
                    continue
            if got != expected:
                found.append(f"{way}: {label}: {list(got - expected)[:2]} instead of {list(expected - got)[:2]}")
    for names, order, limit, offset in orders(place, whole, partitions):
        wanted = ordered(plain, names, order, limit, offset)
        for way in PATHS:
            with using(way) as reading:
                first = ordered(load(reading, path), names, order, limit, offset)
            if first != wanted:
                found.append(f"{way}: ORDER BY {order} LIMIT {limit} OFFSET {offset}: {first[:3]}, not {wanted[:3]}")
    everything = Counter(map(repr, whole.to_pylist()))
    for way in PATHS:
        with using(way) as reading:
            some = counted(load(reading, path).limit(3))
        if some.total() != min(3, whole.num_rows) or some - everything:
            found.append(f"{way}: limit 3 gave {some.total()} of {whole.num_rows} rows")
    plain.unpersist()
    assert not found, f"{place.id}: {len(found)} queries differ:\n" + "\n".join(found)


def _expr(text: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(text)
