"""Random table stories: a seed makes a table's configuration, its writes and services, and the reads to compare.

A story is a dictionary that goes to Spark as JSON (`hudi_job.py`) and holds nothing of Headwater's. What a story may
hold depends on the release that writes it, so a story's name is release, seed and shape.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.fixtures.random_filters import FilterMaker
from tests.interop.clocks import CLOCKS
from tests.interop.values import KINDS, PLAIN, WIDER, Kind, maybe, to_json

VERSIONS = {"0.15.0": (6,), "1.0.2": (8,), "1.1.1": (9,), "1.2.0": (9, 9, 9, 8, 6)}
"""The table versions that a release writes here; one that stands there twice comes up more often."""
KEY_GENERATORS = "org.apache.hudi.keygen."
PAYLOADS = "org.apache.hudi.common.model."
PARTITIONS = {
    "string": ("p0", "p1", "p2"),
    "odd": ("a b", "ü+1", "it's", "x,y", "[1]", "2024-01-01"),
    "slashed": ("x/y", "a b/c", "plain", "50 %", "k:v"),
    "int": (1, 2, 30),
    "date": tuple(datetime(2024, 1, day).date() for day in (1, 2, 31)),
}
ORDERINGS: dict[str, Kind] = {
    "int": Kind("int", pa.int32(), lambda rng: rng.randint(1, 12)),
    "long": Kind("bigint", pa.int64(), lambda rng: rng.randint(1, 12) + 2**33),
    "string": Kind("string", pa.string(), lambda rng: f"v{rng.randint(1, 12)}"),
    "double": Kind("double", pa.float64(), lambda rng: rng.randint(1, 12) / 4),
    "decimal": Kind("decimal(12,2)", pa.decimal128(12, 2), lambda rng: Decimal(rng.randint(1, 12)) + Decimal("0.50")),
    "timestamp": Kind(
        "timestamp",
        pa.timestamp("us", "UTC"),
        lambda rng: datetime(2024, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=rng.randint(1, 12), microseconds=7),
    ),
}
BASE = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.write.complex.keygen.validation.enable": "false",
    "hoodie.write.set.null.for.missing.columns": "true",
    **{f"hoodie.{what}.shuffle.parallelism": "2" for what in ("insert", "upsert", "bulkinsert", "delete")},
}
SERVICES: dict[str, dict[str, str]] = {
    "compaction": {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
    "scheduled compaction": {
        "hoodie.compact.inline": "false",
        "hoodie.compact.schedule.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
    },
    "log compaction": {
        "hoodie.log.compaction.enable": "true",
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.blocks.threshold": "2",
    },
    "clustering": {
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.plan.strategy.small.file.limit": "1000000",
    },
    "scheduled clustering": {
        "hoodie.clustering.schedule.inline": "true",
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.plan.strategy.small.file.limit": "1000000",
    },
    "cleaning": {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"},
    "archiving": {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    },
}


_WIDER = {KINDS[narrow].ddl: KINDS[wide] for narrow, wide in WIDER.items()}


def make_story(release: str, seed: int) -> dict[str, Any]:
    """The story of a seed: the same one on every machine."""
    return _Story(release, seed).make()


class _Story:
    def __init__(self, release: str, seed: int) -> None:
        self.rng = random.Random(f"{release}/{seed}")
        self.more = random.Random(f"{release}/{seed}/more")
        """For choices that came later, so that a seed's others stay as they were."""
        self.release = release
        self.seed = seed
        self.newer = release in ("1.1.1", "1.2.0")
        self.version = self.rng.choice(VERSIONS[release])
        self.mor = self.rng.random() < 0.65
        self.columns: dict[str, Kind] = {}
        self.options = dict(BASE)
        self.known: dict[tuple[Any, ...], dict[str, Any]] = {}
        """Each key that was written, with its last row."""
        self.all_rows: list[dict[str, Any]] = []
        self.next_id = 1
        self.cdc = self.rng.random() < 0.15
        self.meta_fields = self.cdc or self.rng.random() < 0.95
        self.on_read = self.meta_fields and not self.cdc and self.rng.random() < 0.25
        """Columns are renamed and dropped: schema evolution on read."""

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def make(self) -> dict[str, Any]:
        self._keys_and_partitions()
        self._ordering_and_merging()
        self._value_columns()
        self._features()
        steps = list(self._steps())
        kind = "mor" if self.mor else "cow"
        return {
            "table": f"r{self.release.replace('.', '')}_s{self.seed}_{kind}_v{self.version}",
            "release": self.release,
            "version": self.version,
            "mor": self.mor,
            "cdc": self.cdc,
            "meta_fields": self.meta_fields,
            "partition_type": self.partition_type,
            "shape": f"{self.keygen} {self.partition_type} {self.merging} {self.ordering_type}",
            "loose": [name for name in ("ev",) if name in self.columns],
            "options": self.options,
            "steps": steps,
            "filters": self._filters(),
            "seed": self.seed,
        }

    # -- configuration

    def _keys_and_partitions(self) -> None:
        choices = ("simple", "simple", "simple", "complex", "complex2", "nonpartitioned", "timestamp", "custom", "auto")
        self.keygen = self.rng.choice(choices) if self.meta_fields else self.rng.choice(("simple", "nonpartitioned"))
        self.key_kind = self.rng.choice(("int", "text"))
        self.columns["id"] = KINDS[self.key_kind]
        self.key_fields = ["id"]
        if self.keygen == "complex2":
            self.columns["id2"] = KINDS["text"]
            self.key_fields.append("id2")
        self.partition_type = "none"
        fields: list[str] = []
        if self.keygen not in ("nonpartitioned", "timestamp"):
            self.partition_type = self.rng.choice(("string", "string", "odd", "slashed", "int", "date"))
            if self.cdc and self.partition_type == "date":
                self.partition_type = "string"
            kinds = {"int": KINDS["int"], "date": KINDS["day"]}
            self.columns["part"] = kinds.get(self.partition_type, KINDS["text"])
            fields.append("part")
        if self.keygen in ("timestamp", "custom"):
            self.clock = self.more.choice(CLOCKS)
            self.columns["ev"] = KINDS[self.clock.kind]
            fields.append("ev")
            self.options |= {
                **self.clock.options,
                "hoodie.keygen.timebased.output.dateformat": self.more.choice(
                    ("yyyyMMdd", "yyyyMMdd", "yyyy-MM-dd HH")
                ),
                "hoodie.keygen.timebased.timezone": self.more.choice(("UTC", "UTC", "Asia/Kolkata")),
            }
        hive, encoded = self.chance(0.5), self.partition_type == "slashed" or self.chance(0.3)
        classes = {"complex2": "Complex", "timestamp": "TimestampBased", "auto": "Simple"}
        class_name = classes.get(self.keygen, self.keygen.capitalize()) + "KeyGenerator"
        path = ",".join(fields) if self.keygen != "custom" else "part:SIMPLE,ev:TIMESTAMP"
        self.partition_fields = fields
        self.options |= {
            "hoodie.datasource.write.partitionpath.field": path,
            "hoodie.datasource.write.hive_style_partitioning": str(hive).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(encoded).lower(),
        }
        if self.keygen != "auto":
            self.options["hoodie.datasource.write.recordkey.field"] = ",".join(self.key_fields)
            self.options["hoodie.datasource.write.keygenerator.class"] = KEY_GENERATORS + class_name

    def _ordering_and_merging(self) -> None:
        types = ["int", "long", "string"] if self.cdc else list(ORDERINGS)
        if "decimal" in types and not (self.mor and self.version == 9):
            types.remove("decimal")  # Hudi cannot upsert into such a table (Fixed cannot be cast to BigDecimal)
        self.ordering_type = self.rng.choice(types)
        self.ordering = ["ts"]
        self.columns["ts"] = ORDERINGS[self.ordering_type]
        standard = "event", "event", "event", "commit", "default"
        self.merging = self.rng.choice((*standard, "partial", "nondefaults", "dms")) if self.meta_fields else "default"
        if self.keygen == "auto":
            self.merging, self.ordering = "default", []
        if self.merging == "event" and self.version == 9 and self.chance(0.25):
            self.columns["ts2"] = ORDERINGS[self.rng.choice(("int", "string", "long"))]
            self.ordering.append("ts2")
        payloads = {
            "partial": "PartialUpdateAvroPayload",
            "nondefaults": "OverwriteNonDefaultsWithLatestAvroPayload",
            "dms": "AWSDmsAvroPayload",
        }
        if self.version == 6:
            payloads |= {"commit": "OverwriteWithLatestAvroPayload", "event": "DefaultHoodieRecordPayload"}
        if self.merging == "dms":
            self.columns["Op"] = Kind("string", pa.string(), lambda rng: rng.choice("IIUUUD"))
        if self.merging in payloads:
            self.options["hoodie.datasource.write.payload.class"] = PAYLOADS + payloads[self.merging]
        elif self.merging == "event":
            self.options["hoodie.write.record.merge.mode"] = "EVENT_TIME_ORDERING"
        elif self.merging == "commit":
            self.options["hoodie.write.record.merge.mode"] = "COMMIT_TIME_ORDERING"
            self.ordering = []
        if self.ordering:
            self.options["hoodie.datasource.write.precombine.field"] = ",".join(self.ordering)
        self.deletable = self.merging in ("event", "default", "commit") and self.keygen != "auto" and self.chance(0.3)
        if self.deletable:
            self.columns["_hoodie_is_deleted"] = Kind("boolean", pa.bool_(), lambda rng: rng.random() < 0.2)

    def _value_columns(self) -> None:
        lacking = ("ntz", "dec_big") if self.release == "0.15.0" else ()
        pool = list(PLAIN) if self.cdc else [k for k in KINDS if k not in lacking]
        for name in self.rng.sample(pool, self.rng.randint(1, min(5, len(pool)))):
            self.columns[f"c_{name}"] = KINDS[name]
        self.columns["name"] = KINDS["text"]

    def _features(self) -> None:
        self.options |= {
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if self.mor else "COPY_ON_WRITE",
            "hoodie.populate.meta.fields": str(self.meta_fields).lower(),
        }
        if self.release != "0.15.0":
            self.options["hoodie.write.table.version"] = str(self.version)
            self.options["hoodie.write.auto.upgrade"] = "false"
        if self.chance(0.4):
            self.options["hoodie.parquet.small.file.limit"] = "0"
        if self.chance(0.2) and self.keygen != "auto" and self.meta_fields:
            buckets = str(self.more.choice((2, 2, 3, 7)))
            self.options |= {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": buckets}
            if len(self.key_fields) > 1 and self.more.random() < 0.5:
                self.options["hoodie.bucket.index.hash.field"] = self.more.choice(self.key_fields)
            if self.mor and self.chance(0.3):
                self.options["hoodie.index.bucket.engine"] = "CONSISTENT_HASHING"
        elif self.chance(0.3) and self.meta_fields:
            self.options["hoodie.index.type"] = self.rng.choice(("BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"))
            moves = str(self.chance(0.7)).lower()
            self.options["hoodie.simple.index.update.partition.path"] = moves
            self.options["hoodie.bloom.index.update.partition.path"] = moves
        metadata = self.chance(0.6)
        indexed = "true" if metadata and self.chance(0.5) else "false"
        self.options |= {
            # Without the server, 1.2.0 cannot read its own metadata table when it makes partition statistics.
            "hoodie.embed.timeline.server": indexed,
            "hoodie.metadata.enable": str(metadata).lower(),
            "hoodie.metadata.index.column.stats.enable": indexed,
            "hoodie.metadata.index.partition.stats.enable": indexed,
            "hoodie.metadata.index.bloom.filter.enable": str(metadata and self.chance(0.2)).lower(),
        }
        self._record_index(metadata)
        texts = [name for name in self.ordering if self.columns[name].ddl == "string"]
        if self.mor and self.chance(0.3) and not texts:
            # With a text for ordering, Hudi compares bytes of Parquet blocks that it has overwritten by then.
            self.options |= {"hoodie.logfile.data.block.format": "parquet"}
            self.options["hoodie.write.record.merge.custom.implementation.classes"] = (
                "org.apache.hudi.DefaultSparkRecordMerger"
            )
        if self.on_read:
            self.options["hoodie.schema.on.read.enable"] = "true"
            self.options["hoodie.datasource.write.schema.allow.auto.evolution.column.drop"] = "true"
        if self.cdc:
            mode = self.rng.choice(("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"))
            self.options["hoodie.table.cdc.enabled"] = "true"
            self.options["hoodie.table.cdc.supplemental.logging.mode"] = mode.lower() if not self.newer else mode

    def _record_index(self, metadata: bool) -> None:
        """None, one for the whole table (with a secondary index on top of it, or not), or one by partition."""
        share = self.rng.random() if metadata and self.meta_fields and self.keygen != "auto" else 1.0
        by_partition = share < 0.1 and self.newer and self.version == 9 and bool(self.partition_fields)
        for_all = share < 0.3 and not by_partition
        self.secondary = for_all and self.newer and self.version == 9 and not self.on_read and self.chance(0.6)
        self.options |= {
            "hoodie.metadata.record.index.enable": str(for_all).lower(),
            "hoodie.metadata.record.index.min.filegroup.count": "2",
        }
        if by_partition:
            self.options |= {
                "hoodie.metadata.record.level.index.enable": "true",
                "hoodie.metadata.record.level.index.min.filegroup.count": "2",
            }
        if self.secondary:
            self.options["hoodie.write.lock.provider"] = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"

    # -- steps

    def _steps(self) -> Iterator[dict[str, Any]]:
        first = self.rng.choice(("insert", "bulk_insert", "upsert")) if self.keygen != "auto" else "bulk_insert"
        yield self._write(first, [self._new_row() for _ in range(self.rng.randint(3, 30))])
        if self.secondary:
            yield {"do": "sql", "sql": "CREATE INDEX idx_name ON {t} (name)", "options": {}}
        for number in range(self.rng.randint(2, 7)):
            yield self._next_step(number)

    def _next_step(self, number: int) -> dict[str, Any]:
        choice = self.rng.random()
        if self.keygen == "auto":
            if choice < 0.3 and self.newer:
                return self._sql_update()
            return self._write(self.rng.choice(("insert", "bulk_insert")), self._new_rows())
        if choice < 0.08 and self.known:
            doomed = [self._again(row, change=False) for row in self._some(4)]
            for row in doomed:
                self.known.pop(self._key(row), None)
            return self._write("delete", doomed, keep=False)
        if choice < 0.12 and self.partition_fields and self.known:
            place = self._place(self._some(1)[0])
            rows = [row for row in self.known.values() if self._place(row) == place]
            return self._write("delete_partition", rows[:1], keep=False)
        if choice < 0.18:
            return self._write(self.rng.choice(("insert_overwrite", "insert_overwrite_table")), self._new_rows())
        if choice < 0.24:
            twice = [self._again(row, change=True) for row in self._some(2)] if self.chance(0.3) else []
            return self._write(self.rng.choice(("insert", "bulk_insert")), self._new_rows() + twice)
        sql = self.newer and self.meta_fields and len(self.ordering) < 2  # Spark SQL knows one ordering field
        if choice < 0.36 and sql and self.merging in ("event", "commit", "default"):
            merge = self._merge_into if not self.on_read else self._sql_update  # Hudi refuses partial updates there
            return self.rng.choice((merge, merge, self._sql_update, self._sql_delete))()
        if choice < 0.41 and number > 1 and len(self.ordering) < 2:
            return {"do": "rollback_last" if self.chance(0.5) else "savepoint_and_restore", "options": {}}
        if choice < 0.60 and self.on_read:
            return self._alter()
        if choice < 0.60 and not self.cdc:
            self._evolve()
        rows = [self._again(row, change=True) for row in self._some(8)] + self._new_rows()[: self.rng.randint(0, 4)]
        return self._write("upsert", rows)

    def _write(self, operation: str, rows: list[dict[str, Any]], keep: bool = True) -> dict[str, Any]:
        for row in rows if keep else ():
            self.known[self._key(row)] = row
            self.all_rows.append(row)
        step: dict[str, Any] = {"do": "write", "operation": operation, "options": self._service()}
        step["schema"] = ", ".join(f"`{name}` {kind.ddl}" for name, kind in self.columns.items())
        step["rows"] = [{name: to_json(row.get(name)) for name in self.columns} for row in rows]
        return step

    def _service(self) -> dict[str, str]:
        if not self.chance(0.3):
            return {}
        usable = [name for name in SERVICES if self.mor or "compaction" not in name]
        if "hoodie.index.type" in self.options or self.keygen == "auto":
            usable = [name for name in usable if "clustering" not in name]
        return SERVICES[self.rng.choice(usable)]

    def _evolve(self) -> None:
        """A new column, or a wider type for one that is there, also inside of it."""
        promotable = [name for name, kind in self.columns.items() if name.startswith("c_") and kind.ddl in _WIDER]
        if promotable and self.chance(0.6):
            name = self.rng.choice(promotable)
            self.columns[name] = _WIDER[self.columns[name].ddl]
        else:
            self.columns[f"new_{len(self.columns)}"] = KINDS[self.rng.choice(("text", "double", "ints", "struct"))]

    def _alter(self) -> dict[str, Any]:
        """Spark SQL's ALTER TABLE: rename, drop, widen or add a column."""
        values = [name for name in self.columns if name.startswith(("c_", "new_"))]
        promotable = [name for name in values if self.columns[name].ddl in ("int", "float")]
        choice = self.rng.random()
        if choice < 0.3 and values:
            old, new = self.rng.choice(values), f"new_{self.rng.randint(100, 999)}"
            self.columns = {new if name == old else name: kind for name, kind in self.columns.items()}
            change = f"RENAME COLUMN {old} TO {new}"
        elif choice < 0.5 and len(values) > 1:
            gone = self.rng.choice(values)
            del self.columns[gone]
            change = f"DROP COLUMN {gone}"
        elif choice < 0.7 and promotable:
            self.columns[promotable[0]] = _WIDER[self.columns[promotable[0]].ddl]
            change = f"ALTER COLUMN {promotable[0]} TYPE {self.columns[promotable[0]].ddl}"
        else:
            # A name that was dropped or renamed away comes back with nothing of its old values.
            added = self.rng.choice(
                [f"c_{k}" for k in ("text", "int", "double", "struct") if f"c_{k}" not in self.columns]
            )
            self.columns[added] = KINDS[added[2:]]
            change = f"ADD COLUMNS ({added} {self.columns[added].ddl})"
        return {"do": "sql", "sql": f"ALTER TABLE {{t}} {change}", "options": {}}

    def _sql_update(self) -> dict[str, Any]:
        row = self._some(1)[0]
        key = " AND ".join(f"{name} = {_literal(row[name])}" for name in self.key_fields)
        return {"do": "sql", "sql": f"UPDATE {{t}} SET name = 'updated' WHERE {key}", "options": {}}

    def _sql_delete(self) -> dict[str, Any]:
        row = self._some(1)[0]
        key = " AND ".join(f"{name} = {_literal(row[name])}" for name in self.key_fields)
        return {"do": "sql", "sql": f"DELETE FROM {{t}} WHERE {key}", "options": {}}

    def _merge_into(self) -> dict[str, Any]:
        rows = self._some(2)
        moved = [name for name in self.ordering if name in self.columns]
        source = " UNION ALL ".join(
            "SELECT "
            + ", ".join(f"CAST({_literal(row[n])} AS {self.columns[n].ddl}) AS {n}" for n in self.key_fields)
            + "".join(
                f", CAST({_literal(self.columns[n].make(self.rng))} AS {self.columns[n].ddl}) AS {n}" for n in moved
            )
            + f", 'merged{self.rng.randint(0, 99)}' AS name"
            for row in rows
        )
        on = " AND ".join(f"t.{name} = s.{name}" for name in self.key_fields)
        changes = ", ".join(f"{name} = s.{name}" for name in [*moved, "name"])
        sql = f"MERGE INTO {{t}} t USING ({source}) s ON {on} WHEN MATCHED THEN UPDATE SET {changes}"
        return {"do": "sql", "sql": sql, "options": {}}

    # -- rows

    def _new_rows(self) -> list[dict[str, Any]]:
        return [self._new_row() for _ in range(self.rng.randint(1, 6))]

    def _new_row(self) -> dict[str, Any]:
        row: dict[str, Any] = {}
        self.next_id += 1
        for name, kind in self.columns.items():
            if name == "id":
                row[name] = self.next_id if self.key_kind == "int" else f"k{self.next_id}"
            elif name == "id2":
                row[name] = self.rng.choice(("a", "b", "c,d:e"))
            elif name == "part":
                row[name] = self.rng.choice(PARTITIONS[self.partition_type])
            elif name == "ev":
                row[name] = self.clock.value(datetime(2024, 1, 1 + self.rng.randint(0, 2)))
            else:
                row[name] = self._value(name, kind)
        return row

    def _value(self, name: str, kind: Kind) -> Any:
        value = kind.make(self.rng)
        return value if name in (*self.ordering, "Op", "ts", "ts2") else maybe(self.rng, value)

    def _again(self, row: dict[str, Any], change: bool) -> dict[str, Any]:
        fixed = (*self.key_fields, *self.partition_fields)
        if not change:
            return dict(row)
        again = {n: row[n] if n in fixed else self._value(n, kind) for n, kind in self.columns.items()}
        is_global = self.options.get("hoodie.index.type", "").startswith("GLOBAL")
        if "part" in fixed and self.chance(0.3 if is_global else 0.03):
            again["part"] = self.rng.choice(PARTITIONS[self.partition_type])
        return again

    def _some(self, most: int) -> list[dict[str, Any]]:
        known = list(self.known.values()) or [self._new_row()]
        return self.rng.sample(known, self.rng.randint(1, min(most, len(known))))

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key_fields)

    def _place(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.partition_fields)

    def _filters(self) -> list[Any]:
        """Filters, each with the columns to give; None for all."""
        # Hudi takes the time that a path is made of from the path where it filters: not compared.
        schema = pa.schema([(name, kind.arrow) for name, kind in self.columns.items() if name != "ev"])
        texts = {field.name for field in schema if field.type == pa.string()}
        values = [{n: row.get(n) for n in schema.names} for row in self.all_rows]
        values = [{n: str(v) if v is not None and n in texts else v for n, v in row.items()} for row in values]
        rows = pa.Table.from_pylist(values, schema)
        prefer = [*self.key_fields, "part", *self.ordering]
        maker = FilterMaker(rows, self.rng.randint(0, 2**31), prefer=prefer, functions=True)
        found = [[str(maker.filter()), maker.columns() or None] for _ in range(6)]
        if self.secondary and "name" in self.columns:
            names = [row["name"] for row in self.all_rows if row.get("name")] or ["none"]
            found += [[f"name = {_literal(name)}", None] for name in self.rng.sample(names, min(3, len(names)))]
        return found


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (int, float)):
        return repr(value)
    text = str(to_json(value)).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"
