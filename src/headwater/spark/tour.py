"""A shipped table through Spark, with its plan."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.console import Console
from rich.rule import Rule
from rich.table import Table as Grid
from rich.text import Text

from headwater.demo import DEMO_TABLES, demo_table
from headwater.errors import HeadwaterError
from headwater.table import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = ("id", "name", "price", "city")


def show(out: Console, spark: SparkSession) -> None:
    """Print a shipped table's rows as Spark has them, and what Spark pushed into a scan of it."""
    out.print(Rule(Text.assemble(("Spark", "bold cyan"), "  one of the shipped tables"), align="left", style="cyan"))
    _rows(out, spark)
    _plan(out, spark)


def _load(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("headwater").options(**options).load(path)


def _rows(out: Console, spark: SparkSession) -> None:
    """The rows by Spark, which must be those that the embedded reader gives."""
    path, first = demo_table("trips"), DEMO_TABLES["trips"].instants[0]
    for title, frame, scan in (
        ('spark.read.format("headwater").load("trips")', _load(spark, path), open_table(path).scan()),
        (
            '… .option("as-of", first commit)',
            _load(spark, path, **{"as-of": first}),
            open_table(path).scan(as_of=first),
        ),
    ):
        found = [row.asDict() for row in frame.select(*_COLUMNS).orderBy("id").collect()]
        told = sorted(scan.select(*_COLUMNS).to_arrow().to_pylist(), key=lambda row: str(row["id"]))
        if sorted(map(repr, found)) != sorted(map(repr, told)):
            raise HeadwaterError(f"{path}: Spark and the embedded reader disagree; please report this")
        out.print(Text(title, style="bold"), Text(f"{len(found)} rows, as without Spark", style="dim"))
        if frame.sparkSession is spark and "option" not in title:
            grid = Grid(box=None, pad_edge=False)
            for name in _COLUMNS:
                grid.add_column(name)
            for row in found:
                grid.add_row(*(str(row[name]) for name in _COLUMNS))
            out.print(grid)


def _plan(out: Console, spark: SparkSession) -> None:
    frame = _load(spark, demo_table("trips")).where("city = 'sf' AND price > 5").select("id", "price")
    text = str(frame._jdf.queryExecution().executedPlan().toString())
    (scan,) = re.findall(r"BatchScan [^\n]*", text)[:1] or [text]
    out.print()
    out.print(Text("what Spark pushed into the scan:  city = 'sf' AND price > 5", style="bold"))
    for part in re.sub(r".*?\[filters |\] RuntimeFilters:.*", "", scan).split("; "):
        out.print(Text("  " + part, style="dim"), overflow="ellipsis", no_wrap=True)
