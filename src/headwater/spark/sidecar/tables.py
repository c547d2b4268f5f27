"""A table that the driver has open: one state of it, with the options of a read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from headwater.hudi.keys import describe_partition
from headwater.spark.options import ReadOptions, parse_read_options
from headwater.spark.shown_properties import shown
from headwater.spark.sidecar.predicates import PartitionValues
from headwater.spark.types import to_spark
from headwater.spec.model import PartitionDescriptor
from headwater.table import Scan, Table

_MOST_OTHERS = 32
_NEWEST = 16


@dataclass(frozen=True)
class OpenTable:
    """A table as it was when it was opened, and how it is to be read."""

    table: Table
    options: ReadOptions
    given: Mapping[str, str] = field(default_factory=dict)
    """What was given to the read itself."""
    conf: Mapping[str, Any] = field(default_factory=dict)
    """The session's configuration."""
    _others: dict[frozenset[tuple[str, str]], OpenTable] = field(default_factory=dict, repr=False, compare=False)

    def reading(self, options: Mapping[str, str]) -> OpenTable:
        """The same state of the table, read with further options: those of a scan of a table that a catalog loaded."""
        added = {name: value for name, value in options.items() if self.given.get(name) != value}
        if not added:
            return self
        key = frozenset(added.items())
        if key not in self._others:
            given, table = {**self.given, **added}, self.table
            chosen = parse_read_options(given, self.conf, table.hudi.config.properties)
            if chosen.metadata != table.hudi.use_metadata:
                table = Table(replace(table.hudi, use_metadata=chosen.metadata))
            if len(self._others) >= _MOST_OTHERS:
                self._others.clear()
            self._others[key] = OpenTable(table, chosen, given, self.conf)
        return self._others[key]

    @cached_property
    def scan(self) -> Scan:
        """Everything, before filters and columns."""
        given = self.options
        return self.table.scan(as_of=given.as_of, mode=given.mode, threads=given.threads)

    def scan_of(self, partitions: Sequence[str] | None) -> Scan:
        """The same of these partitions alone, where a request names some."""
        return self.scan if partitions is None else self.scan.within(partitions)

    @cached_property
    def schema(self) -> pa.Schema:
        return self.scan.schema

    @cached_property
    def partition_columns(self) -> list[str]:
        return [name for name in self.table.hudi.config.partition_fields if name in self.schema.names]

    @cached_property
    def partitions(self) -> list[PartitionDescriptor]:
        """Every partition that the table has, or ever had."""
        hudi = self.table.hudi
        return [describe_partition(hudi.config, path, self.schema) for path in hudi.listing.partitions()]

    @cached_property
    def partition_values(self) -> PartitionValues:
        found = self.partitions
        if not found:
            return PartitionValues(pa.table({}))
        known = frozenset(found[0].columns).intersection(*(one.columns for one in found))
        values = [one.as_mapping() for one in found]
        columns = {
            name: pa.array([each[name] for each in values], self.schema.field(name).type)
            for name in self.partition_columns
            if name in known
        }
        return PartitionValues(pa.table(columns))

    @cached_property
    def state(self) -> str:
        """Tells states of the table apart. Of several commits at once the last to be requested need not be the last to
        be completed, so it takes more than the newest; older ones are archived one day, which changes no row."""
        newest = self.table.hudi.timeline.commits[-_NEWEST:]
        told = "\n".join(f"{one.requested_at} {one.action} {one.completed_at}" for one in newest)
        return hashlib.sha256(told.encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """The answer to `open`."""
        hudi = self.table.hudi
        latest = hudi.timeline.find_latest_completed_action_at()
        return {
            "name": self.table.name,
            "schema": _with_comments(to_spark(self.schema), hudi.schema.avro),
            "partition_columns": self.partition_columns,
            "properties": dict(hudi.config.properties),
            "shown_properties": shown(hudi.config),
            "state": self.state,
            "version_text": "" if latest is None else latest.requested_at,
        }


def _with_comments(spark: dict[str, Any], avro: Mapping[str, Any] | None) -> dict[str, Any]:
    """The columns with the comments that the table's schema has for them; Avro calls such a text a doc."""
    docs = {field["name"]: field.get("doc") for field in (avro or {}).get("fields", ())}
    for field_ in spark["fields"]:
        if docs.get(field_["name"]):
            field_["metadata"] = {"comment": str(docs[field_["name"]])}
    return spark


def location(path: str) -> str:
    """A path as Hadoop writes it, as one that is not mistaken for a relative one.

    >>> location("file:/lake/a b"), location("file:///lake"), location("s3a://bucket/t"), location("trips")
    ('/lake/a b', '/lake', 's3a://bucket/t', 'trips')
    """
    return re.sub(r"^file:(?://(?=/))?", "", path)
