"""Merging a slice by position: which rows of the base file go, and which rows come in their place.

    base file  ⊖  dropped positions  ⊕  added rows

The base file is never joined row by row: its keys (or nothing, where the log knows positions) and its ordering values
are enough to tell what goes. Whole base rows are read only where columns of both versions mix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptFile
from headwater.hudi.merge.fold import Flags, Folded, Rows, Versions, fold, last_of_each, rounds
from headwater.hudi.merge.log_rows import IS_DELETED, LogRows
from headwater.hudi.merge.ordering import ordering_values, ranks
from headwater.hudi.merge.rules import MergeRules
from headwater.hudi.properties import PartialUpdateMode
from headwater.hudi.schema import COMMIT_TIME, META_COLUMNS


@dataclass(frozen=True)
class BaseRows:
    """What merging may ask of the base file."""

    num_rows: int
    keys: Callable[[], pa.ChunkedArray]
    """The record key of every row."""
    column: Callable[[str, Rows], pa.ChunkedArray]
    """A column's values at some positions."""
    rows: Callable[[Rows], pa.Table]
    """The columns that the reader gives, at some positions."""
    highest: Callable[[str], Any] = lambda name: None
    """A value that no row of a column exceeds, where that is known without reading it and no row is null."""
    instants: frozenset[str] | None = None
    """In the read of a range: its commits. Rows of others are not merged with, as in Hudi: a version of the range
    that would lose against such a row is given."""


@dataclass(frozen=True)
class Merged:
    """The outcome: positions to drop, in order, and rows to add."""

    dropped: Rows
    added: pa.Table


def merge_slice(
    log: LogRows, base: BaseRows | None, rules: MergeRules, defaults: dict[str, object] | None = None
) -> Merged:
    """Merge the log of a slice with its base file, which there may not be."""
    if log.num_rows == 0:
        return Merged(np.zeros(0, np.int64), log.table)
    code, ids = _codes(log)
    positions, matched = _of_range(base, *_match(log, ids, base))
    if rules.merger is not None:
        return _merge_custom(log, code, len(ids), positions, matched, base, rules)
    by_event = rules.by_event_time
    gaps = _gaps(log.table, log.absent, rules, defaults or {})
    # Where every record has one version, nothing is to be ranked.
    rank = ranks([log.ordering])[0] if by_event and (gaps is not None or len(ids) < log.num_rows) else None
    compared = _compared(log, rules)
    versions = Versions(code, rank, log.deleted, log.resets, log.from_delete_block, gaps, compared)
    folded = fold(versions, by_event_time=by_event)
    wins = np.ones(len(positions), bool)
    if by_event and len(positions):
        assert base is not None
        wins = _beats_base(log, folded.winner[matched], base, positions, rules)
        if compared is not None:
            wins |= ~compared[folded.winner[matched]]
    if gaps is not None:
        latest = last_of_each(code, len(ids))
        return _merge_columns(log, folded, latest, positions, matched, wins, base, rules, defaults or {})
    keeps_base = np.zeros(len(ids), bool)
    keeps_base[matched[~wins]] = True
    added = folded.winner[~log.deleted[folded.winner] & ~keeps_base]
    return Merged(positions[wins], _take(log.table, added))


def _compared(log: LogRows, rules: MergeRules) -> Flags | None:
    """The versions whose ordering value decides; None where it is all of them."""
    kinds = [column.type for column in log.ordering] if rules.compares_no_text else []
    is_text = any(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds)
    return log.from_delete_block if is_text else None


def _take(table: pa.Table, rows: Rows) -> pa.Table:
    """Some rows; often all of them as they stand, which need no copy."""
    return table if _is_all(rows, table.num_rows) else table.take(pa.array(rows))


def _is_all(rows: Rows, count: int) -> bool:
    """Whether these are all rows of so many, as they stand."""
    return len(rows) == count and bool((rows[1:] > rows[:-1]).all())


