"""A batch on its way in: which of several versions of a record is written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.hudi.merge.rules import MergeRules
from headwater.hudi.properties import MergeMode
from headwater.hudi.write.batch import Batch

BY_EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))
BY_COMMIT = MergeRules(MergeMode.COMMIT_TIME_ORDERING, ("ts",))


def batch(rows: list[tuple[str, str, int | None, str]], rules: MergeRules, deleted: list[int] | None = None) -> Batch:
    keys, partitions, times, names = zip(*rows, strict=True)
    flags = np.zeros(len(rows), bool)
    flags[deleted or []] = True
    table = pa.table({"ts": pa.array(times, pa.int64()), "name": names})
    return Batch.of(table, pa.array(keys), pa.array(partitions), rules, flags)


def names(found: Batch) -> list[str]:
    return found.rows.column("name").to_pylist()


def test_the_row_with_the_highest_ordering_value_is_kept() -> None:
    made = batch([("a", "", 5, "late"), ("a", "", 3, "early"), ("b", "", 1, "other")], BY_EVENT)
    assert names(made.combined(BY_EVENT, by_partition=True)) == ["late", "other"]


def test_of_equal_ordering_values_the_later_row_is_kept() -> None:
    made = batch([("a", "", 5, "first"), ("a", "", 5, "second")], BY_EVENT)
    assert names(made.combined(BY_EVENT, by_partition=True)) == ["second"]


def test_by_commit_time_the_last_row_is_kept_whatever_its_ordering_value() -> None:
    made = batch([("a", "", 5, "first"), ("a", "", 3, "last")], BY_COMMIT)
    assert names(made.combined(BY_COMMIT, by_partition=True)) == ["last"]


def test_a_late_delete_loses_within_the_batch() -> None:
    made = batch([("a", "", 5, "row"), ("a", "", 3, "delete")], BY_EVENT, deleted=[1])
    assert names(made.combined(BY_EVENT, by_partition=True)) == ["row"]


def test_a_key_in_two_partitions_is_two_records_unless_the_index_is_global() -> None:
    made = batch([("a", "x", 5, "in x"), ("a", "y", 6, "in y")], BY_EVENT)
    assert names(made.combined(BY_EVENT, by_partition=True)) == ["in x", "in y"]
    assert names(made.combined(BY_EVENT, by_partition=False)) == ["in y"]


def test_deletes_by_key_have_no_ordering_value_and_win() -> None:
    schema = pa.schema([("ts", pa.int64()), ("name", pa.string())])
    made = Batch.deletes(schema, pa.array(["a"]), pa.array([""]), BY_EVENT)
    assert made.deleted.all()
    assert made.resets.all()


def test_batches_of_the_same_columns_become_one() -> None:
    one = batch([("a", "x", 5, "one")], BY_EVENT)
    two = Batch.deletes(one.rows.schema, pa.array(["b"]), pa.array(["y"]), BY_EVENT)
    both = Batch.concatenated([one, two])
    assert both.keys.to_pylist() == ["a", "b"]
    assert both.deleted.tolist() == [False, True]
    assert len(both.ordering[0]) == 2
