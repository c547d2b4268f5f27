"""Rows on their way in: brought to the table's columns, checked, and given their keys and partitions.

All that can be refused by the rows themselves is refused here, before anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from headwater import arguments
from headwater.errors import ColumnNotFound, WriteRefused
from headwater.hudi.merge.log_rows import IS_DELETED, OPERATION, marked_deleted
from headwater.hudi.merge.rules import MergeRules, merge_rules
from headwater.hudi.schema import META_COLUMNS
from headwater.hudi.table import HudiTable
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.execution import Job
from headwater.hudi.write.input import to_table
from headwater.hudi.write.key_generator import KeyMaker, auto_keys, column_at
from headwater.hudi.write.options import WriteOptions
from headwater.hudi.write.reconcile import fit_rows, reconcile


@dataclass(frozen=True)
class Shape:
    """The columns that a write brings, against those of the table."""

    table: HudiTable
    schema: pa.Schema
    """The table's columns after the write."""
    given: tuple[str, ...]
    partial: bool
    rules: MergeRules
    maker: KeyMaker

    @classmethod
    def of(cls, table: HudiTable, incoming: pa.Schema, options: WriteOptions, *, partial: bool = False) -> Shape:
        """Bring the two together; what would corrupt the table is refused."""
        rules = merge_rules(table.config)
        user = pa.schema([f for f in incoming if f.name not in META_COLUMNS])
        known = pa.schema([f for f in table.schema.arrow if f.name not in META_COLUMNS])
        _refuse_missing(table, user, rules)
        schema = _reconciled(known, user, partial=partial)
        if table.schema.internal is not None and not schema.equals(known):
            raise WriteRefused(
                f"{table.storage.uri}: the table follows its columns by ids (schema on read); add or change them with "
                "ALTER TABLE, then write"
            )
        maker = KeyMaker.of_table(table, options.key_options)
        return cls(table, schema, tuple(user.names), partial, rules, maker)

    @classmethod
    def of_table(cls, table: HudiTable, options: WriteOptions) -> Shape:
        """Rows that have the table's own columns."""
        known = pa.schema([f for f in table.schema.arrow if f.name not in META_COLUMNS])
        maker = KeyMaker.of_table(table, options.key_options)
        return cls(table, known, tuple(known.names), False, merge_rules(table.config), maker)

    @property
    def absent(self) -> frozenset[str]:
        """Columns that keep their stored values."""
        return frozenset(self.schema.names) - set(self.given) if self.partial else frozenset()

    @property
    def makes_keys(self) -> bool:
        """Whether the table has no record key of its own."""
        return not self.table.config.record_key_fields

    def refuse_made_up_keys(self, what: str) -> None:
        """Rows of a table that makes up a key for each cannot be looked for."""
        if self.makes_keys:
            raise WriteRefused(
                f"{self.table.storage.uri}: {what} looks for record keys, and this table makes up one for each row; "
                "use insert, or update, delete and merge with conditions on columns"
            )

    def job(self, name: str, options: WriteOptions, *, replaces: bool = False, hudi_name: str | None = None) -> Job:
        """The write that brings these columns."""
        return Job(name, self.schema, options, self.rules, replaces, self.absent, hudi_name)

    @cached_property
    def _nullable(self) -> pa.Schema:
        return nullable(self.schema)

    @cached_property
    def _fitting(self) -> pa.Schema:
        """What rows must fit: columns that a partial update leaves out are null on the way."""
        return pa.schema([f.with_nullable(True) if f.name in self.absent else f for f in self.schema])

    def batch_of(self, rows: pa.Table, *, keys: pa.Array | None = None) -> Batch:
        """Rows in the table's columns, each with its key, its partition and its ordering value.

        Where the table makes keys up they are empty until the write has its instant (`keyed`). `keys` are given where
        the rows are stored ones.
        """
        made = fit_rows(rows, self._fitting).cast(self._nullable)
        count = made.num_rows
        if keys is None:
            keys = pa.repeat("", count) if self.makes_keys else self.keys_of(made)
        markers = rows.select([name for name in (IS_DELETED, OPERATION) if name in rows.column_names])
        deleted = marked_deleted(self.rules, made, markers)
        self._refuse_nulls(made)
        return Batch.of(made, keys, self.partitions_of(made), self.rules, deleted)

    def keyed(self, batch: Batch, instant: str, first: int, task: int = 0) -> Batch:
        """The batch with the keys that this write makes up; the same batch where rows have their own."""
        if not self.makes_keys:
            return batch
        return replace(batch, keys=auto_keys(instant, len(batch), task=task, first_row=first))

    def keys_of(self, rows: pa.Table) -> pa.Array:
        """The record key of each row."""
        return self.maker.keys(rows)

    def partitions_of(self, rows: pa.Table) -> pa.Array:
        """The partition path of each row."""
        return self.maker.partitions(rows)

    def _refuse_nulls(self, rows: pa.Table) -> None:
        config, uri = self.table.config, self.table.storage.uri
        partitions = config.partition_fields if self.maker.kinds else ()
        for role, names in (("partition", partitions), ("ordering", self._ordering)):
            for name in names:
                nulls = column_at(rows, name, role).null_count
                if nulls:
                    raise WriteRefused(
                        f"{uri}: {nulls:,} of {rows.num_rows:,} rows have no {name}, the table's {role} column; "
                        "give them a value or leave them out"
                    )

    @property
    def _ordering(self) -> tuple[str, ...]:
        return self.rules.ordering_fields if self.rules.by_event_time else ()


