"""Folding versions of records: whole columns of row numbers against Hudi's rules told record by record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.hudi.merge.fold import Versions, fold


@dataclass(frozen=True)
class Version:
    record: int
    rank: int
    deleted: bool
    resets: bool
    from_block: bool
    gaps: tuple[bool, bool]


@st.composite
def version(draw: st.DrawFn) -> Version:
    kind = draw(st.sampled_from(["data", "marked", "block", "reset", "marked reset"]))
    deleted = kind != "data"
    resets = kind in ("reset", "marked reset")
    gaps = (False, False) if deleted else (draw(st.booleans()), draw(st.booleans()))
    return Version(draw(st.integers(0, 3)), draw(st.integers(0, 3)), deleted, resets, kind in ("block", "reset"), gaps)


def versions_of(found: list[Version], *, columns: bool) -> tuple[Versions, list[int]]:
    numbers = {record: code for code, record in enumerate(dict.fromkeys(v.record for v in found))}
    gaps = [np.array([v.gaps[i] for v in found], bool) for i in range(2)] if columns else None
    return Versions(
        np.array([numbers[v.record] for v in found], np.int64),
        np.array([v.rank for v in found], np.int64),
        np.array([v.deleted for v in found], bool),
        np.array([v.resets for v in found], bool),
        np.array([v.from_block for v in found], bool),
        gaps,
    ), list(numbers)


def newer_wins(old: Version, new: Version, *, by_event_time: bool) -> bool:
    """Facts 6.1: a delete without an ordering value beats what was before it, and gives way to the next record."""
    if not by_event_time:
        return True
    if new.from_block and old.resets:
        return False
    return old.resets or new.resets or new.rank >= old.rank


def told(found: list[Version], record: int, *, by_event_time: bool) -> tuple[int, list[int]]:
    """The winning row of a record and the row of each column, one version after the other."""
    rows = [row for row, v in enumerate(found) if v.record == record]
    winner, sources = rows[0], [rows[0], rows[0]]
    for row in rows[1:]:
        wins = newer_wins(found[winner], found[row], by_event_time=by_event_time)
        may_fill = not found[winner].deleted and not found[row].deleted
        for column in range(2):
            high, low = (row, sources[column]) if wins else (sources[column], row)
            sources[column] = low if may_fill and found[high].gaps[column] else high
        winner = row if wins else winner
    return winner, sources


@settings(max_examples=400, deadline=None)
@given(st.lists(version(), min_size=1, max_size=14), st.booleans())
def test_the_winner_is_the_one_that_hudi_keeps(found: list[Version], by_event_time: bool) -> None:
    versions, records = versions_of(found, columns=False)
    winner = fold(versions, by_event_time=by_event_time).winner
    expected = [told(found, record, by_event_time=by_event_time)[0] for record in records]
    # Two resets, or a reset and the deletes that it ignores, are the same outcome under another number.
    same = [found[a] for a in winner.tolist()], [found[b] for b in expected]
    assert [(v.deleted, v.resets, v.rank if not v.resets else 0) for v in same[0]] == [
        (v.deleted, v.resets, v.rank if not v.resets else 0) for v in same[1]
    ]
    kept = [(a, b) for a, b in zip(winner.tolist(), expected, strict=True) if not found[b].deleted]
    assert all(a == b for a, b in kept)


@settings(max_examples=400, deadline=None)
@given(st.lists(version(), min_size=1, max_size=14), st.booleans())
def test_each_column_comes_from_the_version_that_has_it(found: list[Version], by_event_time: bool) -> None:
    versions, records = versions_of(found, columns=True)
    folded = fold(versions, by_event_time=by_event_time)
    assert folded.sources is not None
    for code, record in enumerate(records):
        winner, sources = told(found, record, by_event_time=by_event_time)
        assert folded.winner[code] == winner
        if not found[winner].deleted:
            assert [int(column[code]) for column in folded.sources] == sources


def test_a_fold_of_nothing_is_nothing() -> None:
    none = np.zeros(0, np.int64)
    flags = np.zeros(0, bool)
    assert len(fold(Versions(none, none, flags, flags, flags), by_event_time=True).winner) == 0
    assert len(fold(Versions(none, none, flags, flags, flags, [flags]), by_event_time=True).winner) == 0
