"""What the Spark part asks, of whom, on which table, and the bars that Headwater is held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.spark import states
from benchmarks.tables import rows

PARQUET = "parquet"
SAME_FILES = "parquet, same files"
HEADWATER = "headwater"
STABLE = "headwater, stable"
"""Headwater on the table whose schema never changed, beside the evolved one."""
UNCACHED = "headwater, no cache"
"""Headwater merging every slice anew, as the first query that reads it does."""
MERGE = "merge reader"
FALLBACK = "fallback"
HUDI = "hudi"
ICEBERG = "iceberg"
"""Apache Iceberg with deletion vectors: the same rows in a table of its own."""
SYSTEMS = (PARQUET, SAME_FILES, HEADWATER, UNCACHED, STABLE, MERGE, FALLBACK, HUDI, ICEBERG)
PEERS = (HUDI, ICEBERG)

Sink = Literal["noop", "collect", "plan"]
Check = Literal["answer", "rows", "query"]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bound on Headwater's figure: a multiple of another system's seconds, or seconds themselves."""

    at_most: float
    against: str = PARQUET
    source: str = ""
    """Whose figure the bound is, where the issue does not set it itself."""
    measure: Literal["ratio", "seconds"] = "ratio"

    def __str__(self) -> str:
        if self.measure == "seconds":
            return f"< {self.at_most:g} s"
        if self.against != PARQUET:
            return f"≤ {self.at_most:g}× {self.against}"
        return f"≤ {self.at_most:g}×" + (f" ({self.source})" if self.source else "")


@dataclass(frozen=True, slots=True)
class Query:
    """One line of the benchmark.

    `sql` names the table `{t}` and, in joins, `{dimension}`. A `noop` query throws its rows away inside Spark; what it
    would have given is compared by `check_sql`. Of a `rows` check only the number of rows is compared.
    """

    name: str
    title: str
    table: str
    plain: str
    sql: str
    sink: Sink
    check: Check
    check_sql: str = ""
    systems: tuple[str, ...] = (PARQUET, HEADWATER)
    bars: tuple[Bar, ...] = ()
    stable: str = ""
    """The table with the same rows whose schema never changed."""


@dataclass(frozen=True, slots=True)
class _Family:
    """A table and what its queries are held to."""

    table: str
    plain: str
    label: str
    kind: Literal["cow", "mor"]
    bars: dict[str, tuple[Bar, ...]]


COUNTING = (Bar(0.5),)
_COW_BARS: dict[str, tuple[Bar, ...]] = {
    "full": (Bar(1.05),),
    "projected": (Bar(1.05),),
    "aggregate": (Bar(1.0),),
    "count": COUNTING,
    "minmax": COUNTING,
    "point": (Bar(1.0),),
    "range": (Bar(1.0),),
    "partition": (Bar(1.0),),
}
_ICEBERG = {"full": 1.12, "count": 1.58, "minmax": 1.45, "aggregate": 1.12, "range": 2.05, "partition": 1.2}
"""Iceberg 1.11 with deletion vectors on Spark 4.0, a tenth of 5 M rows changed, on another day: as ratios to plain
Parquet. With peers it is measured again, beside us."""
_FURTHER = {
    UNCACHED: (("mor_avro", "mor_parquet"), ("full", "projected", "aggregate", "minmax", "range")),
    MERGE: (("mor_avro", "mor_parquet", "mor5_parquet"), ("full", "projected", "aggregate", "point")),
    FALLBACK: (("cow", "mor_avro"), ("full", "projected", "aggregate", "partition", "point")),
    SAME_FILES: (("cow",), ("full", "projected", "aggregate", "minmax", "point", "range", "partition")),
}
"""The tables and queries of the further columns: enough to compare, for they take most of a run's time."""
PLANNING_SECONDS = 1.0
HUDI_NO_SLOWER, HUDI_FIVE_TIMES = Bar(1.0, HUDI), Bar(0.2, HUDI)
ICEBERG_NO_SLOWER = Bar(1.0, ICEBERG)