def _codes(log: LogRows) -> tuple[Rows, pa.Array | Rows]:
    """A number for each record, and what each number stands for: a position or a key."""
    if log.positions is not None:
        if bool((log.positions[1:] > log.positions[:-1]).all()):
            return np.arange(len(log.positions)), log.positions  # one block, most often: rising already
        ids, code = np.unique(log.positions, return_inverse=True)
        return code.astype(np.int64), ids
    assert log.keys is not None
    encoded = log.keys.combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks)
    if encoded.null_count:
        raise CorruptFile("a log record has no record key; compact the table with Hudi or restore the log file")
    dictionary = encoded.dictionary_encode()
    return np.asarray(dictionary.indices).astype(np.int64), dictionary.dictionary


def _match(log: LogRows, ids: pa.Array | Rows, base: BaseRows | None) -> tuple[Rows, Rows]:
    """Positions in the base file that the log has a version of, rising, and the number of their record.

    Where keys are matched and the base file holds a key twice, the log's version goes to its first row, as in Hudi.
    """
    nothing = np.zeros(0, np.int64)
    if base is None:
        return nothing, nothing
    if isinstance(ids, np.ndarray):
        if len(ids) and (ids[0] < 0 or ids[-1] >= base.num_rows):
            raise CorruptFile(
                f"a log block names row {int(ids[-1])} of a base file of {base.num_rows} rows; the two do not belong "
                "together: restore the files of this slice"
            )
        return ids, np.arange(len(ids))
    found = pc.index_in(base.keys(), value_set=ids)
    code = np.asarray(pc.fill_null(found, -1)).astype(np.int64)
    positions = np.flatnonzero(code >= 0)
    matched = code[positions]
    if len(matched) > 1:
        _, first = np.unique(matched, return_index=True)
        if len(first) < len(matched):
            first.sort()
            positions, matched = positions[first], matched[first]
    return positions, matched


def _of_range(base: BaseRows | None, positions: Rows, matched: Rows) -> tuple[Rows, Rows]:
    """Those of the matched base rows that merging may see."""
    if base is None or base.instants is None or not len(positions):
        return positions, matched
    seen = pc.is_in(base.column(COMMIT_TIME, positions), value_set=pa.array(sorted(base.instants), pa.string()))
    flags = np.asarray(seen.to_numpy(zero_copy_only=False), bool)
    return positions[flags], matched[flags]


def _beats_base(log: LogRows, winner: Rows, base: BaseRows, positions: Rows, rules: MergeRules) -> Flags:
    """Whether the log's version wins over the base row: its ordering value is not lower."""
    newer = [column if _is_all(winner, len(column)) else column.take(pa.array(winner)) for column in log.ordering]
    if _surely_later(newer, base, rules):
        return np.ones(len(positions), bool)
    older = ordering_values(rules, [base.column(name, positions) for name in rules.ordering_fields])
    new_rank, old_rank = ranks([newer, older])
    wins: Flags = log.resets[winner] | (new_rank >= old_rank)
    return wins


def _surely_later(newer: list[pa.ChunkedArray], base: BaseRows, rules: MergeRules) -> bool:
    """Whether even the earliest of the log's versions is not earlier than any base row: the usual case."""
    if len(newer) != 1 or rules.ordering_is_sequence or newer[0].null_count or pa.types.is_floating(newer[0].type):
        return False
    highest = base.highest(rules.ordering_fields[0])
    lowest = pc.min(newer[0]).as_py() if highest is not None else None
    if lowest is None or type(lowest) is not type(highest):
        return False
    return bool(lowest >= highest)


def _gaps(
    table: pa.Table, absent: dict[str, Flags], rules: MergeRules, defaults: dict[str, object]
) -> list[Flags] | None:
    """For each column the rows whose value another version fills; None where no column merges by itself."""
    if not absent and rules.partial is None:
        return None
    rows = table.num_rows
    gaps = []
    for field in table.schema:
        gap = np.array(absent.get(field.name, np.zeros(rows, bool)))
        column = table.column(field.name)
        if rules.partial is PartialUpdateMode.IGNORE_DEFAULTS:
            gap |= _equals_default(column, defaults.get(field.name))
        elif rules.partial is PartialUpdateMode.FILL_UNAVAILABLE and _is_text(field.type):
            text = pa.scalar(rules.unavailable, pa.string()).cast(field.type)
            gap |= np.asarray(pc.fill_null(pc.equal(column, text), False).to_numpy(zero_copy_only=False), bool)
        gaps.append(gap)
    return gaps


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _equals_default(column: pa.ChunkedArray, default: object) -> Flags:
    if default is None:
        found = pc.is_null(column)
    else:
        try:
            found = pc.fill_null(pc.equal(column, pa.scalar(default).cast(column.type)), False)
        except (pa.ArrowException, TypeError):
            found = pa.chunked_array([pa.array(np.zeros(len(column), bool))])
    flags: Flags = np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)
    return flags


