"""Which tables the matrix has: few, chosen so that as many pairs of features as can be stand together in one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

VERSIONS_READ = {"0.15.0": (6,), "1.0.2": (6, 8), "1.1.1": (6, 8, 9), "1.2.0": (6, 8, 9)}
"""The table versions that a release reads and writes."""
METADATA: Mapping[str, tuple[str, ...]] = {
    "off": (),
    "files": ("files",),
    "stats": ("files", "column_stats", "partition_stats"),
    "keys": ("files", "record_index"),
    "all": ("files", "column_stats", "partition_stats", "bloom_filters", "record_index"),
}
OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "load": ("bulk_insert", "upsert", "delete_keys", "insert"),
    "rows": ("insert", "upsert", "update", "delete_where"),
    "merge": ("insert", "merge", "partial", "upsert"),
    "replace": ("bulk_insert", "insert_overwrite", "upsert", "delete_partitions"),
    "evolve": ("insert", "upsert", "evolve", "upsert"),
    "whole": ("insert", "overwrite", "upsert", "delete_marked"),
    "append": ("bulk_insert", "insert", "delete_where", "insert_overwrite"),
}
PAYLOADS = {
    "latest": "OverwriteWithLatestAvroPayload",
    "partial": "PartialUpdateAvroPayload",
    "nondefaults": "OverwriteNonDefaultsWithLatestAvroPayload",
}
FEATURES: Mapping[str, tuple[Any, ...]] = {
    "kind": ("cow", "mor"),
    "version": (6, 8, 9),
    "keys": ("simple", "complex", "complex2", "custom", "timestamp", "none", "auto"),
    "style": ("plain", "hive", "encoded", "hive+encoded"),
    "merge": ("event", "commit", "several", *PAYLOADS),
    "index": ("simple", "bloom", "bucket", "record_index"),
    "metadata": tuple(METADATA),
    "metadata_from": ("start", "later"),
    "columns": ("plain", "rich"),
    "log": ("avro", "default"),
    "changes": ("no", "yes"),
    "operations": tuple(OPERATIONS),
    "failure": ("none", "ours", "theirs"),
    "writer": ("arrow", "spark"),
}


@dataclass(frozen=True)
class Spec:
    """What one table is like, and what happens to it."""

    kind: str
    version: int
    keys: str
    style: str
    merge: str
    index: str
    metadata: str
    metadata_from: str
    """Whether the metadata table is made with the table or after two writes."""
    columns: str
    log: str
    changes: str
    """Whether the table keeps change data."""
    operations: str
    failure: str
    """Who leaves a dead write for the other to roll back."""
    writer: str

    @property
    def is_merge_on_read(self) -> bool:
        return self.kind == "mor"

    @property
    def name(self) -> str:
        parts = (self.kind, f"v{self.version}", self.keys, self.merge, self.index, self.metadata, self.operations)
        return "_".join(parts)

    @property
    def is_partitioned(self) -> bool:
        return self.keys != "none"

    @property
    def ordering(self) -> tuple[str, ...]:
        if self.merge == "several":
            return ("ts", "ts2")
        return () if self.merge == "commit" else ("ts",)

    def is_sensible(self) -> bool:
        """Whether such a table can be, and says something that a simpler one does not."""
        mor = self.is_merge_on_read
        return all(
            (
                self.merge != "several" or self.version == 9,
                self.merge not in PAYLOADS or self.version == 6,
                (self.keys == "auto") == (self.operations == "append"),
                self.keys != "auto" or (self.merge == "commit" and self.index == "simple" and self.changes == "no"),
                self.keys != "auto" or self.failure != "theirs",
                self.operations != "replace" or self.is_partitioned,
                (self.index == "record_index") <= (self.metadata in ("keys", "all")),
                self.index in ("record_index", "simple") or self.metadata not in ("keys", "all"),
                self.keys != "auto" or self.metadata not in ("keys", "all"),
                self.style == "plain" or self.is_partitioned,
                self.log == "avro" or mor,
                self.metadata != "off" or self.metadata_from == "start",
                self.changes == "no" or (self.columns == "plain" and self.operations in ("load", "rows", "whole")),
                self.operations not in ("merge", "whole") or self.merge in ("event", "commit", "several"),
                self.writer == "arrow" or self.operations in ("load", "whole", "append"),
                self.writer == "arrow" or self.failure == "none",
            )
        )

    def pairs(self) -> frozenset[tuple[Any, ...]]:
        values = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return frozenset(combinations(values, 2))


def metadata_indexes(spec: Spec) -> tuple[str, ...]:
    """What the metadata table holds: statistics of partitions where there are any, and the version has them."""
    has_partition_stats = spec.version > 6 and spec.is_partitioned
    return tuple(name for name in METADATA[spec.metadata] if name != "partition_stats" or has_partition_stats)


def choose(count: int, seed: int = 0) -> list[tuple[str, Spec]]:
    """So many tables with their names; the same ones for the same seed. A few are written through Spark.

    >>> chosen = choose(12)
    >>> sorted({spec.version for _, spec in chosen}), len({name for name, _ in chosen})
    ([6, 8, 9], 12)
    """
    rng = random.Random(seed)
    seen: set[tuple[Any, ...]] = set()
    found: list[Spec] = []
    while len(found) < count:
        versions = FEATURES["version"]
        candidates = [_random(rng, versions[len(found) % len(versions)]) for _ in range(150)]
        through_spark = sum(spec.writer == "spark" for spec in found)
        if through_spark >= max(2, count // 8):
            candidates = [spec for spec in candidates if spec.writer == "arrow"]
        best = max(candidates, key=lambda spec: len(spec.pairs() - seen))
        seen |= best.pairs()
        found.append(best)
    return [(f"t{number:02}_{spec.name}", spec) for number, spec in enumerate(found)]


def covered(specs: list[Spec], seed: int = 0, samples: int = 20_000) -> tuple[int, int]:
    """How many pairs of features the tables show, and how many there can be, as far as a sample finds them."""
    rng = random.Random(seed)
    possible: set[tuple[Any, ...]] = set()
    for number in range(samples):
        possible |= _random(rng, FEATURES["version"][number % 3]).pairs()
    shown = frozenset().union(*(spec.pairs() for spec in specs))
    return len(shown), len(possible | shown)


def _random(rng: random.Random, version: int) -> Spec:
    while True:
        spec = Spec(**{**{name: rng.choice(values) for name, values in FEATURES.items()}, "version": version})
        if spec.is_sensible():
            return spec