def queries(total: int) -> list[Query]:
    """Every query over tables of `total` rows."""
    families = [
        _Family("cow", "base", "COW", "cow", _COW_BARS),
        _Family("mor_avro", "merged", "MOR 10 %, Avro logs", "mor", _mor_bars("avro")),
        _Family("mor_parquet", "merged", "MOR 10 %, Parquet logs", "mor", _mor_bars("parquet")),
        _Family("mor5_avro", "five", "MOR 5 × 2 % − 1 %, Avro logs", "mor", {}),
        _Family("mor5_parquet", "five", "MOR 5 × 2 % − 1 %, Parquet logs", "mor", {}),
    ]
    asked = [query for family in families for query in _of_family(family, total)]
    return [*asked, *_evolved("cow"), *_evolved("mor"), *_planning()]


def chosen(asked: Sequence[Query], only: Sequence[str], systems: Sequence[str], *, peers: bool) -> list[Query]:
    """The queries that a run of these options asks. The baseline is always among the systems."""
    found = []
    for query in asked:
        wanted = (*query.systems, *_peers_of(query)) if peers else query.systems
        if systems:
            wanted = tuple(system for system in wanted if system == PARQUET or system in systems)
        if not only or any(part in query.name for part in only):
            found.append(replace(query, systems=wanted))
    return found


def _peers_of(query: Query) -> tuple[str, ...]:
    return tuple(name for name in PEERS if name == HUDI or any(bar.against == name for bar in query.bars))


def by_table(asked: Sequence[Query]) -> list[list[Query]]:
    """The queries of each table, in their order."""
    found: dict[str, list[Query]] = {}
    for query in asked:
        found.setdefault(query.table, []).append(query)
    return list(found.values())


def less(asked: Sequence[Query], system: str) -> list[Query]:
    """The queries without one system."""
    return [replace(query, systems=tuple(name for name in query.systems if name != system)) for query in asked]


def beside(asked: Sequence[Query], system: str) -> list[Query]:
    """The queries that a system is asked, of it and of the baseline alone."""
    return [replace(query, systems=(PARQUET, system)) for query in asked if system in query.systems]


def needed_tables(asked: Sequence[Query]) -> set[str]:
    """The names of the tables that queries read, of the plain ones too."""
    joined = {"dimension" for query in asked if "{dimension}" in query.sql}
    return joined | {name for query in asked for name in (query.table, query.plain, query.stable) if name}


def _mor_bars(logs: str) -> dict[str, tuple[Bar, ...]]:
    scan = 1.2 if logs == "parquet" else 1.4
    own = {
        "full": scan,
        "projected": scan,
        # 1.6 is for Avro blocks without record positions; those of these tables have them, Hudi's own too.
        "aggregate": 1.2,
        "count": 1.0,
        "minmax": 1.0,
        "point": 1.2,
        "range": 1.2,
        "partition": 1.2,
    }
    iceberg = {name: (Bar(ratio, source="Iceberg"),) for name, ratio in _ICEBERG.items() if ratio < own[name]}
    return {name: (Bar(bound), *iceberg.get(name, ()), ICEBERG_NO_SLOWER) for name, bound in own.items()}


