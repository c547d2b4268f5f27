"""Handles of open tables: each stands for one state of its table, however long it is not used."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import headwater
from headwater.errors import TableChanged
from headwater.spark.sidecar import handles
from headwater.spark.sidecar.handles import OpenTables

ROWS = pa.table({"id": [1, 2], "ts": [1, 1]})


def create(path: Path) -> str:
    headwater.create(path, schema=ROWS.schema, key="id", ordering="ts").insert(ROWS)
    return str(path)


def test_handle_that_was_put_away_is_opened_again_at_its_state_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handles, "_MOST_OPEN", 1)
    one, other = create(tmp_path / "one"), create(tmp_path / "other")
    opened = OpenTables()
    handle, same = opened.open(one, {}, {}), opened.open(one, {}, {})
    before = opened.get(handle).table
    opened.get(opened.open(other, {}, {}))
    assert opened.get(handle).table == before
    headwater.open(one).insert(pa.table({"id": [3], "ts": [1]}))
    opened.get(opened.open(other, {}, {}))
    opened.get(opened.open(one, {}, {}))
    for old in (handle, same):
        with pytest.raises(TableChanged, match="has changed since it was loaded"):
            opened.get(old)
    opened.release(handle)
    with pytest.raises(handles.UnknownHandle):
        opened.get(handle)


def test_every_commit_makes_another_state(tmp_path: Path) -> None:
    path = create(tmp_path / "t")
    states = []
    for key in (3, 4):
        opened = OpenTables()
        states.append(opened.get(opened.open(path, {}, {})).state)
        headwater.open(path).insert(pa.table({"id": [key], "ts": [1]}))
    opened = OpenTables()
    assert len({*states, opened.get(opened.open(path, {}, {})).state}) == 3