def _merge_columns(
    log: LogRows,
    folded: Folded,
    latest: Rows,
    positions: Rows,
    matched: Rows,
    wins: Flags,
    base: BaseRows | None,
    rules: MergeRules,
    defaults: dict[str, object],
) -> Merged:
    """Each column of a merged row comes from the version that has it."""
    assert folded.sources is not None
    rows, older = log.num_rows, log.table
    # One space of row numbers: the log's rows, then the matched rows of the base file.
    base_rows = base.rows(positions) if base is not None and len(positions) else log.table.slice(0, 0)
    base_number = np.full(len(folded.winner), -1, np.int64)
    base_number[matched] = rows + np.arange(len(positions))
    newer_wins = np.ones(len(folded.winner), bool)
    newer_wins[matched] = wins
    deleted = log.deleted[folded.winner]
    keep = ~(deleted & newer_wins)
    fills = (base_number >= 0) & ~deleted
    log_gaps = _gaps(older, log.absent, rules, defaults) or []
    base_gaps = _gaps(base_rows, {}, rules, defaults) or [np.zeros(base_rows.num_rows, bool)] * len(log_gaps)
    columns = []
    for index, name in enumerate(older.column_names):
        newer = folded.sources[index]
        gap = np.concatenate([log_gaps[index], base_gaps[index]])
        high = np.where(newer_wins, newer, np.maximum(base_number, 0))
        low = np.where(newer_wins, base_number, newer)
        chosen = np.where(fills & gap[high] & (low >= 0), low, high)
        if rules.stamps_latest and name in META_COLUMNS:
            chosen = np.where(log.deleted[latest], chosen, latest)
        values = pa.chunked_array(
            [*older.column(name).chunks, *base_rows.column(name).chunks], older.schema[index].type
        )
        columns.append(values.take(pa.array(chosen[keep])))
    added = pa.Table.from_arrays(columns, schema=older.schema)
    return Merged(positions, added)


def _merge_custom(
    log: LogRows,
    code: Rows,
    records: int,
    positions: Rows,
    matched: Rows,
    base: BaseRows | None,
    rules: MergeRules,
) -> Merged:
    """A merger of the user's own folds the versions, whole tables of them at a time."""
    assert rules.merger is not None
    state = np.full(records, -1, np.int64)
    pool, deleted = log.table, log.deleted.copy()

    def apply(who: Rows, newer: Rows, older: Rows) -> None:
        nonlocal pool, deleted
        both = (older >= 0) & ~deleted[older] & ~deleted[newer]
        state[who[~both]] = newer[~both]
        if both.any():
            assert rules.merger is not None
            merged = rules.merger.merge(pool.take(pa.array(older[both])), pool.take(pa.array(newer[both])))
            state[who[both]] = pool.num_rows + np.arange(int(both.sum()))
            pool = pa.concat_tables([pool, merged.select(pool.column_names).cast(pool.schema)])
            deleted = np.concatenate([deleted, _marked_deleted(merged)])

    for who, newer in rounds(code):
        apply(who, newer, state[who])
    if base is not None and len(positions):
        start = pool.num_rows
        pool = pa.concat_tables([pool, base.rows(positions).cast(pool.schema)])
        deleted = np.concatenate([deleted, np.zeros(len(positions), bool)])
        apply(matched, state[matched], start + np.arange(len(positions)))
    return Merged(positions, pool.take(pa.array(state[~deleted[state]])))


def _marked_deleted(merged: pa.Table) -> Flags:
    for name in ("__deleted", IS_DELETED):
        if name in merged.column_names:
            flags: Flags = np.asarray(pc.fill_null(merged.column(name), False).to_numpy(zero_copy_only=False), bool)
            return flags
    return np.zeros(merged.num_rows, bool)