def _of_family(family: _Family, total: int) -> list[Query]:
    everything = ", ".join(rows.COLUMNS)
    low, high = rows.ts_bounds(total, 0.01)
    hudi = HUDI_FIVE_TIMES if family.kind == "mor" else HUDI_NO_SLOWER

    def query(name: str, title: str, sql: str, sink: Sink = "collect", check: Check = "answer", **more: str) -> Query:
        full_name = f"{family.table}_{name}"
        further = [system for system, (tables, names) in _FURTHER.items() if family.table in tables and name in names]
        return Query(
            full_name,
            f"{family.label}: {title}",
            family.table,
            family.plain,
            sql,
            sink,
            check,
            systems=tuple(system for system in SYSTEMS if system in (PARQUET, HEADWATER, *further)),
            bars=(*family.bars.get(name, ()), hudi),
            **more,
        )

    def scan(name: str, title: str, columns: str) -> Query:
        sql = f"select {columns} from {{t}}"
        return query(name, title, sql, "noop", "query", check_sql=_fingerprint(columns, "{t}"))

    return [
        scan("full", "full scan", everything),
        scan("projected", "three columns", "id, x, qty"),
        query("aggregate", "sum … group by city", "select city, sum(x) from {t} group by city order by city"),
        query("count", "COUNT(*)", "select count(*) from {t}"),
        query("minmax", "MIN, MAX", "select min(ts), max(ts) from {t}"),
        query("partition", "one partition", "select count(*), sum(x), sum(qty) from {t} where city = 'city_2'"),
        query("range", "1 % by ts", f"select count(*), sum(x) from {{t}} where ts >= {low} and ts < {high}"),
        query("point", "one key", f"select {everything} from {{t}} where id = '{point_key(total)}'"),
        query("limit", "LIMIT 10", f"select {everything} from {{t}} limit 10", check="rows"),
        query(
            "broadcast",
            "join with a small table",
            "select team, count(*), sum(qty * weight) from {t} f join {dimension} d on f.name = d.id "
            "group by team order by team",
        ),
        query(
            "sortmerge",
            "join of two big sides",
            "select count(*), sum(a.x), sum(b.qty) from {t} a join {t} b on a.id = b.id "
            "where a.city = 'city_1' and b.city = 'city_1' and a.qty < 250 and b.qty < 250",
        ),
    ]


def _evolved(kind: Literal["cow", "mor"]) -> list[Query]:
    table, stable = f"evolved_{kind}", f"stable_{kind}"
    columns = "id, x, qty, extra"
    hudi = HUDI_FIVE_TIMES if kind == "mor" else HUDI_NO_SLOWER

    def query(name: str, title: str, sql: str, sink: Sink = "collect", check: Check = "answer", **more: str) -> Query:
        label = f"{kind.upper()}, evolved schema: {title}"
        systems, bars = (PARQUET, HEADWATER, STABLE), (Bar(1.1, STABLE), hudi)
        return Query(
            f"{table}_{name}", label, table, table, sql, sink, check, systems=systems, bars=bars, stable=stable, **more
        )

    aggregate = "select city, sum(qty), sum(extra) from {t} group by city order by city"
    selective = "select count(*), sum(x), sum(extra) from {t} where qty >= 990"
    scan, check_sql = f"select {columns} from {{t}}", _fingerprint(columns, "{t}")
    return [
        query("scan", "four columns", scan, "noop", "query", check_sql=check_sql),
        query("aggregate", "sum … group by city", aggregate),
        query("filter", "filter on the widened column", selective),
    ]


def _planning() -> list[Query]:
    one = "select count(*), sum(qty) from {t} where part = 'p00017'"
    every, check = "select id, qty from {t}", "select count(*), sum(qty) from {t}"
    bars = (Bar(PLANNING_SECONDS, measure="seconds"), HUDI_NO_SLOWER)
    return [
        Query("plan_one", "10,000 files: plan and read 1 of 500 partitions", "many_10k", "many_10k", one, "collect",
              "answer", bars=bars),
        Query("plan_all", "10,000 files: plan all", "many_10k", "many_10k", every, "plan", "query", check, bars=bars),
    ]  # fmt: skip


def point_key(total: int) -> str:
    """A key from the middle of the table that no state deletes."""
    i = total // 3
    while states.is_deleted(rows.Chunk(0, 0, i, i + 1)).any():
        i += 1
    return rows.key(i, total)


def _fingerprint(columns: str, table: str) -> str:
    """A query whose one row depends on every value of the columns and not on the order of the rows."""
    return (
        f"select count(*), bit_xor(h), sum(pmod(h, 1000003)) from (select xxhash64({columns}) as h from {table}) hashed"
    )
