"""Tables that were opened before their files or indexes went, and time travel: an error and never some of the rows.

Reader-spec R1, R5 and R10.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import headwater
from headwater.errors import InstantNotFound, MissingFile
from headwater.hudi import cleaned
from headwater.hudi.metadata_table.plans import clean_metadata, clean_plan
from headwater.hudi.write.clock import next_time

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("p", pa.string())])


def rows(ids: str, ts: int) -> pa.Table:
    partitions = ["a" if letter < "m" else "z" for letter in ids]
    return pa.table({"id": list(ids), "ts": [ts] * len(ids), "p": partitions}, schema=SCHEMA)


def make(path: Path, version: int) -> headwater.Table:
    made = headwater.create(path, schema=SCHEMA, key="id", ordering="ts", partition_by="p", version=version)
    made.upsert(rows("abyz", 1))
    return made


def clean(path: Path, partition: str, *, keep: int, by_commits: bool = False, ends: bool = True) -> None:
    """Take all but the newest versions of a partition's file group, as Hudi's cleaner does."""
    opened = headwater.open(path).hudi
    files = sorted((path / partition).glob("*.parquet"), key=lambda file: file.name.rsplit("_", 1)[-1])
    names = [file.name for file in files[: len(files) - keep]]
    time, retained = next_time(opened.timeline), opened.timeline.commits[-1].requested_at if by_commits else ""
    folder = path / opened.config.timeline_folder
    (folder / f"{time}.clean.requested").write_bytes(clean_plan({partition: names}, retained=retained, root=str(path)))
    (folder / f"{time}.clean.inflight").write_bytes(b"")
    if ends:
        name = f"{time}.clean" if opened.config.layout < 2 else f"{time}_{time}.clean"
        (folder / name).write_bytes(clean_metadata({partition: names}, instant=time, retained=retained))
    for one in names:
        (path / partition / one).unlink()


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("by_commits", [True, False])
def test_an_open_table_does_not_pass_over_groups_that_were_cleaned(
    tmp_path: Path, version: int, ends: bool, by_commits: bool
) -> None:
    made = make(tmp_path / "t", version)
    old, older = headwater.open(tmp_path / "t"), headwater.open(tmp_path / "t")
    made.upsert(rows("ab", 2))
    assert older.scan().count() == 4
    clean(tmp_path / "t", "a", keep=1, by_commits=by_commits, ends=ends)
    with pytest.raises(MissingFile, match="cleaned since the table was opened"):
        old.scan().count()
    assert old.scan(filter="p = 'z'").count() == 2
    assert headwater.open(tmp_path / "t").scan().count() == 4


@pytest.mark.parametrize("version", [6, 9])
def test_time_travel_does_not_pass_over_what_was_cleaned_by_file_versions(tmp_path: Path, version: int) -> None:
    made = make(tmp_path / "t", version)
    made.upsert(rows("ab", 2))
    made.upsert(rows("a", 3))
    made.upsert(rows("y", 4))
    clean(tmp_path / "t", "a", keep=2)
    opened = headwater.open(tmp_path / "t")
    first, second, third, _ = [commit.requested_at for commit in opened.hudi.timeline.commits]
    with pytest.raises(InstantNotFound, match=f"'a' that the table had at {first} were cleaned"):
        opened.scan(as_of=first).count()
    assert opened.scan(as_of=first, filter="p = 'z'").count() == 2
    assert [opened.scan(as_of=one).count() for one in (second, third)] == [4, 4]


def test_a_metadata_table_does_not_pass_over_what_was_cleaned_of_it(tmp_path: Path) -> None:
    made = make(tmp_path / "t", 9)
    made.index.create("files")
    old = headwater.open(tmp_path / "t")
    assert old.hudi.metadata is not None
    for number in range(31):
        made.upsert(rows("z", number + 2))
    with pytest.raises(MissingFile, match="metadata table were cleaned"):
        old.scan().count()


@pytest.mark.parametrize("version", [6, 9])
def test_an_open_table_asks_its_indexes_for_its_own_state(tmp_path: Path, version: int) -> None:
    made = headwater.create(
        tmp_path / "t", schema=SCHEMA, key="id", ordering="ts", partition_by="p", version=version, index="global_bloom"
    )
    made.upsert(rows("abyz", 1))
    made.index.create("record_index", "column_stats")
    old = headwater.open(tmp_path / "t")
    made.upsert(rows("a", 2).set_column(2, "p", pa.array(["z"])))
    assert made.scan(filter="id = 'a'").to_arrow()["p"].to_pylist() == ["z"]
    assert old.scan(filter="id = 'a'").to_arrow()["p"].to_pylist() == ["a"]
    assert old.scan(filter="ts = 1").count() == 4


def test_an_open_table_does_not_ask_an_index_that_was_dropped(tmp_path: Path) -> None:
    made = make(tmp_path / "t", 9)
    made.index.create("record_index")
    old, older = headwater.open(tmp_path / "t"), headwater.open(tmp_path / "t")
    assert older.hudi.metadata is not None
    made.index.drop("record_index")
    assert old.scan(filter="id = 'a'").count() == 1
    made.index.drop()
    with pytest.raises(MissingFile, match="dropped since the table was opened"):
        older.scan().count()


def test_a_table_that_is_as_it_was_opened_is_not_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path / "t", 9)
    opened = headwater.open(tmp_path / "t")
    monkeypatch.setattr(cleaned, "load_timeline", lambda *given: pytest.fail("the timeline is listed again"))
    assert opened.scan().count() == 4
    monkeypatch.undo()
    made.upsert(rows("b", 2))
    monkeypatch.setattr(cleaned, "load_timeline", lambda *given: pytest.fail("it is"))
    with pytest.raises(pytest.fail.Exception, match="it is"):
        headwater.Table(replace(opened.hudi)).scan().count()
