"""Calls to storage that fail while the process lives: once, from then on, for want of room; and calls that are slow.

Whoever gets a result sees the state after, whoever gets an error the state before: an error of this library, whatever
the storage raised. Only where the storage answers no more may the outcome be open. Some points of each operation are
walked, more with HEADWATER_CRASH_WALK (see `test_crash_walk`).
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from tests.counts import Record, count
from tests.reliability.crash_tables import BY_NAME, frame, made, make
from tests.reliability.crash_walk import Walk, look, sample
from tests.reliability.test_crash_walk import CASES, POINTS, SEED

from headwater.hudi.table import HudiTable
from headwater.storage import Storage
from headwater.storage.faults import FaultyStorage
from headwater.table import Table

LIMIT = None if POINTS is None else max(POINTS // 4, 1)


@pytest.mark.parametrize(("name", "kind", "version"), CASES)
def test_a_call_that_fails_is_told_and_leaves_the_state_before_or_after(
    name: str, kind: str, version: int, tmp_path: Path, record_property: Record
) -> None:
    operation = BY_NAME[name]
    kept = tmp_path / "none" if operation.creates else made(kind, version, operation.variant)
    walk = Walk(operation, kind, version, kept, tmp_path / "work")
    points = walk.failures()
    before, after = walk.states()
    chosen = sample(points, LIMIT, f"failing {SEED}/{zlib.crc32(f'{name}/{kind}/{version}'.encode())}")
    wrong = []
    for point in chosen:
        try:
            walk.stop(point, before, after)
        except Exception as error:
            wrong.append(f"{point} ({point.times})\n{type(error).__name__}: {error}")
    count(record_property, "failing storage: calls that failed", len(chosen), of=len(points), wrong=len(wrong))
    assert not wrong, "\n\n".join(wrong[:5])


def test_calls_that_are_slow_are_waited_for(tmp_path: Path) -> None:
    make(tmp_path, "mor", 9)
    storage = FaultyStorage.over(Storage.at(tmp_path), at=0, fault="slow", seconds=0.01, times=10**9)
    result = Table(HudiTable.open(storage)).upsert(frame("ax", 5, "slow"))
    assert (result.inserted, result.updated) == (0, 2)
    assert [row[2] for row in look(tmp_path, None).rows or () if row[0] in "ax"] == ["slow", "slow"]
