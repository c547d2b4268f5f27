"""The next version of a base file: its rows as they stand, with those that a batch changes replaced or left out.

Unchanged rows are copied as columns. Which version of a record wins is decided by the reader's own merge
(`merge_slice`), batch by batch, so that copy on write gives the rows that merge on read would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.base_file import BaseFile
from headwater.hudi.evolution import Renames, conform
from headwater.hudi.keys import record_keys
from headwater.hudi.merge.fold import Rows
from headwater.hudi.merge.log_rows import LogRows
from headwater.hudi.merge.rules import MergeRules
from headwater.hudi.merge.slice_merge import BaseRows, Merged, merge_slice
from headwater.hudi.properties import TableConfig
from headwater.hudi.schema import META_COLUMNS, RECORD_KEY

_NONE = np.zeros(0, np.int64)
_PLACE = "\0place"
_FEW = 32
"""So many changes of a batch leave stretches between them that are better handed on than copied."""
FILE_NAME = META_COLUMNS[4]
_Find = Callable[[pa.Table, int], tuple[Rows, Rows]]
"""A batch of the base file, and the row it begins at → rows of it that have a new version, and which one."""


@dataclass(frozen=True)
class Change:
    """What became of some stored rows: those that went, and the rows that came in their place."""

    before: pa.Table
    after: pa.Table
    """Row for row what became of `before`."""
    deleted: pa.Table


@dataclass
class BaseMerge:
    """One base file and the records of a batch that belong to its group. `tables` may be gone through once."""

    base: BaseFile
    schema: pa.Schema
    """The columns to write, meta columns first, in plain types."""
    renames: Renames
    config: TableConfig
    rules: MergeRules
    defaults: Mapping[str, object]
    incoming: LogRows
    """Records with keys, one version each, their columns those of `schema`."""
    positions: Rows | None = None
    """The base file's row of each incoming record, where all are known; elsewhere keys are compared."""
    keeps_changes: bool = False
    absent: frozenset[str] = frozenset()
    """Columns that the incoming rows do not have: the stored row's stay."""
    updated: int = 0
    deleted: int = 0
    unmatched: Rows = field(default_factory=lambda: _NONE)
    """Incoming records that the file does not have; known when `tables` is through."""
    gone: list[pa.Array] = field(default_factory=list)
    """Keys of deleted rows."""
    changes: list[Change] = field(default_factory=list)

    def tables(self) -> Iterator[pa.Table]:
        """The rows of the file's next version, in their old order; `unmatched` ones are the caller's to add."""
        find = self._by_key() if self.positions is None else self._by_position(self.positions)
        seen = np.zeros(self.incoming.num_rows, bool)
        columns = self._physical()
        for start, part in self.base.batches(columns, self.base.row_groups):
            batch = conform(part, self.schema, self.renames)
            at, rows = find(batch, start)
            if len(at):
                seen[rows] = True
                batch = self._merge(batch, at, rows)
            if batch.num_rows:
                yield batch
        self.unmatched = np.flatnonzero(~seen)

    def _physical(self) -> list[str]:
        # Every row gets the new file's name: the old one need not be read.
        names = [name for name in self.schema.names if name != FILE_NAME]
        sources = [self.renames.get((name,), name) for name in names]
        return list(dict.fromkeys(one for one in sources if one is not None and one in self.base.schema.names))

    def _key_texts(self, batch: pa.Table) -> pa.ChunkedArray:
        return batch.column(RECORD_KEY) if self.config.populate_meta_fields else record_keys(self.config, batch)

    def _by_key(self) -> _Find:
        assert self.incoming.keys is not None
        keys = _one(self.incoming.keys)

        def find(batch: pa.Table, start: int) -> tuple[Rows, Rows]:
            if not len(keys):
                return _NONE, _NONE
            found = pc.fill_null(pc.index_in(self._key_texts(batch), value_set=keys), -1)
            codes = np.asarray(found).astype(np.int64)
            at = np.flatnonzero(codes >= 0)
            return at, codes[at]

        return find

    def _by_position(self, positions: Rows) -> _Find:
        order = np.argsort(positions, kind="stable")
        rising = positions[order]

        def find(batch: pa.Table, start: int) -> tuple[Rows, Rows]:
            low, high = np.searchsorted(rising, [start, start + batch.num_rows])
            return rising[low:high] - start, order[low:high]

        return find

    def _merge(self, batch: pa.Table, at: Rows, rows: Rows) -> pa.Table:
        chosen = pa.array(rows)
        table = self.incoming.table.take(chosen)
        numbered = batch
        if self.rules.merger is None:
            # Each row carries its place along; a merger of the user's own would not expect that.
            table = table.append_column(_PLACE, pa.array(at))
            numbered = batch.append_column(_PLACE, pa.array(np.arange(batch.num_rows)))
        # A record whose key is stored twice replaces both rows, as in Hudi: each position is a record of its own.
        log = LogRows(
            table,
            None,
            at,
            tuple(column.take(chosen) for column in self.incoming.ordering),
            self.incoming.deleted[rows],
            self.incoming.resets[rows],
            self.incoming.from_delete_block[rows],
            {name: np.full(len(rows), name in self.absent) for name in self.schema.names} if self.absent else {},
        )
        base = BaseRows(
            batch.num_rows,
            lambda: self._key_texts(batch),
            lambda name, positions: batch.column(name).take(pa.array(positions)),
            lambda positions: numbered.take(pa.array(positions)),
        )
        return self._splice(batch, merge_slice(log, base, self.rules, dict(self.defaults)))

    def _splice(self, batch: pa.Table, merged: Merged) -> pa.Table:
        """New versions into the places of the old ones."""
        dropped, added = merged.dropped, merged.added
        if not len(dropped):
            return batch
        if _PLACE in added.column_names:
            places: Rows = added.column(_PLACE).to_numpy().astype(np.int64)
            added = added.drop_columns([_PLACE])
        else:
            old = _one(self._key_texts(batch).take(pa.array(dropped)))
            places = dropped[np.asarray(pc.is_in(old, value_set=_one(self._key_texts(added))))]
        stays = np.ones(batch.num_rows, bool)
        stays[dropped] = False
        stays[places] = True
        gone = dropped[~stays[dropped]]
        self.updated += len(places)
        self.deleted += len(gone)
        if len(gone):
            self.gone.append(_one(self._key_texts(batch).take(pa.array(gone))))
        added = added.select(batch.column_names).cast(batch.schema)
        if self.keeps_changes:
            self.changes.append(Change(batch.take(pa.array(places)), added, batch.take(pa.array(gone))))
        if len(dropped) <= _FEW:
            return _between(batch, added, places, dropped)
        order = np.arange(batch.num_rows)
        order[places] = batch.num_rows + np.arange(added.num_rows)
        return pa.concat_tables([batch, added]).take(pa.array(order[stays]))


def _between(batch: pa.Table, added: pa.Table, places: Rows, dropped: Rows) -> pa.Table:
    """The rows that stay, as they are, with the new versions between them."""
    number = {place: at for at, place in enumerate(places.tolist())}
    parts, start = [], 0
    for position in np.union1d(dropped, places).tolist():
        parts.append(batch.slice(start, position - start))
        if position in number:
            parts.append(added.slice(number[position], 1))
        start = position + 1
    parts.append(batch.slice(start))
    return pa.concat_tables([part for part in parts if part.num_rows] or parts[:1])


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
