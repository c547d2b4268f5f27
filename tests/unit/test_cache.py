"""What a process keeps of merging: the next scan of a table reads no log record again, and sees the same rows."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from tests.fixtures.suites import table, tables

import headwater
from headwater.errors import InvalidArgument, WrongType
from headwater.hudi.log.format import BlockType, Header, read_block, write_block
from headwater.hudi.merge.log_rows import LogReader
from headwater.hudi.merge.memo import key_of_files
from headwater.hudi.write.alter import AddColumn, DropColumn, alter_columns
from headwater.spec.model import FileGroupId, FileSlice
from headwater.storage import Storage

MERGED = [one.name for one in tables("generated") if "_mor_" in one.name]
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("x", pa.int64())])


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Told of each time that a log is decoded."""
    told: list[str] = []
    read = LogReader.read

    def counting(self: LogReader, *given: object, **more: object) -> object:
        told.append("decoded")
        return read(self, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(LogReader, "read", counting)
    return told


def rows(found: pa.Table) -> list[str]:
    return sorted(map(str, found.to_pylist()))


def merge_on_read(path: Path) -> headwater.Table:
    headwater.create(path, schema=SCHEMA, key="id", ordering="ts", kind="mor")
    return _filled(headwater.open(path))


def _filled(found: headwater.Table) -> headwater.Table:
    found.insert(pa.table({"id": ["a", "b"], "ts": [1, 1], "x": [1, 2]}, schema=SCHEMA))
    found.upsert(pa.table({"id": ["b"], "ts": [2], "x": [20]}, schema=SCHEMA))
    return found


@pytest.mark.parametrize("name", MERGED)
def test_a_second_scan_gives_the_rows_of_the_first(name: str) -> None:
    path = table("generated", name).path()
    found = headwater.open(path)
    first = rows(found.scan().to_arrow())
    names = found.schema.names[5:7]
    assert rows(found.scan().to_arrow()) == first
    assert rows(found.scan(columns=names).to_arrow()) == rows(
        headwater.open(path, cache=0).scan(columns=names).to_arrow()
    )


def test_a_second_scan_decodes_no_log(tmp_path: Path, decoded: list[str]) -> None:
    found = merge_on_read(tmp_path / "t")
    decoded.clear()
    first = found.scan(columns=["id", "x"]).to_arrow()
    assert len(decoded) == 1
    assert found.scan(columns=["id", "x"]).to_arrow().equals(first)
    assert found.refresh().scan(columns=["x"]).to_arrow().equals(first.select(["x"]))
    assert len(decoded) == 1
    assert found.scan(columns=["id", "ts"]).to_arrow().num_rows == 2
    assert len(decoded) == 2  # another column


@pytest.mark.parametrize(("cache", "decodings"), [("64MB", 1), (0, 2)])
def test_a_table_that_was_created_here_keeps_as_much(
    tmp_path: Path, decoded: list[str], cache: str | int, decodings: int
) -> None:
    found = headwater.create(tmp_path / "t", schema=SCHEMA, key="id", ordering="ts", kind="mor", cache=cache)
    _filled(found)
    decoded.clear()
    assert found.scan(columns=["x"]).to_arrow().equals(found.scan(columns=["x"]).to_arrow())
    assert len(decoded) == decodings


def test_a_write_in_between_is_seen(tmp_path: Path) -> None:
    found = merge_on_read(tmp_path / "t")
    before = found.hudi.timeline.commits[-1].requested_at
    assert rows(found.scan(columns=["id", "x"]).to_arrow()) == ["{'id': 'a', 'x': 1}", "{'id': 'b', 'x': 20}"]
    found.upsert(pa.table({"id": ["a"], "ts": [3], "x": [100]}, schema=SCHEMA))
    found.delete(["b"])
    assert rows(found.scan(columns=["id", "x"]).to_arrow()) == ["{'id': 'a', 'x': 100}"]
    past = found.scan(columns=["id", "x"], as_of=before).to_arrow()
    assert rows(past) == ["{'id': 'a', 'x': 1}", "{'id': 'b', 'x': 20}"]
    assert rows(found.scan(columns=["id", "x"], filter="x = 100").to_arrow()) == ["{'id': 'a', 'x': 100}"]


def test_a_column_that_was_dropped_and_added_again_is_another_column(tmp_path: Path) -> None:
    found = merge_on_read(tmp_path / "t")
    assert rows(found.scan(columns=["x"]).to_arrow()) == ["{'x': 1}", "{'x': 20}"]
    for change in (DropColumn(("x",)), AddColumn(("x",), pa.int64())):
        alter_columns(headwater.open(tmp_path / "t").hudi, [change])
    assert rows(headwater.open(tmp_path / "t").scan(columns=["x"]).to_arrow()) == ["{'x': None}"] * 2


def test_nothing_is_kept_without_a_cache_or_under_a_budget(tmp_path: Path, decoded: list[str]) -> None:
    merge_on_read(tmp_path / "t")
    decoded.clear()
    without = headwater.open(tmp_path / "t", cache=0)
    for _ in range(2):
        without.scan(columns=["x"]).to_arrow()
    assert len(decoded) == 2
    bounded = headwater.open(tmp_path / "t")
    for _ in range(2):
        bounded.scan(columns=["x"], memory="64MB").to_arrow()
    assert len(decoded) == 4


def test_a_table_that_is_opened_again_decodes_no_log(tmp_path: Path, decoded: list[str]) -> None:
    first = merge_on_read(tmp_path / "t").scan(columns=["id", "x"]).to_arrow()
    decoded.clear()
    assert headwater.open(tmp_path / "t").scan(columns=["id", "x"]).to_arrow().equals(first)
    assert not decoded
    assert headwater.open(tmp_path / "t", cache="1MB").scan(columns=["id", "x"]).to_arrow().equals(first)
    assert decoded  # another cache


@pytest.mark.parametrize("kind", ["*.parquet", ".*.log.*"])
def test_a_file_that_was_replaced_is_read_again(tmp_path: Path, decoded: list[str], kind: str) -> None:
    first = merge_on_read(tmp_path / "t").scan(columns=["id", "x"]).to_arrow()
    (replaced,) = (tmp_path / "t").glob(kind)
    os.utime(replaced, (1_000_000_000, 1_000_000_000))
    decoded.clear()
    assert headwater.open(tmp_path / "t").scan(columns=["id", "x"]).to_arrow().equals(first)
    assert decoded


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_write_after_a_rollback_is_seen(tmp_path: Path, version: int) -> None:
    # In memory, as on an object store, nothing asks for the times of files.
    path = f"memory://{tmp_path.name}-{version}"
    found = headwater.create(path, schema=SCHEMA, key="id", ordering="ts", kind="mor", version=version)
    _filled(found)
    assert rows(found.scan(columns=["id", "x"]).to_arrow()) == ["{'id': 'a', 'x': 1}", "{'id': 'b', 'x': 20}"]
    found.rollback(found.hudi.timeline.commits[-1].requested_at)
    found.upsert(pa.table({"id": ["b"], "ts": [2], "x": [30]}, schema=SCHEMA))
    assert rows(found.scan(columns=["id", "x"]).to_arrow()) == ["{'id': 'a', 'x': 1}", "{'id': 'b', 'x': 30}"]


def test_blocks_at_one_place_are_told_apart_by_their_instants(tmp_path: Path) -> None:
    slice_ = FileSlice(FileGroupId("", "f"), "001")

    def key(instant: str) -> object:
        data = write_block(BlockType.DELETE, {Header.INSTANT_TIME: instant})
        return key_of_files(Storage.at(tmp_path), slice_, [read_block(data, 0, len(data), "a log")])

    assert key("002") == key("002") != key("003")


def test_another_process_starts_with_nothing(tmp_path: Path, decoded: list[str]) -> None:
    found = merge_on_read(tmp_path / "t")
    first = found.scan(columns=["x"]).to_arrow()
    decoded.clear()
    copy = pickle.loads(pickle.dumps(found))
    assert copy.scan(columns=["x"]).to_arrow().equals(first)
    assert len(decoded) == 1


@pytest.mark.parametrize(("given", "problem"), [("much", InvalidArgument), (True, WrongType), (-1, InvalidArgument)])
def test_a_cache_that_is_no_size_is_refused(given: object, problem: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(problem, match="cache="):
        headwater.open(tmp_path, cache=given)  # type: ignore[arg-type]
