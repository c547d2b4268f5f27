"""Merging a log with its base file: which base rows go, which log rows come (reader-spec R14, R17)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.hudi.merge.fold import Rows
from headwater.hudi.merge.log_rows import LogRows
from headwater.hudi.merge.rules import MergeRules
from headwater.hudi.merge.slice_merge import BaseRows, Merged, merge_slice
from headwater.hudi.properties import MergeMode, PartialUpdateMode
from headwater.hudi.schema import COMMIT_TIME

BASE = pa.table({COMMIT_TIME: ["c1", "c2"], "key": ["a", "b"], "ts": [7, 7]})
LOG = pa.table({COMMIT_TIME: ["c3", "c3"], "key": ["a", "b"], "ts": [2, 2]})


BY_EVENT_TIME = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))


def merge(instants: frozenset[str] | None, *, by_position: bool, rules: MergeRules = BY_EVENT_TIME) -> Merged:
    none = np.zeros(LOG.num_rows, bool)
    keys, positions = (None, np.arange(2)) if by_position else (LOG.column("key"), None)
    log = LogRows(LOG, keys, positions, (LOG.column("ts"),), none, none, none, {})

    def column(name: str, positions: Rows) -> pa.ChunkedArray:
        return BASE.column(name).take(pa.array(positions))

    base = BaseRows(2, lambda: BASE.column("key"), column, lambda p: BASE.take(pa.array(p)), instants=instants)
    return merge_slice(log, base, rules)


def test_late_version_loses_against_the_base_row() -> None:
    for by_position in (True, False):
        merged = merge(None, by_position=by_position)
        assert (merged.dropped.tolist(), merged.added.num_rows) == ([], 0)


def test_late_version_of_a_range_is_given_where_the_base_row_is_of_an_older_commit() -> None:
    """Apache Hudi 1.2.0 leaves base rows of other commits out before it merges: `make interop`."""
    for by_position in (True, False):
        merged = merge(frozenset({"c2", "c3"}), by_position=by_position)
        assert merged.dropped.tolist() == []
        assert merged.added.column("key").to_pylist() == ["a"]


def test_late_partial_update_stamps_the_row_that_it_loses_against() -> None:
    """PartialUpdateAvroPayload takes the meta columns of the updating record, also where the stored one is newer."""
    rules = MergeRules(
        MergeMode.EVENT_TIME_ORDERING, ("ts",), partial=PartialUpdateMode.IGNORE_DEFAULTS, stamps_latest=True
    )
    merged = merge(None, by_position=False, rules=rules)
    assert merged.added.column("ts").to_pylist() == [7, 7]
    assert merged.added.column(COMMIT_TIME).to_pylist() == ["c3", "c3"]


def test_text_that_orders_partial_updates_is_compared_for_deletes_alone() -> None:
    """PartialUpdateAvroPayload compares values of one Java class, texts of two versions are of two: `make interop`."""
    stored = pa.table({COMMIT_TIME: ["c1"] * 3, "key": ["a", "b", "c"], "ts": ["v7"] * 3, "x": [1, 1, 1]})
    rows = pa.table(
        {
            COMMIT_TIME: ["c3", "c4", None, "c3"],
            "key": ["a", "a", "b", "c"],
            "ts": ["v8", "v12", None, "v12"],
            "x": [3, None, None, 3],
        }
    )
    deletes = np.array([False, False, True, False])
    ordering = (pa.chunked_array([["v8", "v12", "v12", "v12"]]),)
    log = LogRows(rows, rows.column("key"), None, ordering, deletes, np.zeros(4, bool), deletes, {})
    base = BaseRows(
        3,
        lambda: stored.column("key"),
        lambda name, at: stored.column(name).take(pa.array(at)),
        lambda at: stored.take(pa.array(at)),
    )
    rules = MergeRules(
        MergeMode.EVENT_TIME_ORDERING, ("ts",), partial=PartialUpdateMode.IGNORE_DEFAULTS, compares_no_text=True
    )
    merged = merge_slice(log, base, rules)
    kept = stored.filter(pa.array([at not in merged.dropped for at in range(3)]))
    found = pa.concat_tables([kept, merged.added]).sort_by("key").select(["key", "ts", "x"])
    assert found.to_pylist() == [
        {"key": "a", "ts": "v12", "x": 3},
        {"key": "b", "ts": "v7", "x": 1},
        {"key": "c", "ts": "v12", "x": 3},
    ]
