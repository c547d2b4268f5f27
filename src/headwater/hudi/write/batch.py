"""The rows of a write, with what the pipeline must know of each: key, partition, ordering value, whether it deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from headwater.hudi.merge.fold import Flags, Rows, Versions, fold
from headwater.hudi.merge.log_rows import lacks_ordering
from headwater.hudi.merge.ordering import ordering_values, ranks
from headwater.hudi.merge.rules import MergeRules


@dataclass(frozen=True)
class Batch:
    """Columns of the same length: row i of each is the same incoming record."""

    rows: pa.Table
    """The user's columns, in the types that will be written. Rows that delete may be null throughout."""
    keys: pa.Array
    partitions: pa.Array
    ordering: tuple[pa.ChunkedArray, ...] = ()
    deleted: Flags = field(default_factory=lambda: np.zeros(0, bool))
    resets: Flags = field(default_factory=lambda: np.zeros(0, bool))
    """Deletes without an ordering value: they win whatever the stored row's is."""

    @classmethod
    def of(
        cls, rows: pa.Table, keys: pa.Array, partitions: pa.Array, rules: MergeRules, deleted: Flags | None = None
    ) -> Batch:
        """Rows as they come in. `deleted` are those that say so themselves."""
        flags = np.zeros(rows.num_rows, bool) if deleted is None else deleted
        ordering = ordering_values(rules, [rows.column(name) for name in rules.ordering_fields])
        return cls(rows, keys, partitions, ordering, flags, np.asarray(flags & lacks_ordering(ordering)))

    @classmethod
    def deletes(cls, schema: pa.Schema, keys: pa.Array, partitions: pa.Array, rules: MergeRules) -> Batch:
        """Deletes by key, which win over every stored row."""
        count = len(keys)
        nullable = pa.schema([f.with_nullable(True) for f in schema])
        nulls = [pa.nulls(count, f.type) for f in nullable]
        rows = pa.Table.from_arrays(nulls, schema=nullable)
        ordering = ordering_values(rules, [rows.column(name) for name in rules.ordering_fields])
        flags = np.ones(count, bool)
        return cls(rows, keys, partitions, ordering, flags, flags)

    @classmethod
    def concatenated(cls, parts: Sequence[Batch]) -> Batch:
        """Batches of the same columns, one after the other."""
        kept = [part for part in parts if len(part)] or list(parts[:1])
        schema = pa.schema([f.with_nullable(True) for f in kept[0].rows.schema])
        return cls(
            pa.concat_tables([part.rows.cast(schema) for part in kept]),
            pa.concat_arrays([part.keys for part in kept]),
            pa.concat_arrays([part.partitions for part in kept]),
            tuple(
                pa.chunked_array([chunk for part in kept for chunk in part.ordering[at].chunks], column.type)
                for at, column in enumerate(kept[0].ordering)
            ),
            np.concatenate([part.deleted for part in kept]),
            np.concatenate([part.resets for part in kept]),
        )

    def rows_and_keys(self, rows: Rows) -> tuple[pa.Table, pa.Array]:
        """Some rows with their keys; rows that stand next to each other are not copied."""
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and bool((np.diff(rows) == 1).all()):
            return self.rows.slice(rows[0], len(rows)), self.keys.slice(rows[0], len(rows))
        chosen = pa.array(rows)
        return self.rows.take(chosen), self.keys.take(chosen)

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def partition_codes(self) -> tuple[Rows, list[str]]:
        """A number for each row's partition, and the paths that the numbers stand for."""
        encoded = self.partitions.dictionary_encode()
        return np.asarray(encoded.indices).astype(np.int64), encoded.dictionary.to_pylist()

    def take(self, rows: Rows) -> Batch:
        """Some of the rows."""
        if len(rows) == len(self) and bool((rows == np.arange(len(rows))).all()):
            return self
        chosen = pa.array(rows)
        return Batch(
            self.rows.take(chosen),
            self.keys.take(chosen),
            self.partitions.take(chosen),
            tuple(column.take(chosen) for column in self.ordering),
            self.deleted[rows],
            self.resets[rows],
        )

    def codes(self, *, by_partition: bool) -> tuple[Rows, int]:
        """A number for each record, the same for the same record, and how many records there are."""
        encoded = self.keys.dictionary_encode()
        code, count = np.asarray(encoded.indices).astype(np.int64), len(encoded.dictionary)
        if not by_partition or count == len(self):
            return code, count
        partition, paths = self.partition_codes
        if len(paths) == 1:
            return code, count
        distinct, inverse = np.unique(partition * count + code, return_inverse=True)
        return inverse.astype(np.int64), len(distinct)

    def combined(self, rules: MergeRules, *, by_partition: bool) -> Batch:
        """One row for each record: the one that wins by the table's merge mode, the later one of equals.

        A merge mode of the user's own has its say when the row meets the stored one; of several in one batch the last
        is taken.
        """
        code, count = self.codes(by_partition=by_partition)
        return self if count == len(self) else self.take(np.sort(self.winners(rules, code)))

    def winners(self, rules: MergeRules, code: Rows) -> Rows:
        """For each record, by its number in `code`, the row that wins."""
        by_event = rules.by_event_time and rules.merger is None
        rank = ranks([self.ordering])[0] if by_event else None
        versions = Versions(code, rank, self.deleted, self.resets, np.zeros(len(self), bool))
        return fold(versions, by_event_time=by_event).winner
