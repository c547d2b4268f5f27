"""A writer that dies at any call to storage, in every operation, on every kind and version of table (see `crash_walk`).

Some points of each operation are walked, spread evenly by a seed; HEADWATER_CRASH_WALK=all walks them all, a number so
many of each. HEADWATER_CRASH_SEED chooses others.
"""

from __future__ import annotations

import os
import uuid
import zlib
from pathlib import Path

import fsspec
import pytest
from tests.counts import Record, count
from tests.reliability.crash_tables import BY_NAME, OPERATIONS, VERSIONS, made
from tests.reliability.crash_walk import Walk, sample

SEED = os.environ.get("HEADWATER_CRASH_SEED", "0")
ASKED = os.environ.get("HEADWATER_CRASH_WALK", "8")
POINTS = None if ASKED == "all" else int(ASKED)
CASES = [
    pytest.param(operation.name, kind, version, id=f"{operation.name}-{kind}-v{version}")
    for operation in OPERATIONS
    for kind in operation.kinds
    for version in VERSIONS
]


@pytest.mark.parametrize(("name", "kind", "version"), CASES)
def test_a_writer_that_dies_at_any_call_leaves_the_state_before_or_after(
    name: str, kind: str, version: int, tmp_path: Path, record_property: Record
) -> None:
    _walked(
        name, kind, version, tmp_path / "none", tmp_path / "work", POINTS, "crash walk: crash points", record_property
    )


ON_STORES = [case for case in CASES if ASKED == "all" or case.values[1:] in (("cow", 9), ("mor", 9), ("mor", 6))]


@pytest.mark.parametrize(("name", "kind", "version"), ON_STORES)
def test_the_same_holds_on_an_object_store(
    name: str, kind: str, version: int, tmp_path: Path, record_property: Record
) -> None:
    points = None if POINTS is None else max(1, POINTS // 4)
    work = f"memory://{tmp_path.name}-{uuid.uuid4().hex}/work"
    try:
        _walked(name, kind, version, tmp_path / "none", work, points, "crash walk: on an object store", record_property)
    finally:
        # The store outlives the test, and each of its listings goes through all that it holds.
        store, root = fsspec.core.url_to_fs(work)
        store.rm(root, recursive=True)


def _walked(
    name: str, kind: str, version: int, none: Path, work: Path | str, most: int | None, label: str, record: Record
) -> None:
    operation = BY_NAME[name]
    kept = none if operation.creates else made(kind, version, operation.variant)
    walk = Walk(operation, kind, version, kept, work)
    points = walk.points()
    before, after = walk.states()
    assert (before == after) == name.startswith("index_"), "the operation does what it is to be stopped at"
    chosen = sample(points, most, f"{SEED}/{zlib.crc32(f'{name}/{kind}/{version}'.encode())}")
    wrong = []
    for point in chosen:
        try:
            walk.stop(point, before, after)
        except Exception as error:
            wrong.append(f"{point}\n{type(error).__name__}: {error}")
    count(record, label, len(chosen), of=len(points), wrong=len(wrong))
    assert not wrong, "\n\n".join(wrong[:5])
