"""Write the tables of `tests/data/written` with Apache Hudi on Spark, each with what Hudi reads from it.

They show what random tables do not: indexes by partition and by expression, metadata tables made anew, tables that
were bootstrapped. Runs in the environment that has pyspark only:

    .venv-peers/bin/python tests/interop/special.py RELEASE BUNDLE.jar [NAME …]
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from hudi_job import brief, commits, plain, session  # it sets the zone before Spark starts
from pyspark.sql import DataFrame, SparkSession

PLACE = Path("/tmp/hudi-tables")
TARGET = Path(__file__).parents[1] / "data" / "written"
SELECTORS = "org.apache.hudi.client.bootstrap.selector."
BASE = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    **{f"hoodie.{what}.shuffle.parallelism": "2" for what in ("insert", "upsert", "bulkinsert", "delete")},
}


class Maker:
    """Writes tables with one release."""

    def __init__(self, spark: SparkSession, release: str) -> None:
        self.spark = spark
        self.release = release

    def tables(self) -> dict[str, Callable[[str], Sequence[str]]]:
        """Name → what writes it and gives the filters to read it with."""
        tag = self.release.replace(".", "")
        found: dict[str, Callable[[str], Sequence[str]]] = {}
        for kind in ("cow", "mor"):
            if self.release != "0.15.0":
                found[f"rli_part_{kind}_{tag}"] = self.record_index_by_partition
                found[f"expr_{kind}_{tag}"] = self.expression_index
            found[f"mdt_late_{kind}_{tag}"] = self.metadata_table_made_late
            found[f"mdt_init_{kind}_{tag}"] = self.metadata_table_made_anew
            for mode in ("meta", "full", "mixed"):
                for shape in ("part", "flat") if mode == "meta" else ("part",):
                    found[f"boot_{mode}_{kind}_{shape}_{tag}"] = self.bootstrapped
        return found

    def options(self, name: str, **more: str) -> dict[str, str]:
        return {
            **BASE,
            "hoodie.table.name": name,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if "_mor_" in name else "COPY_ON_WRITE",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.table.ordering.fields": "ts",
            **more,
        }

    def write(self, name: str, frame: DataFrame, options: dict[str, str], operation: str = "upsert") -> None:
        path = PLACE / name
        options = {**options, "hoodie.datasource.write.operation": operation}
        mode = "append" if path.exists() else "overwrite"
        frame.coalesce(1).write.format("hudi").options(**options).mode(mode).save(str(path))

    def call(self, name: str, procedure: str, **arguments: str) -> None:
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{PLACE / name}'")
        given = "".join(f", {key} => '{value}'" for key, value in arguments.items())
        self.spark.sql(f"CALL {procedure}(table => '{name}'{given})").collect()

    def record_index_by_partition(self, name: str) -> Sequence[str]:
        options = self.options(
            name,
            **{
                "hoodie.metadata.record.level.index.enable": "true",
                "hoodie.metadata.record.level.index.min.filegroup.count": "2",
                "hoodie.index.type": "RECORD_LEVEL_INDEX",
            },
        )
        parts = ("p0", "a b", "x-0001", "ü")

        def rows(found: list[tuple[Any, ...]]) -> DataFrame:
            return self.spark.createDataFrame(found, "id string, part string, ts long, v string")

        self.write(name, rows([(f"k{i}", parts[i % 4], 1, f"one{i}") for i in range(24)]), options)
        self.write(name, rows([(f"k{i}", parts[i % 4], 2, f"two{i}") for i in range(0, 12, 2)]), options)
        # The same keys in other partitions are other records.
        self.write(name, rows([(f"k{i}", parts[(i + 1) % 4], 3, f"other{i}") for i in range(5)]), options)
        self.write(name, rows([(f"k{i}", parts[i % 4], 4, "") for i in (0, 9)]), options, "delete")
        self.write(name, rows([(f"z{i}", "late", 5, f"late{i}") for i in range(3)]), options)
        return ["id = 'k1'", "id IN ('k0', 'k2', 'z1', 'none')", "id = 'k3' AND part = 'ü'", "id = 'k9'"]

    def expression_index(self, name: str) -> Sequence[str]:
        settings = {**BASE, "hoodie.metadata.index.partition.stats.enable": "true"}
        settings["hoodie.metadata.index.column.stats.enable"] = "true"
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        self.spark.sql(
            f"CREATE TABLE {name} (id int, ts timestamp, secs bigint, name string, day date, txt string, city string) "
            f"USING hudi TBLPROPERTIES (type='{'mor' if '_mor_' in name else 'cow'}', primaryKey='id', "
            f"preCombineField='id') PARTITIONED BY (city) LOCATION '{PLACE / name}'"
        )

        def insert(*rows: tuple[int, str, str, str]) -> None:
            values = ", ".join(
                f"({number}, timestamp '{moment}', unix_timestamp(timestamp '{moment}'), '{text}', "
                f"date '{moment[:10]}', '{moment[:10]}', '{city}')"
                for number, moment, text, city in rows
            )
            self.spark.sql(f"INSERT INTO {name} VALUES {values}")

        insert((1, "2020-01-15 10:00:00", "Alpha", "sf"), (2, "2020-05-15 10:00:00", "ABBA", "sf"))
        insert((3, "2021-02-15 10:00:00", "Beta", "sf"), (4, "2021-12-31 23:30:00", "bOB", "sf"))
        insert((5, "2022-07-15 10:00:00", "Zulu", "ny"))
        self.spark.sql(f"INSERT INTO {name} VALUES (6, null, null, null, null, null, 'ny'), (7, timestamp "
                       "'1969-07-15 01:02:03', -14597877, 'ÄPFEL', date '1969-07-15', '1969-07-15', 'ny')")  # fmt: skip
        for index, of, options in (
            ("year", "column_stats(ts)", "expr='year'"),
            ("unix", "column_stats(secs)", "expr='from_unixtime', format='yyyy-MM-dd'"),
            ("lower", "column_stats(name)", "expr='lower'"),
            ("month", "column_stats(day)", "expr='month'"),
            ("date", "column_stats(txt)", "expr='to_date', format='yyyy-MM-dd'"),
        ):
            self.spark.sql(f"CREATE INDEX idx_{index} ON {name} USING {of} OPTIONS({options})")
        insert((8, "2023-03-15 10:00:00", "Gamma", "sf"))
        self.spark.sql(f"UPDATE {name} SET ts = timestamp '2025-06-01 00:00:00', name = 'Omega' WHERE id = 3")
        self.spark.sql(f"DELETE FROM {name} WHERE id = 5")
        for key in settings:
            self.spark.conf.unset(key)
        return [
            *(f"year(ts) {test}" for test in ("= 2020", "> 2024", "IS NULL", "BETWEEN 1960 AND 1970", "= 2022")),
            *(f"from_unixtime(secs, 'yyyy-MM-dd') {test}" for test in ("= '2021-02-15'", "< '1970'", "> '2023'")),
            *(f"lower(name) {test}" for test in ("= 'beta'", "< 'b'", "LIKE 'o%'", "= 'äpfel'", "IN ('bob', 'x')")),
            *(f"month(day) {test}" for test in ("= 7", "> 11", "!= 5")),
            "date_format(ts, 'yyyy-MM') = '2020-05'",
            "length(name) = 4 AND year(ts) < 2021",
            "upper(name) = 'ÄPFEL'",
            "year(ts) = 2020 OR lower(name) = 'omega'",
        ]

    def metadata_table_made_late(self, name: str) -> Sequence[str]:
        """The third write makes the metadata table, and is rolled back."""
        for number in (1, 2, 3):
            options = self.options(name, **{"hoodie.metadata.enable": str(number == 3).lower()})
            self.write(name, self._some_rows(number), options)
        self.call(name, "rollback_to_instant", instant_time=commits(PLACE / name)[-1]["instant"])
        return ["id > 'k4'"]

    def metadata_table_made_anew(self, name: str) -> Sequence[str]:
        for number in (1, 2):
            self.write(name, self._some_rows(number), self.options(name))
        self.call(name, "delete_metadata_table")
        self.call(name, "create_metadata_table")
        return ["id > 'k4'"]

    def _some_rows(self, number: int) -> DataFrame:
        rows = [(f"k{(number * 2 + i) % 9}", f"p{i % 2}", number, f"v{number}.{i}") for i in range(4)]
        return self.spark.createDataFrame(rows, "id string, part string, ts long, v string")

    def bootstrapped(self, name: str) -> Sequence[str]:
        """The rows of a Parquet table beside it, which the table refers to or takes over."""
        mode, shape = name.split("_")[1], name.split("_")[3]
        source = PLACE / f"{name}.source"
        shutil.rmtree(source, ignore_errors=True)
        schema = "id int, name string, price double, ok boolean, xs array<int>, at timestamp, ts long, part string"
        moment = "2024-01-01 00:00:00"
        rows = [(i, f"n{i}", i / 3, i % 3 == 0, [i, i + 1], moment, 100 + i, f"c{i % 3}") for i in range(18)]
        text = schema.replace("at timestamp", "at string")
        frame = self.spark.createDataFrame(rows, text).selectExpr(
            *("CAST(at AS timestamp) AS at" if n == "at" else n for n in (p.split()[0] for p in schema.split(", ")))
        )
        self.spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer = frame.repartition(2).write.format("parquet")
        (writer.partitionBy("part") if shape == "part" else writer).save(str(source))
        generator = "SimpleKeyGenerator" if shape == "part" else "NonpartitionedKeyGenerator"
        options = self.options(
            name,
            **{
                "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
                "hoodie.datasource.write.partitionpath.field": "part" if shape == "part" else "",
            },
        )
        by_mode = {"meta": "MetadataOnlyBootstrap", "full": "FullRecordBootstrap", "mixed": "BootstrapRegex"}
        selector = f"{SELECTORS}{by_mode[mode]}ModeSelector"
        first = {
            **options,
            "hoodie.bootstrap.base.path": str(source),
            "hoodie.bootstrap.parallelism": "2",
            "hoodie.bootstrap.keygen.class": f"org.apache.hudi.keygen.{generator}",
            "hoodie.bootstrap.full.input.provider": "org.apache.hudi.bootstrap.SparkParquetBootstrapDataProvider",
            "hoodie.bootstrap.mode.selector": selector,
            "hoodie.bootstrap.mode.selector.regex": ".*part=c1.*",
            "hoodie.bootstrap.mode.selector.regex.mode": "METADATA_ONLY",
        }
        self.write(name, self.spark.createDataFrame([], frame.schema), first, "bootstrap")
        changed = frame.where("id IN (1, 4, 12)").selectExpr(
            "id", "concat('u', id) AS name", "-1D AS price", "ok", "xs", "at", "ts + 500 AS ts", "part"
        )
        self.write(name, changed, options)
        self.write(name, frame.where("id = 2"), options, "delete")
        return ["price > 3", "part = 'c1' AND id < 10", "id = 4", "_hoodie_record_key = '7'", "name LIKE 'u%'"]

    def reads(self, name: str, filters: Sequence[str]) -> dict[str, Any]:
        """What Hudi gives of a table."""
        path = str(PLACE / name)

        def rows(where: str | None, **options: str) -> Any:
            try:
                frame = self.spark.read.format("hudi").options(**options).load(path)
                frame = frame if where is None else frame.where(where)
                return [plain(row.asDict(recursive=True)) for row in frame.collect()]
            except Exception as error:
                return {"error": brief(error)}

        known = commits(PLACE / name)
        query = "hoodie.datasource.query.type"
        found: dict[str, Any] = {
            "release": self.release,
            "snapshot": rows(None),
            "read_optimized": rows(None, **{query: "read_optimized"}),
            "filters": [[text, rows(text, **{"hoodie.enable.data.skipping": "false"})] for text in filters],
            "incremental": [],
        }
        for start in (None, *known[:1]):
            span = {
                query: "incremental",
                "hoodie.datasource.read.begin.instanttime": start["completed"] if start else "00000000000000",
                "hoodie.datasource.read.end.instanttime": known[-1]["completed"],
            }
            found["incremental"].append([start and start["instant"], known[-1]["instant"], rows(None, **span)])
        return found


def pack(name: str) -> None:
    """The table, and the rows that it was bootstrapped from, as one archive without Hadoop's checksums."""
    with tarfile.open(TARGET / f"{name}.tar.xz", "w:xz", preset=9) as archive:
        for folder in (name, f"{name}.source"):
            for path in sorted((PLACE / folder).rglob("*")):
                if path.suffix != ".crc" and path.is_file():
                    info = archive.gettarinfo(path, str(path.relative_to(PLACE)))
                    info.uname = info.gname = ""
                    info.uid = info.gid = 0
                    with open(path, "rb") as content:
                        archive.addfile(info, content)


def main() -> None:
    release, jar, *wanted = sys.argv[1:]
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    maker = Maker(
        session({"release": release, "jar": os.path.abspath(jar), "scratch": str(PLACE / "scratch")}), release
    )
    for name, make in maker.tables().items():
        if name in wanted or not wanted:
            try:
                found = maker.reads(name, make(name))
            except Exception as error:
                print(f"{name}: {brief(error)}", flush=True)
                continue
            if wanted:
                pack(name)
                (TARGET / f"{name}.json").write_text(json.dumps(found, ensure_ascii=False, indent=0))
            else:
                (PLACE / f"{name}.json").write_text(json.dumps(found, ensure_ascii=False))
            print(f"{name}: {len(found['snapshot'])} rows", flush=True)
    maker.spark.stop()


if __name__ == "__main__":
    main()
