"""`python -m headwater.spark.tour`: a shipped table through Spark, with its plan, and how fast that is."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.rule import Rule
from rich.table import Table as Grid
from rich.text import Text

from headwater.demo import DEMO_TABLES, demo_table
from headwater.errors import HeadwaterError
from headwater.spark.session import configure
from headwater.table import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WIDEST = 100
_TURNS = 3
_COLUMNS = ("id", "name", "price", "city")
_BAR = 40


def main(console: Console | None = None) -> None:
    """Print the tour."""
    out = console or Console(highlight=False, width=None if sys.stdout.isatty() else _WIDEST)
    out.width = min(out.width, _WIDEST)
    out.print(Rule(Text.assemble(("Spark", "bold cyan"), "  the same tables"), align="left", style="cyan"))
    with out.status("starting Spark") if out.is_terminal else _Plain(out, "starting Spark …"):
        spark = _session()
    try:
        _rows(out, spark)
        _plan(out, spark)
        _ratios(out, spark)
    finally:
        spark.stop()


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("headwater demo")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
    }.items():
        builder = builder.config(name, value)
    spark: SparkSession = configure(builder).getOrCreate()
    return spark


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


def _ratios(out: Console, spark: SparkSession) -> None:
    """A small race with Spark's own Parquet source; `make bench-spark` runs the real one."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-demo-"))
    try:
        path = demo_table("stats")
        plain = str(folder / "plain")
        _write_plain(open_table(path).scan().to_arrow(), Path(plain))
        out.print()
        out.print(
            Text("beside Spark's own Parquet source, same rows (a few: this shows overhead, not speed)", style="bold")
        )
        for name, query in _QUERIES.items():
            theirs = _best(lambda query=query: query(spark.read.parquet(plain)))  # type: ignore[misc]
            ours = _best(lambda query=query: query(_load(spark, path)))  # type: ignore[misc]
            ratio = ours / theirs
            bar = "█" * min(_BAR, max(1, round(ratio * 10)))
            colour = "green" if ratio <= 1.2 else "yellow"
            out.print(Text.assemble(f"  {name:<14}", (f"{ratio:5.2f}× ", "bold"), (bar, colour)))
        out.print(Text("  " + " " * 14 + "  1.00  " + "─" * 10 + " Spark's Parquet source", style="dim"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_plain(rows: pa.Table, folder: Path) -> None:
    folder.mkdir()
    pq.write_table(rows, folder / "part-0.parquet")


_QUERIES: dict[str, Callable[[Any], object]] = {
    "full scan": lambda frame: frame.write.format("noop").mode("overwrite").save(),
    "sum by city": lambda frame: frame.groupBy("city").sum("price").collect(),
    "count": lambda frame: frame.count(),
    "one city": lambda frame: frame.where("city = 'sf'").collect(),
}


def _best(query: Callable[[], object]) -> float:
    times = []
    for _ in range(_TURNS + 1):
        start = time.perf_counter()
        query()
        times.append(time.perf_counter() - start)
    return min(times[1:])


class _Plain:
    """A line instead of a spinner, where there is no terminal."""

    def __init__(self, out: Console, line: str) -> None:
        out.print(Text(line, style="dim"))

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


if __name__ == "__main__":
    main()
