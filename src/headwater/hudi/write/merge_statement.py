"""SQL's MERGE: rows of a source joined to the table, and what is done to those that match and to those that do not.

    table.merge(changes, on="id")
         .when_matched_delete(where="source.gone")
         .when_matched_update()
         .when_not_matched_insert()
         .execute()

For each row the first clause counts whose condition holds. Updates are merged with the stored row by the table's merge
mode, as an upsert's rows are: by event time a late one loses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from headwater.errors import ColumnNotFound, DuplicateKeys, InvalidArgument, WriteRefused
from headwater.hudi.merge.fold import Flags, Rows
from headwater.hudi.record_index import HudiRecordIndex
from headwater.hudi.schema import RECORD_KEY
from headwater.hudi.table import HudiTable
from headwater.hudi.write.assigned_values import assign
from headwater.hudi.write.execution import Job, Plan, run
from headwater.hudi.write.found_rows import FoundRows, find_rows
from headwater.hudi.write.incoming import Shape
from headwater.hudi.write.options import IndexKind
from headwater.hudi.write.placement import place
from headwater.hudi.write.planning import assigner, joined_batch, refuse_taken, statement_job, write_options
from headwater.hudi.write.reconcile import fit_rows
from headwater.hudi.write.result import WriteResult
from headwater.hudi.write.tagging import latest_slices, resolve_index, tag
from headwater.spec.expressions import Expression, bind, col, evaluate, to_expression

SOURCE, TARGET = "source", "target"
_FEW_KEYS = 10_000


@dataclass(frozen=True)
class Clause:
    """What to do with some of the rows."""

    kind: str
    where: Expression | None = None
    values: Mapping[str, Any] | None = None
    """Column → value; None: every column that the source has."""


@dataclass(frozen=True)
class MergeStatement:
    """A merge that has not run yet. Each method gives a new one; `execute` runs it."""

    table: HudiTable
    source: pa.Table
    on: tuple[str, ...]
    options: Mapping[str, Any] | None = None
    clauses: tuple[Clause, ...] = ()
    done: Callable[[], None] = lambda: None

    def when_matched_update(
        self, set: Mapping[str, Any] | Sequence[str] | None = None, *, where: str | Expression | None = None
    ) -> MergeStatement:
        """Stored rows with a match get new values.

        `set` maps columns to constants, to `col("source.x")` or `col("target.x")`, or to a function of the matching
        rows of target and source, two Arrow tables; a list names columns to take from the source; None takes all.
        """
        if isinstance(set, str):
            raise InvalidArgument(f"set={set!r} is one text; give a list of columns, or a mapping of columns to values")
        if set is not None and not isinstance(set, Mapping):
            set = {name: col(f"{SOURCE}.`{name}`") for name in set}
        return self._with("update", where, set)

    def when_matched_delete(self, *, where: str | Expression | None = None) -> MergeStatement:
        """Stored rows with a match are deleted."""
        return self._with("delete", where, None)

    def when_not_matched_insert(
        self, values: Mapping[str, Any] | None = None, *, where: str | Expression | None = None
    ) -> MergeStatement:
        """Rows of the source without a match are inserted; columns that are not given are null."""
        return self._with("insert", where, values)

    def _with(self, kind: str, where: str | Expression | None, values: Mapping[str, Any] | None) -> MergeStatement:
        condition = None if where is None else to_expression(where)
        return replace(self, clauses=(*self.clauses, Clause(kind, condition, values)))

    def execute(self) -> WriteResult:
        """Run the merge as one commit."""
        if not self.clauses:
            raise InvalidArgument("a merge without clauses does nothing; add when_matched_… or when_not_matched_insert")
        chosen = write_options(self.table, self.options)
        job = statement_job(self.table, "merge", chosen, hudi_name="upsert")
        self._check(job)

        tried: list[_MergePlan] = []

        def plan(state: HudiTable, instant: str) -> Plan | None:
            tried.append(_MergePlan(state, self, job))
            return tried[-1].plan()

        result = run(self.table, job, plan)
        self.done()
        return tried[-1].counted(result)

    def _check(self, job: Job) -> None:
        missing = [name for name in self.on if name not in self.source.column_names or name not in job.schema.names]
        if missing or not self.on:
            raise ColumnNotFound(
                f"on={list(self.on)}: {', '.join(missing) or 'no column'}; name columns that table and source both have"
            )
        keys = [*self.table.config.record_key_fields, *self.table.config.partition_fields]
        for clause in self.clauses:
            target = self.table.schema.arrow if clause.kind != "insert" else None
            if clause.where is not None:
                bind(clause.where, _joined_schema(self.source.schema, target))
            unknown = [name for name in clause.values or () if name not in job.schema.names]
            if unknown:
                raise ColumnNotFound(f"no column {', '.join(unknown)}; the table has: {', '.join(job.schema.names)}")
            if clause.kind == "insert":
                given = self.source.column_names if clause.values is None else clause.values
                lacking = [name for name in keys if name not in given]
                if lacking:
                    raise WriteRefused(
                        f"when_not_matched_insert gives no {', '.join(lacking)}; new rows need a key and a partition"
                    )


def _joined_schema(source: pa.Schema, target: pa.Schema | None) -> pa.Schema:
    fields = [pa.field(SOURCE, pa.struct(list(source)))]
    return pa.schema([*fields, pa.field(TARGET, pa.struct(list(target)))] if target is not None else fields)


class _MergePlan:
    def __init__(self, state: HudiTable, statement: MergeStatement, job: Job) -> None:
        self.state = state
        self.statement = statement
        self.job = job
        self.shape = Shape.of_table(state, job.options)
        self.new_rows = 0

    def counted(self, result: WriteResult) -> WriteResult:
        """The outcome with new rows counted as such: a log of a bucket cannot tell them from updates, the join can."""
        unseen = min(self.new_rows - result.inserted, result.updated)
        if unseen <= 0:
            return result
        return replace(result, inserted=result.inserted + unseen, updated=result.updated - unseen)

    def plan(self) -> Plan | None:
        found, target_rows, source_rows = self._match()
        stored = found.rows.take(pa.array(target_rows))
        source = self.statement.source
        matched = source.take(pa.array(source_rows))
        updates, deletes = self._matched(stored, matched)
        changed = self._updated(found.take(target_rows), stored, matched, updates)
        gone = found.take(target_rows).take(np.flatnonzero(deletes))
        unmatched = np.ones(source.num_rows, bool)
        unmatched[source_rows] = False
        inserted = self._inserted(source.filter(pa.array(unmatched)))
        return self._planned(changed, gone, inserted)

    # ------------------------------------------------------------------------------------------------------ the join

    def _match(self) -> tuple[FoundRows, Rows, Rows]:
        """Stored rows, and pairs of rows of these and of the source that match."""
        on = list(self.statement.on)
        types = pa.schema([self.job.schema.field(name).with_nullable(True) for name in on])
        wanted = _frame(fit_rows(self.statement.source.select(on), types)).with_row_index("__source")
        if not any(clause.kind != "insert" for clause in self.statement.clauses) and not self._on_key():
            columns = on
        else:
            columns = self.job.schema.names

        def narrow(rows: pa.Table) -> pa.Array:
            stored = _frame(rows.select(on)).with_row_index("__target")
            return stored.join(wanted, on=on, how="semi").sort("__target").get_column("__target").to_arrow()

        slices, filter = self._slices()
        found = find_rows(self.state, slices, columns=columns, filter=filter, narrow=narrow)
        pairs = _frame(found.rows.select(on)).with_row_index("__target").join(wanted, on=on, how="inner")
        pairs = pairs.sort("__target", "__source")
        target = pairs.get_column("__target").to_numpy().astype(np.int64)
        if len(target) > len(np.unique(target)):
            twice = found.keys[int(target[np.flatnonzero(np.diff(target) == 0)[0]])].as_py()
            raise WriteRefused(
                f"{self.state.storage.uri}: several rows of the source match the stored row with key {twice!r}; leave "
                "one for each, or join on more columns"
            )
        return found, target, pairs.get_column("__source").to_numpy().astype(np.int64)

    def _on_key(self) -> bool:
        return set(self.statement.on) == set(self.state.config.record_key_fields)

    def _slices(self) -> tuple[list[Any], Expression | None]:
        if not self._on_key() or not self.state.timeline.commits:
            return latest_slices(self.state), None
        columns = list(self.state.config.record_key_fields)
        types = pa.schema([self.job.schema.field(name).with_nullable(True) for name in columns])
        keys = self.shape.keys_of(fit_rows(self.statement.source.select(columns), types)).drop_null().unique()
        filter = None
        if len(keys) <= _FEW_KEYS and self.state.config.populate_meta_fields:
            filter = bind(col(RECORD_KEY).is_in(keys.to_pylist()), self.state.schema.arrow)
        return HudiRecordIndex(self.state).slices(keys), filter

    # --------------------------------------------------------------------------------------------------- the clauses

    def _matched(self, stored: pa.Table, matched: pa.Table) -> tuple[list[tuple[Clause, Flags]], Flags]:
        """Which matched rows each update takes, and which are deleted."""
        open_ = np.ones(stored.num_rows, bool)
        deletes = np.zeros(stored.num_rows, bool)
        updates = []
        for clause in self.statement.clauses:
            if clause.kind == "insert":
                continue
            taken = open_ & _holds(clause.where, _joined(matched, stored))
            open_ &= ~taken
            if clause.kind == "delete":
                deletes |= taken
            else:
                updates.append((clause, taken))
        return updates, deletes

    def _updated(
        self, found: FoundRows, stored: pa.Table, matched: pa.Table, updates: list[tuple[Clause, Flags]]
    ) -> tuple[pa.Table, FoundRows]:
        parts, chosen = [], []
        for clause, taken in updates:
            rows = np.flatnonzero(taken)
            if len(rows):
                old, new = stored.take(pa.array(rows)), matched.take(pa.array(rows))
                parts.append(assign(old, self._values(clause, new), _joined(new, old), old, new))
                chosen.append(rows)
        if not parts:
            return stored.slice(0, 0), found.take(np.zeros(0, np.int64))
        return pa.concat_tables(parts), found.take(np.concatenate(chosen))

    def _values(self, clause: Clause, source: pa.Table) -> Mapping[str, Any]:
        if clause.values is not None:
            return clause.values
        return {name: col(f"{SOURCE}.`{name}`") for name in source.column_names if name in self.job.schema.names}

    def _inserted(self, source: pa.Table) -> pa.Table:
        empty = pa.schema([f.with_nullable(True) for f in self.job.schema])
        open_ = np.ones(source.num_rows, bool)
        parts = [empty.empty_table()]
        for clause in self.statement.clauses:
            if clause.kind != "insert":
                continue
            taken = open_ & _holds(clause.where, _joined(source, None))
            open_ &= ~taken
            new = source.filter(pa.array(taken))
            if new.num_rows:
                rows = pa.Table.from_arrays([pa.nulls(new.num_rows, f.type) for f in empty], schema=empty)
                parts.append(assign(rows, self._values(clause, new), _joined(new, None), new))
        return pa.concat_tables(parts)

    # ------------------------------------------------------------------------------------------------------ the plan

    def _planned(self, changed: tuple[pa.Table, FoundRows], gone: FoundRows, inserted: pa.Table) -> Plan | None:
        state, job, shape = self.state, self.job, self.shape
        rows, places = changed
        updates = shape.batch_of(rows)
        if not updates.keys.equals(places.keys):
            raise WriteRefused(
                f"{state.storage.uri}: a merge may not change record keys; delete the row and insert another"
            )
        new = shape.batch_of(inserted)
        new = new.take(np.flatnonzero(~new.deleted))
        index = resolve_index(state, job.options)
        new = new.combined(job.rules, by_partition=not index.is_global)
        hashed = index is IndexKind.BUCKET
        if len(new) and not self._on_key():
            # A hash tells where a key would be, not that it is there.
            known = tag(state, new, IndexKind.SIMPLE if hashed else index, job.options, live=True)
            if len(known.row):
                some = new.keys.take(pa.array(known.row[:3])).to_pylist()
                raise DuplicateKeys(
                    f"{state.storage.uri}: rows to insert have keys that are stored already, such as "
                    f"{', '.join(map(repr, some))}; join on the record key: "
                    f"{', '.join(state.config.record_key_fields)}"
                )
        self.new_rows = len(new)
        tags = tag(state, new, index, job.options) if hashed else None
        batch, all_tags = joined_batch(updates, places, gone, new, tags, job)
        placed = place(state, batch, all_tags, job.rules, moves=True)
        refuse_taken(state, batch, placed, index, job)
        return Plan(
            batch, assigner(state, batch, job, index).assign(batch, placed.tags, placed.leaving, placed.inserts)
        )


def _joined(source: pa.Table, target: pa.Table | None) -> pa.Table:
    columns = {SOURCE: _struct(source)}
    if target is not None:
        columns[TARGET] = _struct(target)
    return pa.table(columns)


def _struct(table: pa.Table) -> pa.ChunkedArray:
    if not table.num_rows:
        return pa.chunked_array([], pa.struct(list(table.schema)))
    return pa.chunked_array(table.combine_chunks().to_struct_array())


def _holds(where: Expression | None, joined: pa.Table) -> Flags:
    if where is None:
        return np.ones(joined.num_rows, bool)
    found = evaluate(bind(where, joined.schema), joined).fill_null(False)
    flags: Flags = np.asarray(
        found.to_numpy(zero_copy_only=False) if isinstance(found, pa.ChunkedArray) else found, bool
    )
    return flags


def _frame(table: pa.Table) -> pl.DataFrame:
    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found
