"""Folding all versions of each record into one, on whole columns of row numbers.

Nothing here touches a value. Every version of every record has a row number; what is folded is, for each record, which
row wins and, where columns merge one by one, which row each column comes from. The values are gathered once, at last.

The fold is Hudi's (facts 6.1, 6.5, 15.1): log records are folded in the order they were written, and the outcome is
then merged with the base row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Versions:
    """All versions of the records of a slice, in the order they were written.

    `code` numbers the records from 0 without gaps, `rank` orders by the ordering fields (equal values, equal rank).
    `resets` marks deletes without an ordering value: they win over all that came before, whatever its ordering value.
    `from_delete_block` marks deletes that carry nothing but a key and an ordering value.
    """

    code: Rows
    rank: Rows | None
    deleted: Flags
    resets: Flags
    from_delete_block: Flags
    gaps: Sequence[Flags] | None = None
    """For each column: rows whose value is to be filled from the other version."""
    compared: Flags | None = None
    """Rows whose ordering value counts against earlier versions; None for all. The others win."""

    @property
    def records(self) -> int:
        return int(self.code.max()) + 1 if len(self.code) else 0


@dataclass(frozen=True, slots=True)
class Folded:
    """For each record the row that won, and where columns merge, the row that each column comes from."""

    winner: Rows
    sources: list[Rows] | None = None


def fold(versions: Versions, *, by_event_time: bool) -> Folded:
    """One version per record."""
    if versions.gaps is not None:
        return _fold_columns(versions, by_event_time=by_event_time)
    if not by_event_time or versions.rank is None:
        return Folded(last_of_each(versions.code, versions.records))
    return Folded(_latest_event(versions, versions.rank))


def last_of_each(code: Rows, records: int) -> Rows:
    """For each record the row that was written last."""
    winner = np.full(records, -1, np.int64)
    winner[code] = np.arange(len(code))  # assignment in order: the last one stays
    return winner


def _latest_event(versions: Versions, rank: Rows) -> Rows:
    code, records = versions.code, versions.records
    if records == len(code):
        winner = np.empty(records, np.int64)
        winner[code] = np.arange(records)
        return winner
    rows = np.arange(len(code))
    if versions.resets.any():
        rows = rows[_after_reset(versions)]
    order = rows[np.lexsort((rows, rank[rows], code[rows]))]
    winner = np.full(records, -1, np.int64)
    winner[code[order]] = order
    return winner


def _after_reset(versions: Versions) -> Flags:
    """Rows that still count after the last reset of their record.

    A reset wipes what came before. The next record that is not from a delete block takes its place, whatever its
    ordering value; deletes between the two change nothing.
    """
    code, records = versions.code, versions.records
    rows = np.arange(len(code))
    reset_at = np.full(records, -1, np.int64)
    reset_at[code[versions.resets]] = rows[versions.resets]
    behind = rows > reset_at[code]
    data = behind & ~versions.from_delete_block
    first_data = np.full(records, len(code), np.int64)
    np.minimum.at(first_data, code[data], rows[data])
    had_reset = reset_at[code] >= 0
    replaced = first_data[code] < len(code)
    return np.where(
        had_reset,
        np.where(replaced, rows >= first_data[code], rows == reset_at[code]),
        True,
    )


def _fold_columns(versions: Versions, *, by_event_time: bool) -> Folded:
    """Columns merge one by one: fold version after version, all records at once."""
    assert versions.gaps is not None
    code, count = versions.code, versions.records
    order = np.lexsort((np.arange(len(code)), code))
    starts = np.flatnonzero(np.r_[True, code[order][1:] != code[order][:-1]]) if len(order) else order
    lengths = np.diff(np.r_[starts, len(order)])
    winner = np.empty(count, np.int64)
    winner[code[order[starts]]] = order[starts]
    sources = [winner.copy() for _ in versions.gaps]
    for step in range(1, int(lengths.max(initial=0))):
        newer = order[starts[lengths > step] + step]
        records = code[newer]
        merge_step(versions, winner, sources, records, newer, by_event_time=by_event_time)
    return Folded(winner, sources)


def merge_step(
    versions: Versions,
    winner: Rows,
    sources: list[Rows],
    records: Rows,
    newer: Rows,
    *,
    by_event_time: bool,
) -> None:
    """Merge one newer version into the state of each of `records`, in place."""
    assert versions.gaps is not None
    older = winner[records]
    newer_wins = beats(versions, older, newer, by_event_time=by_event_time)
    fill = ~(versions.deleted[older] | versions.deleted[newer])
    winner[records] = np.where(newer_wins, newer, older)
    for column, gap in zip(sources, versions.gaps, strict=True):
        old, new = column[records], newer
        high = np.where(newer_wins, new, old)
        low = np.where(newer_wins, old, new)
        column[records] = np.where(fill & gap[high], low, high)


def beats(versions: Versions, older: Rows, newer: Rows, *, by_event_time: bool) -> Flags:
    """Whether the newer of two versions wins."""
    if not by_event_time or versions.rank is None:
        return np.ones(len(newer), bool)
    old_reset, new_reset = versions.resets[older], versions.resets[newer]
    keeps_reset = old_reset & versions.from_delete_block[newer]
    wins: Flags = (old_reset | new_reset | (versions.rank[newer] >= versions.rank[older])) & ~keeps_reset
    return wins if versions.compared is None else wins | ~versions.compared[newer]


RowMerger: TypeAlias = Callable[[Any, Rows, Rows], Any]


def rounds(code: Rows) -> list[tuple[Rows, Rows]]:
    """The versions of each record one after the other: (records, rows) of the first, the second, … versions."""
    order = np.lexsort((np.arange(len(code)), code))
    if not len(order):
        return []
    starts = np.flatnonzero(np.r_[True, code[order][1:] != code[order][:-1]])
    lengths = np.diff(np.r_[starts, len(order)])
    found = []
    for step in range(int(lengths.max())):
        rows = order[starts[lengths > step] + step]
        found.append((code[rows], rows))
    return found
