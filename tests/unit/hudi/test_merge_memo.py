"""What a process remembers of merging: within its bytes, by columns and types, and never across different files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.hudi.merge.memo import MergeMemo
from headwater.hudi.merge.slice_merge import Merged


def merged(dropped: list[int], **columns: object) -> Merged:
    return Merged(np.array(dropped, np.int64), pa.table(columns))


X = pa.field("x", pa.int64())
Y = pa.field("y", pa.int64())


def test_columns_of_several_reads_add_up() -> None:
    memo = MergeMemo(10_000)
    memo.keep("s", merged([1], x=[1, 2]))
    assert memo.find("s", [X, Y]) is None
    memo.keep("s", merged([1], y=[3, 4]))
    found = memo.find("s", [Y, X])
    assert found is not None
    assert found.added.to_pydict() == {"y": [3, 4], "x": [1, 2]}
    assert found.dropped.tolist() == [1]


def test_a_column_of_another_type_is_another_column() -> None:
    memo = MergeMemo(10_000)
    memo.keep("s", merged([1], x=[1, 2]))
    assert memo.find("s", [pa.field("x", pa.string())]) is None


def test_no_columns_are_never_answered_since_their_number_of_rows_is_lost() -> None:
    memo = MergeMemo(10_000)
    memo.keep("s", merged([1], x=[1, 2]))
    assert memo.find("s", []) is None


def test_what_was_used_longest_ago_goes_first() -> None:
    memo = MergeMemo(100)
    memo.keep("a", merged([1], x=[1, 2]))
    memo.keep("b", merged([1], x=[1, 2]))
    assert memo.find("a", [X]) is not None
    memo.keep("c", merged(list(range(6)), x=[1, 2]))
    assert memo.find("b", [X]) is None
    assert memo.find("c", [X]) is not None


def test_an_outcome_larger_than_the_memo_is_not_kept() -> None:
    memo = MergeMemo(100)
    memo.keep("a", merged([1], x=[1]))
    memo.keep("b", merged(list(range(100)), x=[1]))
    assert memo.find("b", [X]) is None
    assert memo.find("a", [X]) is not None


def test_an_outcome_of_other_rows_replaces_the_one_before() -> None:
    memo = MergeMemo(10_000)
    memo.keep("s", merged([1], x=[1, 2]))
    memo.keep("s", merged([1, 2], y=[3]))
    assert memo.find("s", [X]) is None
    assert memo.find("s", [Y]) is not None


def test_what_another_process_keeps_too_takes_only_the_room_that_is_left() -> None:
    memo = MergeMemo(60)
    memo.keep("mine", merged([1], x=[1, 2]))
    memo.keep("theirs", merged([1], x=[1, 2]), primary=False)
    assert memo.find("theirs", [X]) is not None
    memo.keep("theirs too", merged([1], x=[1, 2]), primary=False)
    assert memo.find("theirs too", [X]) is None
    memo.keep("mine too", merged([1], x=[1, 2]))
    assert memo.find("theirs", [X]) is None
    assert memo.find("mine", [X]) is not None
    assert memo.find("mine too", [X]) is not None