def nullable(schema: pa.Schema) -> pa.Schema:
    """The columns, each of which may be null: rows on their way through a merge may be deletes."""
    return pa.schema([f.with_nullable(True) for f in schema])


def _reconciled(known: pa.Schema, incoming: pa.Schema, *, partial: bool) -> pa.Schema:
    if not partial:
        return reconcile(known, incoming)
    # Stored values stay where the rows have none, so that a column which may not be null may be left out.
    relaxed = pa.schema([f if f.name in incoming.names else f.with_nullable(True) for f in known])
    made = reconcile(relaxed, incoming)
    return pa.schema([known.field(f.name).with_type(f.type) if f.name in known.names else f for f in made])


def keys_to_delete(table: HudiTable, keys: Any, options: WriteOptions) -> tuple[pa.Array, pa.Array | None]:
    """Record keys, and their partitions where the rows tell."""
    if isinstance(keys, pa.Array | pa.ChunkedArray) or (
        isinstance(keys, list | tuple | set | frozenset) and all(isinstance(key, str) for key in keys)
    ):
        return arguments.record_keys(sorted(keys) if isinstance(keys, set | frozenset) else keys), None
    rows = to_table(keys)
    shape = Shape.of_table(table, options)
    shape.refuse_made_up_keys("delete by key")
    wanted = [name for name in table.config.record_key_fields if name not in rows.column_names]
    if wanted:
        raise ColumnNotFound(f"keys: no column {', '.join(wanted)}; give the key columns, or the keys as texts")
    has_partition = all(name in rows.column_names for name in table.config.partition_fields)
    names = [*table.config.record_key_fields, *(table.config.partition_fields if has_partition else ())]
    typed = fit_rows(rows, nullable(pa.schema([table.schema.arrow.field(name) for name in dict.fromkeys(names)])))
    found = shape.keys_of(typed)
    if found.null_count:
        raise WriteRefused("keys: rows without a key name no record; leave them out")
    return found, shape.partitions_of(typed) if has_partition else None


def _refuse_missing(table: HudiTable, incoming: pa.Schema, rules: MergeRules) -> None:
    config = table.config
    for role, names in (
        ("record key", config.record_key_fields),
        ("partition", config.partition_fields),
        ("ordering", rules.ordering_fields),
    ):
        missing = [name for name in names if name.split(".")[0] not in incoming.names]
        if missing:
            raise ColumnNotFound(
                f"{table.storage.uri}: the rows have no column {', '.join(missing)}, the table's {role}; they have: "
                f"{', '.join(incoming.names)}"
            )
