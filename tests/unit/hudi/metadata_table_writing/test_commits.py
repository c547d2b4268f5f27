"""Commits of real tables made again one by one: after each, our metadata table says what the files say."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.suites import table
from tests.unit.hudi.metadata_table_writing.replay import Replay

import headwater
from headwater.hudi.metadata_table import services, writing
from headwater.hudi.metadata_table.commits import MetadataWriter
from headwater.hudi.metadata_table.creating import create_metadata, rebuild_metadata
from headwater.hudi.metadata_table.dropping import drop_metadata
from headwater.hudi.metadata_table.writing import rollback_metadata, update_metadata
from headwater.spec.model import InstantState
from headwater.storage import Storage
from headwater.storage.faults import FaultyStorage, SimulatedCrash
from headwater.verify import verify

TABLES = (
    "idx_stats_cow_v6_0150",
    "idx_rli_moves_mor_v6_0150",
    "idx_stats_cow_v8_102",
    "idx_sec_updates_mor_v8_102",
    "idx_stats_mor_v9_120",
    "idx_stats_evo_mor_v9_120",
    "del_part_mdt_mor_v9_120",
    "ow_table_cow_v9_120",
)


def indexes(name: str) -> list[str]:
    config = headwater.open(table("generated", name).path()).hudi.config
    found = ["files", "column_stats", "bloom_filters", "record_index"]
    return [*found, "partition_stats"] if config.version >= 8 and config.partition_fields else found


def replay(name: str, folder: Path) -> Replay:
    return Replay(table("generated", name).path(), folder, indexes(name))


def check(made: Replay) -> None:
    """Both ways of listing give the same rows, and nothing disagrees."""
    opened = headwater.open(made.path)
    assert not opened.warnings
    if opened.hudi.timeline.commits:
        assert opened.hudi.metadata is not None
        with_it = opened.scan().to_arrow().to_pylist()
        without = headwater.open(made.path, metadata=False).scan().to_arrow().to_pylist()
        assert sorted(map(str, with_it)) == sorted(map(str, without))
    report = verify(headwater.open(made.path), deep=True)
    assert [finding.what for finding in report.findings] == []


def located(made: Replay) -> dict[str, tuple[str, str]]:
    metadata = made.table().metadata
    assert metadata is not None
    found = metadata.scan("record_index")
    return {key: (place.partition, place.file_id) for key, place in found.items()}  # type: ignore[union-attr]


def expected_places(made: Replay) -> dict[str, tuple[str, str]]:
    from tests.unit.hudi.metadata_table_writing.replay import places

    return places(made.table(metadata=False))


@pytest.mark.parametrize("name", TABLES)
def test_metadata_table_agrees_with_the_files_after_every_commit(name: str, tmp_path: Path) -> None:
    made = replay(name, tmp_path)
    check(made)
    while made.todo:
        made.step()
        check(made)
        assert located(made) == expected_places(made)


@pytest.mark.parametrize("name", TABLES)
def test_compaction_and_cleaning_change_no_record(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "maintain", lambda writer, instant: services.maintain(writer, instant, every=2))
    made = replay(name, tmp_path)
    while made.todo:
        made.step()
        check(made)
        assert located(made) == expected_places(made)
    own = MetadataWriter.open(made.storage, made.table().config).timeline
    assert any(instant.action == "commit" for instant in own.completed())
    schemas = {own.extra(instant).get("schema") for instant in own.commits[1:]}
    assert len(schemas) == 1, "Hudi goes on with the schema of the newest commit, which may be a compaction"


def test_slices_older_than_the_last_two_are_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "maintain", lambda writer, instant: services.maintain(writer, instant, every=1))
    made = replay("idx_stats_mor_v9_120", tmp_path)
    while made.todo:
        made.step()
    own = MetadataWriter.open(made.storage, made.table().config)
    assert any(instant.action == "clean" for instant in own.timeline.completed())
    assert len(list((made.path / ".hoodie/metadata/files").glob("*.hfile"))) <= 2
    check(made)


@pytest.mark.parametrize("name", ["idx_stats_cow_v6_0150", "idx_stats_cow_v8_102", "idx_stats_mor_v9_120"])
def test_commit_that_the_data_table_takes_back_leaves_no_trace(name: str, tmp_path: Path) -> None:
    made = replay(name, tmp_path)
    made.step()
    before = located(made)
    instant = made.todo[0]
    for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
        made.show(instant, state)
    made.update(instant, made.table(metadata=False))
    check(made)  # not seen while the data table's commit is pending
    assert located(made) == before
    assert rollback_metadata(made.table(), instant.requested_at, rollback_instant="29990101000000000")
    assert rollback_metadata(made.table(), instant.requested_at, rollback_instant="29990101000000000")
    for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
        made.hide(instant, state)
    check(made)
    assert located(made) == before
    left = [path.name for path in (made.path / ".hoodie/metadata").rglob(f"*{instant.requested_at}*")]
    assert left == []
    while made.todo:
        made.step()
        check(made)


def test_rollback_of_what_a_compaction_took_up_drops_the_metadata_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "maintain", lambda writer, instant: services.maintain(writer, instant, every=1))
    made = replay("idx_stats_mor_v9_120", tmp_path)
    first = made.step()
    made.step()
    assert not rollback_metadata(made.table(), first.requested_at, rollback_instant="29990101000000000")
    assert made.table().config.metadata_partitions == ()
    assert not (made.path / ".hoodie/metadata").exists()
    create_metadata(made.table(), indexes("idx_stats_mor_v9_120"))
    check(made)


def test_update_for_the_same_instant_takes_the_place_of_the_first(tmp_path: Path) -> None:
    made = replay("idx_stats_mor_v9_120", tmp_path)

    def twice(*args: object, **options: object) -> None:
        options["moves"] = list(options["moves"])  # type: ignore[call-overload]
        update_metadata(*args, **options)  # type: ignore[arg-type]
        update_metadata(*args, **options)  # type: ignore[arg-type]

    while made.todo:
        made.step(twice)
        check(made)
        assert located(made) == expected_places(made)


@pytest.mark.parametrize("name", ["idx_stats_cow_v6_0150", "idx_stats_cow_v8_102", "idx_stats_mor_v9_120"])
@pytest.mark.parametrize("every", [1, 10], ids=["compacting", "plain"])
def test_crash_at_any_call_leaves_what_the_next_writer_can_go_on_from(
    name: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "maintain", lambda writer, instant: services.maintain(writer, instant, every=every))
    made = replay(name, tmp_path)
    made.step()
    made.step()
    instant = made.todo[0]
    for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
        made.show(instant, state)
    crashes = 0
    while True:
        faulty = FaultyStorage.over(made.storage, at=crashes, fault=("before", "after", "torn")[crashes % 3])
        plain, made.storage = made.storage, faulty
        try:
            made.update(instant, made.table(metadata=False))
            break
        except SimulatedCrash:
            crashes += 1
        finally:
            made.storage = plain
        check(made)  # a reader after the crash
    assert crashes > 5
    made.show(instant, InstantState.COMPLETED)
    made.todo.pop(0)
    check(made)
    assert located(made) == expected_places(made)


@pytest.mark.parametrize("name", TABLES)
def test_metadata_table_of_a_table_with_commits_agrees_with_its_files(name: str, tmp_path: Path) -> None:
    made = replay(name, tmp_path)
    while made.todo:
        made.step()
    rebuild_metadata(made.table())
    check(made)
    assert located(made) == expected_places(made)
    assert set(made.table().config.metadata_partitions) == set(indexes(name))


def test_index_can_be_dropped_and_made_again(tmp_path: Path) -> None:
    made = replay("idx_stats_mor_v9_120", tmp_path)
    while made.todo:
        made.step()
    drop_metadata(made.table(), ["record_index", "bloom_filters"])
    assert set(made.table().config.metadata_partitions) == {"files", "column_stats", "partition_stats"}
    assert not (made.path / ".hoodie/metadata/record_index").exists()
    check(made)
    create_metadata(made.table(), ["record_index"])
    check(made)
    assert located(made) == expected_places(made)


def test_crash_while_an_index_is_made_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    made = replay("idx_stats_mor_v9_120", tmp_path)
    while made.todo:
        made.step()
    drop_metadata(made.table())
    crashes = 0
    while True:
        faulty = FaultyStorage.over(made.storage, at=3 * crashes, fault="torn" if crashes % 2 else "after")
        try:
            create_metadata(headwater.hudi.table.HudiTable.open(faulty), indexes("idx_stats_mor_v9_120"))
            break
        except SimulatedCrash:
            crashes += 1
        opened = headwater.open(Storage.at(made.path).root)
        assert opened.scan().to_arrow().num_rows == 13
        assert verify(opened, deep=True).ok
        drop_metadata(made.table())
    assert crashes > 5
    check(made)
