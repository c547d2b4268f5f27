"""Tables that the driver has open, each under a handle: one state of a table with the options of a read."""

from __future__ import annotations

import itertools
import os
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.hudi.keys import describe_partition
from headwater.spark.options import ReadOptions, parse_read_options
from headwater.spark.shown_properties import shown
from headwater.spark.sidecar.predicates import PartitionValues
from headwater.spark.types import to_spark
from headwater.spec.model import PartitionDescriptor
from headwater.table import Scan, Table, open_table

_MOST_OPEN = 128


class UnknownHandle(HeadwaterError, LookupError):
    """A handle that this process never gave out: the process before it died."""


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
            self._others[key] = OpenTable(table, chosen, given, self.conf)
        return self._others[key]

    @cached_property
    def scan(self) -> Scan:
        """Everything, before filters and columns."""
        given = self.options
        return self.table.scan(as_of=given.as_of, mode=given.mode, threads=given.threads)

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
            "version_text": "" if latest is None else latest.requested_at,
        }


class OpenTables:
    """Handles of open tables. One that was not used for long is opened again when it is."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[str, Mapping[str, str], Mapping[str, Any]]] = {}
        self._open: OrderedDict[str, OpenTable] = OrderedDict()
        self._numbers = itertools.count(1)

    def open(self, path: str, options: Mapping[str, str], session: Mapping[str, Any]) -> str:
        handle = f"{os.getpid()}-{next(self._numbers)}"
        self._keep(handle, _open(path, options, session))
        self._asked[handle] = (path, options, session)
        return handle

    def get(self, handle: str) -> OpenTable:
        found = self._open.get(handle)
        if found is None:
            if handle not in self._asked:
                raise UnknownHandle(f"no table is open under the handle {handle}; open it again")
            found = _open(*self._asked[handle])
        self._keep(handle, found)
        return found

    def release(self, handle: str) -> None:
        self._asked.pop(handle, None)
        self._open.pop(handle, None)

    def _keep(self, handle: str, table: OpenTable) -> None:
        self._open[handle] = table
        self._open.move_to_end(handle)
        while len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)


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


def _open(path: str, options: Mapping[str, str], session: Mapping[str, Any]) -> OpenTable:
    # What may change the way to the table's properties cannot come from them.
    conf = session.get("conf") or {}
    first = parse_read_options(options, conf)
    table = open_table(location(path), metadata=first.metadata)
    chosen = parse_read_options(options, conf, table.hudi.config.properties)
    return OpenTable(table, chosen, dict(options), dict(conf))
