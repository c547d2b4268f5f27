"""`python -m headwater.spark.story`: a table's life, from its creation to its changes, each step in a few lines.

What is printed as code is what runs: each step is a text that is shown and then executed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from headwater.errors import HeadwaterError
from headwater.picture import picture
from headwater.spark.session import configure
from headwater.spark.tour import show
from headwater.table import create_table, open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WIDEST = 100
_ROWS = 400_000
_TURNS = 3
_BAR = 40

COLUMNS = (
    "concat('ride-', lpad(id, 7, '0')) AS id",
    "1000 + id AS ts",
    "element_at(array('oslo', 'lima', 'pune'), int(id % 3) + 1) AS city",
    "round(2 + pmod(xxhash64(id), 4800) / 100, 2) AS fare",
    "pmod(xxhash64(id, 1), 900) AS minutes",
)
STEPS: tuple[tuple[str, str], ...] = (
    (
        "Create a table: here merge-on-read, with a record index",
        """\
schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string(),
                    "fare": pa.float64(), "minutes": pa.int64()})
table = headwater.create(path, schema=schema, key="id", ordering="ts", partition_by="city",
                         kind="mor", index="record_index")""",
    ),
    (
        "Fill it through Spark",
        """\
rides = spark.range(rows).selectExpr(*columns)
filled = table.bulk_insert(rides)
print(filled)""",
    ),
    (
        "Change a tenth of it, through Spark",
        """\
dearer = rides.where("ts % 10 = 0").withColumns({"fare": F.col("fare") * 2, "ts": F.col("ts") + 10**6})
changed = table.upsert(dearer)
print(changed)""",
    ),
    (
        "Change two rows, without Spark",
        """\
print(table.upsert([{"id": "ride-0000001", "ts": 10**7, "city": "lima", "fare": 99.0, "minutes": 9},
                    {"id": "ride-new", "ts": 10**7, "city": "oslo", "fare": 7.5, "minutes": 12}]))""",
    ),
    ("Delete what matches a filter", "print(table.delete(where=\"city = 'pune' AND fare < 5\"))"),
    (
        "Ask Spark",
        """\
spark.sql("SELECT city, count(*) AS rides, round(avg(fare), 2) AS fare, max(minutes) AS longest "
          "FROM lake.demo.rides GROUP BY city ORDER BY city").show()""",
    ),
    (
        "Ask it how things stood after the first write",
        """\
then = f"VERSION AS OF '{filled.instant.requested_at}'"
for when in (then, ""):
    spark.sql(f"SELECT count(*) AS rides, sum(minutes) AS minutes FROM lake.demo.rides {when}").show()""",
    ),
    (
        "See what changed since the upsert",
        """\
changes = table.changes(changed.instant.requested_at).to_arrow()
print(changes.group_by("op").aggregate([([], "count_all")]).to_pylist())
for change in changes.slice(0, 3).to_pylist():
    before, after = (change[name] and change[name]["fare"] for name in ("before", "after"))
    print(change["op"], before, "→", after)""",
    ),
)


def main(console: Console | None = None) -> None:
    """Print the story."""
    out = console or Console(highlight=False, width=None if sys.stdout.isatty() else _WIDEST)
    out.width = min(out.width, _WIDEST)
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    folder = Path(tempfile.mkdtemp(prefix="headwater-demo-"))
    began = time.perf_counter()
    try:
        out.print(Rule(Text.assemble(("A table's life", "bold cyan"), "  through PySpark"), align="left", style="cyan"))
        out.print(Text("starting Spark …", style="dim"))
        spark = _session(folder)
        try:
            tell(out, spark, folder / "demo" / "rides")
            out.print()
            show(out, spark)
        finally:
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    out.print(Text(f"{time.perf_counter() - began:.0f} s in all", style="dim"))


def tell(out: Console, spark: SparkSession, path: Path, rows: int = _ROWS) -> Any:
    """Run the steps, and the picture and the race at the end; the table."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    names: dict[str, Any] = {"spark": spark, "path": path, "rows": rows, "columns": COLUMNS, "F": F}
    face = SimpleNamespace(create=create_table, open=open_table)
    names |= {"headwater": face, "pa": pa, "print": lambda *told: out.print(*map(str, told), markup=False)}
    for title, code in STEPS:
        out.print()
        out.print(Text(title, style="bold"))
        for line in code.splitlines():
            out.print(Text("  " + line, style="cyan"), no_wrap=True, overflow="ellipsis")
        start = time.perf_counter()
        exec(compile(code, "<demo>", "exec"), names)  # what is shown is what runs
        out.print(Text(f"  {time.perf_counter() - start:.1f} s", style="dim"))
    table = names["table"]
    out.print()
    out.print(Text("Its timeline", style="bold"))
    out.print(picture(open_table(path).inspect.history(), width=out.width), no_wrap=True)
    _race(out, spark, path)
    return table


def _race(out: Console, spark: SparkSession, path: Path) -> None:
    """The table as it stands now beside plain Parquet with the same rows; `make bench-spark` runs the real race."""
    plain = str(path.parent / "plain")
    spark.table("lake.demo.rides").select("id", "ts", "city", "fare", "minutes").write.parquet(plain)
    out.print()
    out.print(Text("Beside Spark's own Parquet source, same rows, no logs to merge", style="bold"))
    for name, query in _QUERIES.items():
        found, ours = _timed(query, lambda: spark.table("lake.demo.rides"))
        expected, theirs = _timed(query, lambda: spark.read.parquet(plain))
        if sorted(found) != sorted(expected):
            raise HeadwaterError(f"{path}: {name}: Spark's Parquet source gives other rows; please report this")
        bar = "█" * min(_BAR, max(1, round(ours / theirs * 10)))
        colour = "green" if ours <= 1.2 * theirs else "yellow"
        out.print(Text.assemble(f"  {name:<14}", (f"{ours / theirs:5.2f}× ", "bold"), (bar, colour)))
    out.print(Text("  " + " " * 14 + "  1.00  " + "─" * 10 + " Spark's Parquet source", style="dim"))


_QUERIES: dict[str, Callable[[Any], list[Any]]] = {
    "sum by city": lambda frame: frame.groupBy("city").sum("minutes").collect(),
    "count": lambda frame: [frame.count()],
    "one city": lambda frame: frame.where("city = 'lima' AND minutes > 890").select("id").collect(),
    "one key": lambda frame: frame.where("id = 'ride-0000001'").select("fare").collect(),
}


def _timed(query: Callable[[Any], list[Any]], frame: Callable[[], Any]) -> tuple[list[Any], float]:
    """The answer, and the best time of some turns after a first one."""
    found, times = query(frame()), []
    for _ in range(_TURNS):
        start = time.perf_counter()
        query(frame())
        times.append(time.perf_counter() - start)
    return found, min(times)


def _session(folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("headwater demo")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "4",
    }.items():
        builder = builder.config(name, value)
    spark: SparkSession = configure(builder, catalogs={"lake": folder}).getOrCreate()
    return spark


if __name__ == "__main__":
    main()
