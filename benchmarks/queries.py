"""What is measured: each query with its table, the systems that answer it and the target it is held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.tables import rows

PLAIN = "pyarrow"
SAME_FILES = "pyarrow, same files"
CHECKED = "the same, checksums"
"""pyarrow on the same files, checking every page's checksum as Headwater does: what reading takes at the least."""
HEADWATER = "headwater"
HUDI_RS = "hudi-rs"
HUDI_RS_READ = "hudi-rs, read()"
"""hudi-rs's figures from the full read of the same table, beside which a stream of Headwater is also held."""

NO_SLOWER = 1.05
"""What counts as "no slower" on a machine with noise."""
OVERHEAD_MB = 300
"""What a stream may use beyond its budget: the interpreter, the libraries, a batch in flight."""
PLANNING_SECONDS = 0.3

Kind = Literal["read", "again", "stream", "plan", "lookup"]
"""`again`: a read of a table that this process has read before; every other kind keeps nothing of what came before."""
Condition = tuple[str, Literal["=", "<", ">=", "in"], str | int | tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on one figure of Headwater.

    `measure` is `ratio` (seconds against those of `against`), `peak` (peak memory against that of `against`),
    `peak_mb` or `warm_seconds` (the figure itself).
    """

    measure: Literal["ratio", "peak", "peak_mb", "warm_seconds"]
    at_most: float
    against: str = PLAIN

    def __str__(self) -> str:
        return {
            "ratio": f"≤ {self.at_most:g}× {self.against}" if self.against != PLAIN else f"≤ {self.at_most:g}×",
            "peak": f"memory ≤ {self.at_most:g}× {self.against}",
            "peak_mb": f"memory ≤ {self.at_most:.0f} MB",
            "warm_seconds": f"< {self.at_most:g} s",
        }[self.measure]


@dataclass(frozen=True, slots=True)
class Query:
    """One line of the benchmark. `table` is a Hudi table, `plain` the directory of plain Parquet with its rows."""

    name: str
    title: str
    kind: Kind
    table: str
    plain: str | None
    systems: tuple[str, ...]
    baseline: str
    columns: tuple[str, ...] = tuple(rows.COLUMNS)
    where: tuple[Condition, ...] = ()
    checksum: str = "qty"
    memory_mb: int | None = None
    targets: tuple[Target, ...] = ()
    full_read: str | None = None
    """The query whose hudi-rs figures count here as HUDI_RS_READ."""


def queries(total: int, memory_mb: int) -> list[Query]:
    """Every query of the benchmark over tables of `total` rows; `memory_mb` is the budget of the budget test."""
    low, high = rows.ts_bounds(total, 0.01)
    point: tuple[Condition, ...] = (("id", "=", rows.key(total // 3, total)),)
    span: tuple[Condition, ...] = (("ts", ">=", low), ("ts", "<", high))
    one_city: tuple[Condition, ...] = (("city", "=", "city_2"),)
    hundred = tuple(rows.key(n * (total // 100), total) for n in range(100))
    readers = (PLAIN, HEADWATER, HUDI_RS)
    pickers = (PLAIN, SAME_FILES, HEADWATER, HUDI_RS)
    checked = (PLAIN, SAME_FILES, CHECKED, HEADWATER, HUDI_RS)
    no_slower = (Target("ratio", NO_SLOWER, SAME_FILES),)
    # The first is the one agreed on; hudi-rs streams in less than it reads, so its stream is shown as well.
    half = (Target("peak", 0.5, HUDI_RS_READ), Target("peak", 0.5, HUDI_RS))
    budget = (Target("peak_mb", memory_mb + OVERHEAD_MB),)

    def cow(name: str, title: str, **more: object) -> Query:
        given = {"kind": "read", "systems": readers, "baseline": PLAIN} | more
        return Query(name=name, title=title, table="cow", plain="base", **given)  # type: ignore[arg-type]

    def mor(logs: str, name: str, title: str, **more: object) -> Query:
        given = {"kind": "read", "systems": readers, "baseline": PLAIN} | more
        table, label = f"mor_{logs}", f"MOR, {logs.capitalize()} logs: {title}"
        return Query(name=f"{table}_{name}", title=label, table=table, plain="merged", **given)  # type: ignore[arg-type]

    def many(name: str, title: str, table: str, where: Condition, *targets: Target) -> Query:
        columns = ("id", "part", "qty")
        systems = (SAME_FILES, HEADWATER, HUDI_RS)
        return Query(name, title, "plan", table, None, systems, SAME_FILES, columns, (where,), targets=targets)

    return [
        cow("cow_full", "COW: full read", targets=(Target("ratio", 1.1),)),
        cow("cow_two", "COW: city, x", columns=("city", "x"), checksum="x", systems=checked,
            targets=(Target("ratio", 1.2),)),
        cow("cow_two_data", "COW: qty, x", columns=("qty", "x"), systems=checked, targets=(Target("ratio", 1.2),)),
        cow("cow_point", "COW: one key by filter", where=point, systems=pickers, targets=no_slower),
        cow("cow_range", "COW: 1 % by ts", where=span, systems=pickers, targets=no_slower),
        cow("cow_partition", "COW: one partition", where=one_city, systems=pickers, targets=no_slower),
        cow("cow_lookup", "COW: look-up of 1 key", kind="lookup", where=point, systems=(SAME_FILES, HEADWATER, HUDI_RS),
            baseline=SAME_FILES),
        cow("cow_lookup_100", "COW: look-up of 100 keys", kind="lookup", where=(("id", "in", hundred),),
            systems=(SAME_FILES, HEADWATER), baseline=SAME_FILES),
        mor("avro", "full", "full read", targets=(Target("ratio", 2.5),)),
        mor("avro", "two", "city, x", columns=("city", "x"), checksum="x", targets=(Target("ratio", 4),)),
        mor("avro", "two_again", "city, x again", kind="again", columns=("city", "x"), checksum="x",
            targets=(Target("ratio", 4),)),
        mor("avro", "point", "one key by filter", where=point),
        mor("avro", "stream", "to_batches()", kind="stream", targets=half, full_read="mor_avro_full"),
        mor("parquet", "full", "full read", targets=(Target("ratio", 1.6),)),
        mor("parquet", "two", "city, x", columns=("city", "x"), checksum="x", targets=(Target("ratio", 4),)),
        mor("parquet", "two_again", "city, x again", kind="again", columns=("city", "x"), checksum="x",
            targets=(Target("ratio", 4),)),
        mor("parquet", "stream", "to_batches()", kind="stream", targets=half, full_read="mor_parquet_full"),
        cow("cow_budget", f"COW: to_batches(), budget {memory_mb} MB", kind="stream", memory_mb=memory_mb,
            systems=(PLAIN, HEADWATER), targets=budget),
        mor("avro", "budget", f"to_batches(), budget {memory_mb} MB", kind="stream", memory_mb=memory_mb,
            systems=(PLAIN, HEADWATER), targets=budget),
        many("plan_1k", "open, plan 1 of 50 partitions (1,000 files)", "many_1k", ("part", "=", "p00017")),
        many("plan_10k", "open, plan 1 of 500 partitions (10,000 files)", "many_10k", ("part", "=", "p00017"),
             Target("warm_seconds", PLANNING_SECONDS)),
        many("plan_10k_bulk", "the same, 10,000 files in the last commit", "many_10k_bulk", ("part", "=", "p00017"),
             Target("warm_seconds", PLANNING_SECONDS)),
        many("plan_10k_50", "open, plan 50 of 500 partitions (10,000 files)", "many_10k",
             ("part", "in", tuple(f"p{n:05d}" for n in range(50)))),
    ]  # fmt: skip
