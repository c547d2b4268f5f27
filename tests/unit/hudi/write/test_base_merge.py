"""The next version of a base file: rows in their places, changed by the table's merge mode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.hudi.base_file import open_base_file
from headwater.hudi.merge.log_rows import LogRows
from headwater.hudi.merge.rules import MergeRules
from headwater.hudi.properties import MergeMode, PartialUpdateMode, check_config
from headwater.hudi.schema import META_COLUMNS, META_SCHEMA
from headwater.hudi.write import base_merge
from headwater.hudi.write.base_merge import BaseMerge
from headwater.storage import Storage

CONFIG = check_config({"hoodie.table.name": "t", "hoodie.table.version": "9"}, "here")
SCHEMA = pa.schema([*META_SCHEMA, ("ts", pa.int64()), ("name", pa.string())])
BY_EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))
BY_COMMIT = MergeRules(MergeMode.COMMIT_TIME_ORDERING)


@pytest.fixture(autouse=True, params=[0, 32], ids=["copied", "handed on"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches with many changes and with few are put together in two ways: all that follows is so in both."""
    monkeypatch.setattr(base_merge, "_FEW", request.param)


def rows(*items: tuple[str, int | None, str | None], instant: str = "1") -> pa.Table:
    keys, times, names = zip(*items, strict=True) if items else ((), (), ())
    count = len(items)
    meta = {name: pa.array([instant] * count, pa.string()) for name in META_COLUMNS}
    meta["_hoodie_record_key"] = pa.array(keys, pa.string())
    return pa.table({**meta, "ts": pa.array(times, pa.int64()), "name": pa.array(names, pa.string())}, schema=SCHEMA)


def merge(
    folder: Path,
    stored: pa.Table,
    new: pa.Table,
    rules: MergeRules = BY_EVENT,
    *,
    deleted: list[int] | None = None,
    positions: list[int] | None = None,
    absent: frozenset[str] = frozenset(),
) -> BaseMerge:
    path = "f-0_0-0-0_1.parquet"
    pq.write_table(stored, folder / path, row_group_size=2)
    flags = np.zeros(new.num_rows, bool)
    flags[deleted or []] = True
    incoming = LogRows(
        new,
        new.column("_hoodie_record_key"),
        None,
        tuple(new.column(name) for name in rules.ordering_fields),
        flags,
        np.zeros(new.num_rows, bool),
        np.zeros(new.num_rows, bool),
        {},
    )
    base = open_base_file(Storage.at(folder), path)
    at = None if positions is None else np.array(positions, np.int64)
    return BaseMerge(base, SCHEMA, {}, CONFIG, rules, {}, incoming, at, keeps_changes=True, absent=absent)


def names(made: BaseMerge) -> list[str | None]:
    return [name for part in made.tables() for name in part.column("name").to_pylist()]


STORED = rows(("a", 1, "a1"), ("b", 5, "b1"), ("c", 1, "c1"), ("d", 1, "d1"), ("e", 1, "e1"))


def test_a_new_version_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    made = merge(tmp_path, STORED, rows(("c", 2, "c2"), ("a", 2, "a2"), instant="2"))
    assert names(made) == ["a2", "b1", "c2", "d1", "e1"]
    assert (made.updated, made.deleted, made.unmatched.tolist()) == (2, 0, [])


def test_a_late_version_loses_and_counts_as_nothing(tmp_path: Path) -> None:
    made = merge(tmp_path, STORED, rows(("b", 4, "late"), instant="2"))
    assert names(made) == ["a1", "b1", "c1", "d1", "e1"]
    assert made.updated == 0


def test_an_equal_ordering_value_wins(tmp_path: Path) -> None:
    assert names(merge(tmp_path, STORED, rows(("b", 5, "b2"))))[1] == "b2"


def test_a_delete_takes_the_row_and_a_late_delete_does_not(tmp_path: Path) -> None:
    made = merge(tmp_path, STORED, rows(("a", 9, None), ("b", 1, None)), deleted=[0, 1])
    assert names(made) == ["b1", "c1", "d1", "e1"]
    assert made.deleted == 1
    assert [key for part in made.gone for key in part.to_pylist()] == ["a"]


def test_records_that_the_file_lacks_are_left_to_the_caller(tmp_path: Path) -> None:
    made = merge(tmp_path, STORED, rows(("x", 1, "x1"), ("c", 2, "c2")))
    assert names(made) == ["a1", "b1", "c2", "d1", "e1"]
    assert made.unmatched.tolist() == [0]


def test_a_key_that_is_stored_twice_is_replaced_twice(tmp_path: Path) -> None:
    twice = rows(("a", 1, "a1"), ("b", 1, "b1"), ("a", 1, "a1 again"))
    assert names(merge(tmp_path, twice, rows(("a", 2, "new")))) == ["new", "b1", "new"]


def test_rows_are_found_by_position_where_it_is_known(tmp_path: Path) -> None:
    twice = rows(("a", 1, "a1"), ("b", 1, "b1"), ("a", 1, "a1 again"))
    made = merge(tmp_path, twice, rows(("a", 2, "third"), ("a", 2, None)), deleted=[1], positions=[2, 0])
    assert names(made) == ["b1", "third"]
    assert (made.updated, made.deleted) == (1, 1)


def test_columns_that_a_partial_update_lacks_keep_their_values(tmp_path: Path) -> None:
    made = merge(tmp_path, STORED, rows(("c", 7, None)), absent=frozenset({"name"}))
    table = pa.concat_tables(list(made.tables()))
    assert table.column("name").to_pylist() == ["a1", "b1", "c1", "d1", "e1"]
    assert table.column("ts").to_pylist() == [1, 5, 7, 1, 1]


@pytest.mark.parametrize("rules", [BY_EVENT, BY_COMMIT])
def test_nulls_keep_stored_values_where_the_table_ignores_defaults(tmp_path: Path, rules: MergeRules) -> None:
    partial = MergeRules(rules.mode, rules.ordering_fields, PartialUpdateMode.IGNORE_DEFAULTS)
    assert names(merge(tmp_path, STORED, rows(("c", 7, None)), partial)) == ["a1", "b1", "c1", "d1", "e1"]


def test_changes_are_kept_with_the_rows_before_and_after(tmp_path: Path) -> None:
    made = merge(tmp_path, STORED, rows(("a", 2, "a2"), ("b", 6, None)), deleted=[1])
    list(made.tables())
    (change,) = made.changes
    assert change.before.column("name").to_pylist() == ["a1"]
    assert change.after.column("name").to_pylist() == ["a2"]
    assert change.deleted.column("name").to_pylist() == ["b1"]


def test_a_merger_of_the_users_own_has_the_last_word(tmp_path: Path) -> None:
    class Longest:
        def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
            return older

    rules = MergeRules(MergeMode.CUSTOM, merger=Longest())
    assert names(merge(tmp_path, STORED, rows(("c", 7, "c2")), rules)) == ["a1", "b1", "c1", "d1", "e1"]
