"""What docs/reader-spec.md promises, on tables written by Apache Hudi. Each test cites the promise that it checks."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.fixtures.suites import table, tables

import headwater
from headwater import HeadwaterError, Table
from headwater.errors import (
    ColumnNotFound,
    InstantNotFound,
    InvalidArgument,
    InvalidExpression,
    InvalidTableConfig,
    MissingFile,
    TableNotFound,
    UnknownMerger,
    UnsupportedTable,
)
from headwater.hudi.view import Horizon, ListedFile, build_groups
from headwater.spec import Instant, InstantState

META = tuple(f"_hoodie_{name}" for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name"))
COMMIT_TIME = META[0]

MERGE_ON_READ = ["mrg_event_mor_v6_120", "comp_pending_mor_v8_102", "mrg_event_mor_v9_120"]
COPY_ON_WRITE = ["ow_table_cow_v6_0150", "idx_stats_cow_v8_102", "mrg_event_cow_v9_120"]
WITH_CHANGES = sorted(t.name for t in tables("generated") if any(case.mode == "cdc" for case in t.cases))


def opened(name: str, **options: Any) -> Table:
    return headwater.open(table("generated", name).path(), **options)


def copied(name: str, tmp_path: Path) -> Path:
    """A copy to break; modification times stay."""
    return Path(shutil.copytree(table("generated", name).path(), tmp_path / name))


def rows(of: pa.Table) -> Counter[str]:
    return Counter(map(repr, of.to_pylist()))


def user_rows(of: pa.Table) -> Counter[str]:
    return rows(of.select([name for name in of.column_names if name not in META]))


def times(of: Table) -> list[str]:
    return [instant.requested_at for instant in of.hudi.timeline.commits]


def completion_file(path: Path, of: Table, instant: Instant) -> Path:
    return path / of.hudi.timeline.files[instant][InstantState.COMPLETED].path


class TestAtomicity:
    @pytest.mark.parametrize("name", MERGE_ON_READ + COPY_ON_WRITE)
    @pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "listing"])
    def test_commit_is_seen_when_it_completes_and_not_before(self, name: str, metadata: bool, tmp_path: Path) -> None:
        """reader-spec R1, R2: its files lie there all the time."""
        path = copied(name, tmp_path)
        whole = headwater.open(path, metadata=metadata)
        last, before = whole.hudi.timeline.commits[-1], times(whole)[-2]
        expected = rows(whole.scan(as_of=before).to_arrow())
        completion = completion_file(path, whole, last)
        hidden = completion.rename(tmp_path / "hidden")
        pending = headwater.open(path, metadata=metadata)
        assert rows(pending.scan().to_arrow().select(whole.scan(as_of=before).schema.names)) == expected
        assert rows(whole.scan().to_arrow()) != expected
        hidden.rename(completion)
        assert rows(pending.scan().to_arrow().select(whole.scan(as_of=before).schema.names)) == expected
        assert rows(pending.refresh().scan().to_arrow()) == rows(whole.scan().to_arrow())

    @pytest.mark.parametrize(
        "name", [t.name for t in tables("generated") if t.name.split("_")[0] in ("rb", "failed", "savepoint")]
    )
    def test_failed_and_rolled_back_work_is_never_seen(self, name: str) -> None:
        """reader-spec R3"""
        whole = opened(name)
        written = set(whole.scan(columns=[COMMIT_TIME]).to_arrow().column(COMMIT_TIME).to_pylist())
        assert written <= set(times(whole)) | whole.hudi.timeline.archived_times

    @pytest.mark.parametrize(
        "stage", ["kill_cow_120_v9_moved50", "kill_cow_120_v9_allmoved", "kill_cow_102_v8_moved50"]
    )
    def test_upgrade_that_died_half_way_loses_no_commit(self, stage: str) -> None:
        """reader-spec R4"""
        big = table("bridge", "big_cow")
        before, after = headwater.open(big.path("v6")), headwater.open(big.path(stage))
        assert times(after) == times(before)
        assert rows(after.scan().to_arrow()) == rows(before.scan().to_arrow())

    @pytest.mark.parametrize("name", ["idx_stats_mor_v9_120", "idx_mdt_all_cow_v6_0150", "failed_mdt_mor_v6_0150"])
    def test_metadata_table_changes_no_row(self, name: str) -> None:
        """reader-spec R5; tests/fixtures runs every case both ways"""
        assert rows(opened(name).scan().to_arrow()) == rows(opened(name, metadata=False).scan().to_arrow())


class TestRanges:
    @pytest.mark.parametrize("name", MERGE_ON_READ + COPY_ON_WRITE)
    def test_start_is_exclusive_and_end_inclusive(self, name: str) -> None:
        """reader-spec R6"""
        whole = opened(name)
        commits = whole.hudi.timeline.commits
        for start, end in itertools.pairwise(commits):
            plan = whole.incremental(start.requested_at, end.requested_at).plan()
            assert plan.instants == (end,)

    def test_version_6_counts_request_times(self) -> None:
        """reader-spec R7"""
        whole = opened("mrg_event_mor_v6_120")
        first, second = whole.hudi.timeline.commits[:2]
        just_before = str(int(second.requested_at) - 1)
        assert whole.incremental(None, just_before).plan().instants == (first,)
        assert whole.incremental(None, second.requested_at).plan().instants == (first, second)

    def test_later_versions_count_completion_times(self) -> None:
        """reader-spec R7: a commit's instant names the commit, any other text is a time of completion"""
        whole = opened("nbcc_event_mor_v9_120")
        by_completion = sorted(whole.hudi.timeline.commits, key=lambda i: str(i.completed_at))
        assert by_completion != sorted(by_completion), "this table's commits complete in another order"
        for index, instant in enumerate(by_completion):
            bound = str(int(str(instant.completed_at)) - 1)
            assert set(whole.incremental(None, bound).plan().instants) == set(by_completion[:index])
            assert set(whole.incremental(None, instant.requested_at).plan().instants) == set(by_completion[: index + 1])

    @pytest.mark.parametrize("name", MERGE_ON_READ + COPY_ON_WRITE)
    def test_open_ends_reach_the_whole_history(self, name: str) -> None:
        """reader-spec R8"""
        whole = opened(name)
        everything = whole.incremental()
        assert [i.requested_at for i in everything.plan().instants] == times(whole)
        newest = times(whole)[-1]
        assert rows(everything.to_arrow()) == rows(whole.incremental(None, newest).to_arrow())

    @pytest.mark.parametrize("name", MERGE_ON_READ + COPY_ON_WRITE)
    def test_range_without_commits_is_empty_and_has_columns(self, name: str) -> None:
        """reader-spec R8"""
        whole = opened(name)
        empty = whole.incremental(times(whole)[-1]).to_arrow()
        assert empty.num_rows == 0
        assert empty.schema.names == whole.schema.names
        assert whole.changes(times(whole)[-1]).to_arrow().column_names == ["op", "ts_ms", "before", "after"]

    @pytest.mark.parametrize("name", ["archive_cow_v9_120", "archive_mor_v9_120", "archive_noclean_cow_v9_120"])
    def test_archived_commits_of_a_range_give_their_rows(self, name: str) -> None:
        """reader-spec R9"""
        whole = opened(name)
        archived = whole.hudi.timeline.archived_times
        written = set(whole.incremental().to_arrow().column(COMMIT_TIME).to_pylist())
        assert written & archived
        assert rows(whole.incremental().to_arrow()) == rows(whole.scan().to_arrow())

    @pytest.mark.parametrize("name", ["archive_cow_v9_120", "archive_mor_v9_120"])
    def test_cleaned_range_raises_and_names_the_earliest_instant(self, name: str) -> None:
        """reader-spec R10: the commit inserted nine rows, which no file holds any more as they were"""
        whole = opened(name)
        first = whole.hudi.timeline.history[0]
        assert sum(stat.num_inserts for stat in whole.hudi.timeline.metadata(first.instant).write_stats) == 9
        earliest = whole.hudi.file_index().earliest_retained
        with pytest.raises(InstantNotFound, match=f"earliest instant that can still be read is {earliest}"):
            whole.incremental(None, first.requested_at).to_arrow()
        assert whole.incremental(None, first.requested_at, if_cleaned="best_effort").to_arrow().num_rows == 0
        with pytest.raises(InvalidArgument, match="raise, best_effort"):
            whole.incremental(if_cleaned="guess")

    def test_cleaned_time_travel_raises_and_names_the_earliest_instant(self) -> None:
        """reader-spec R10"""
        whole = opened("clean_cow_v9_120")
        with pytest.raises(InstantNotFound, match="earliest instant that can still be read is"):
            whole.scan(as_of=times(whole)[0]).to_arrow()

    @pytest.mark.parametrize("name", MERGE_ON_READ)
    def test_time_travel_takes_instants_timestamps_and_dates(self, name: str) -> None:
        """reader-spec R11"""
        whole = opened(name)
        instant = times(whole)[2]
        when = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(microsecond=int(instant[14:]) * 1000)
        expected = rows(whole.scan(as_of=instant).to_arrow())
        zoned = when.astimezone() if not whole.hudi.config.timeline_in_utc else when.replace(tzinfo=timezone.utc)
        for spelled in (
            when,
            f"{when:%Y-%m-%d %H:%M:%S}.{instant[14:]}",
            f"{when:%Y-%m-%dT%H:%M:%S}.{instant[14:]}",
            zoned,
        ):
            assert rows(whole.scan(as_of=spelled).to_arrow()) == expected
        tomorrow = when.date() + timedelta(days=1)
        assert rows(whole.scan(as_of=tomorrow).to_arrow()) == rows(whole.scan().to_arrow())
        with pytest.raises(InstantNotFound, match=f"the history begins at {times(whole)[0]}"):
            whole.scan(as_of=when.date()).to_arrow()

    @pytest.mark.parametrize("name", MERGE_ON_READ + COPY_ON_WRITE)
    def test_time_between_two_commits_gives_the_earlier(self, name: str) -> None:
        """reader-spec R11"""
        whole = opened(name)
        for instant, following in itertools.pairwise(times(whole)):
            between = str(int(following) - 1)
            assert rows(whole.scan(as_of=between).to_arrow()) == rows(whole.scan(as_of=instant).to_arrow())


class TestRows:
    @pytest.mark.parametrize("name", [*MERGE_ON_READ, *COPY_ON_WRITE, "rowgroups_mor_v9_120"])
    def test_order_does_not_depend_on_threads_or_memory(self, name: str) -> None:
        """reader-spec R12"""
        whole = opened(name)
        alone = whole.scan(threads=1).to_arrow()
        for threads, memory in ((2, None), (8, "16MB")):
            # As texts: NaN is not equal to itself.
            assert repr(whole.scan(threads=threads, memory=memory).to_arrow().to_pylist()) == repr(alone.to_pylist())
        partitions = alone.column("_hoodie_partition_path").to_pylist()
        assert partitions == sorted(partitions)

    @pytest.mark.parametrize("name", MERGE_ON_READ)
    def test_limit_gives_the_first_rows(self, name: str) -> None:
        """reader-spec R12"""
        whole = opened(name)
        everything = whole.scan(threads=1).to_arrow()
        for limit in (0, 1, 5, 1000):
            assert whole.scan(limit=limit).to_arrow().equals(everything.slice(0, limit))

    @pytest.mark.parametrize("name", MERGE_ON_READ)
    def test_columns_come_in_the_order_asked_for(self, name: str) -> None:
        """reader-spec R13"""
        whole = opened(name)
        everything = whole.scan().to_arrow()
        asked = ["price", "_hoodie_record_key", "id"]
        assert whole.scan(columns=asked, filter="city = 'sf'").to_arrow().column_names == asked
        assert whole.scan(columns=asked).to_arrow().equals(everything.select(asked))

    @pytest.mark.parametrize(
        "name", [*MERGE_ON_READ, *COPY_ON_WRITE, "nometa_mor_v9_120", "idx_bucket_logonly_mor_v9_120"]
    )
    def test_no_columns_still_give_the_number_of_rows(self, name: str) -> None:
        """reader-spec R13"""
        whole = opened(name)
        for filter_ in (None, "id > 3"):
            assert whole.scan(columns=[], filter=filter_).to_arrow().num_rows == whole.scan(filter=filter_).count()

    @pytest.mark.parametrize("name", ["mrg_commit_mor_v6_120", "mrg_commit_mor_v8_120", "mrg_commit_mor_v9_120"])
    def test_in_commit_order_the_later_write_wins_whatever_its_ordering_value(self, name: str) -> None:
        """reader-spec R14"""
        whole = opened(name)
        newest: dict[str, str] = {}
        for time in times(whole):
            for row in whole.scan(as_of=time, columns=["_hoodie_record_key", COMMIT_TIME]).to_arrow().to_pylist():
                assert row[COMMIT_TIME] >= newest.get(row["_hoodie_record_key"], "")
                newest[row["_hoodie_record_key"]] = row[COMMIT_TIME]

    @pytest.mark.parametrize("name", ["mrg_event_mor_v6_120", "mrg_event_mor_v9_120", "mrg_event_cow_v9_120"])
    def test_in_event_order_a_row_that_stays_never_gets_an_older_ordering_value(self, name: str) -> None:
        """reader-spec R14, R15: after a delete the key starts anew"""
        whole = opened(name)
        newest: dict[str, int] = {}
        for time in times(whole):
            found = {
                row["_hoodie_record_key"]: row["ts"]
                for row in whole.scan(as_of=time, columns=["_hoodie_record_key", "ts"]).to_arrow().to_pylist()
            }
            assert all(found[key] >= newest[key] for key in found.keys() & newest.keys())
            newest = found

    def test_writer_that_started_first_and_finished_last_loses(self) -> None:
        """reader-spec R14: logs are merged by the time they were asked for"""
        whole = opened("nbcc_commit_mor_v8_102")
        by_completion = sorted(whole.hudi.timeline.commits, key=lambda i: str(i.completed_at))
        assert by_completion != sorted(by_completion)
        written = whole.scan(columns=["_hoodie_record_key", COMMIT_TIME]).to_arrow().to_pylist()
        late = next(i for i, j in zip(by_completion[1:], by_completion, strict=False) if i < j)
        overtaken = {
            row["_hoodie_record_key"]
            for row in whole.incremental(None, late.requested_at).to_arrow().to_pylist()
            if row[COMMIT_TIME] > late.requested_at
        }
        assert overtaken
        assert all(r[COMMIT_TIME] > late.requested_at for r in written if r["_hoodie_record_key"] in overtaken)

    @pytest.mark.parametrize("name", ["idx_stats_mor_v9_120", *MERGE_ON_READ])
    def test_read_optimized_gives_rows_of_base_files(self, name: str) -> None:
        """reader-spec R16"""
        whole = opened(name)
        for task in whole.scan(mode="read_optimized").plan().tasks:
            assert [path.rsplit(".", 1)[-1] for path in task.slice.paths] == ["parquet"]
        assert whole.scan(mode="read_optimized").schema == whole.scan().schema

    @pytest.mark.parametrize("name", COPY_ON_WRITE)
    def test_incremental_rows_are_those_at_the_end_whose_last_change_lies_in_the_range(self, name: str) -> None:
        """reader-spec R17"""
        whole = opened(name)
        for start in ["0" * 17, *times(whole)]:
            for end in [time for time in times(whole) if time > start]:
                at_end = whole.scan(as_of=end).to_arrow()
                inside = [start < time <= end for time in at_end.column(COMMIT_TIME).to_pylist()]
                names = at_end.column_names
                assert rows(whole.incremental(start, end).to_arrow().select(names)) == rows(
                    at_end.filter(pa.array(inside))
                )

    def test_merge_on_read_increments_merge_only_files_of_the_range(self) -> None:
        """reader-spec R17: a late record that lost is given all the same, as Hudi gives it"""
        whole = opened("mrg_event_mor_v9_120")
        surplus = 0
        for start, end in itertools.pairwise(times(whole)):
            got = whole.incremental(start, end).to_arrow()
            assert set(got.column(COMMIT_TIME).to_pylist()) <= {end}
            at_end = rows(whole.scan(as_of=end).to_arrow())
            surplus += sum((rows(got) - at_end).values())
        assert surplus


class TestChanges:
    @pytest.mark.parametrize("name", WITH_CHANGES)
    def test_changes_lead_from_one_snapshot_to_the_next(self, name: str) -> None:
        """reader-spec R18, R19: before images are what was there, after images what is there now"""
        whole = opened(name)
        held: Counter[str] = Counter()
        for previous, time in itertools.pairwise(["0" * 17, *times(whole)]):
            changes = whole.changes(previous, time).to_arrow()
            for row in changes.to_pylist():
                assert row["ts_ms"] == time
                assert (row["before"] is None) == (row["op"] == "i")
                assert (row["after"] is None) == (row["op"] == "d")
                if row["before"] is not None:
                    assert held[repr(row["before"])], f"{time}: {row['before']} was not there"
                    held[repr(row["before"])] -= 1
            held.update(repr(row["after"]) for row in changes.to_pylist() if row["after"] is not None)
            assert +held == user_rows(whole.scan(as_of=time).to_arrow()), f"at {time}"

    @pytest.mark.parametrize("name", ["cdc_clus_cow_v6_0150", "cdc_clus_cow_v9_120", "cdc_compact_mor_v6_0150"])
    def test_services_change_nothing(self, name: str) -> None:
        """reader-spec R19"""
        whole = opened(name)
        timeline = whole.hudi.timeline
        rewrites = [index for index, instant in enumerate(timeline.commits) if timeline.is_rewrite(instant)]
        assert rewrites
        for index in rewrites:
            start, end = times(whole)[index - 1], times(whole)[index]
            assert whole.changes(start, end).to_arrow().num_rows == 0
            assert rows(whole.scan(as_of=end, columns=["_hoodie_record_key", COMMIT_TIME]).to_arrow()) == rows(
                whole.scan(as_of=start, columns=["_hoodie_record_key", COMMIT_TIME]).to_arrow()
            )


class TestSchemas:
    @pytest.mark.parametrize("name", ["evo_types_mor_v9_111", "evo_types_cow_v6_0150", "sor_cow_v9_120"])
    def test_time_travel_gives_the_columns_of_its_commit_and_every_other_mode_the_newest(self, name: str) -> None:
        """reader-spec R20"""
        whole = opened(name)
        first, last = times(whole)[0], times(whole)[-1]
        then, now = whole.scan(as_of=first).schema, whole.scan().schema
        assert then != now
        assert whole.scan(as_of=last).schema == now
        assert whole.incremental(None, first).schema == now
        assert whole.scan(mode="read_optimized").schema == now
        added = next(iter(set(now.names) - set(then.names)), None)
        if added is not None:
            with pytest.raises(ColumnNotFound, match=f"no column .?{added}"):
                whole.scan(as_of=first, columns=[added]).to_arrow()
            with pytest.raises(ColumnNotFound, match=f"no column .?{added}"):
                whole.scan(as_of=first, filter=f"`{added}` IS NULL").to_arrow()

    @pytest.mark.parametrize("name", MERGE_ON_READ + COPY_ON_WRITE)
    def test_meta_columns_come_first(self, name: str) -> None:
        """reader-spec R21"""
        assert opened(name).schema.names[:5] == list(META)
        assert all(field.nullable for field in opened(name).scan().schema)

    def test_partition_values_come_from_the_data_file(self) -> None:
        """reader-spec R22: the path says 'b', because Hudi takes a=b for hive style"""
        cities = opened("kg_noenc_mor_v9_120").scan(columns=["city"]).to_arrow().column("city").to_pylist()
        assert {"a=b", "A%20B"} <= set(cities)

    def test_dropped_partition_columns_come_from_the_path_as_text(self) -> None:
        """reader-spec R22"""
        got = opened("drop_partcols_typed_cow_v6_0150").scan().to_arrow()
        config = opened("drop_partcols_typed_cow_v6_0150").hudi.config
        for name in config.partition_fields:
            assert pa.types.is_string(got.schema.field(name).type)
            assert got.column(name).null_count < got.num_rows


class TestErrors:
    """reader-spec R23"""

    def test_no_table(self, tmp_path: Path) -> None:
        with pytest.raises(TableNotFound, match=str(tmp_path)) as caught:
            headwater.open(tmp_path)
        assert isinstance(caught.value, FileNotFoundError)

    @pytest.mark.parametrize("version", ["5", "7", "10", "x"])
    def test_unknown_version(self, tmp_path: Path, version: str) -> None:
        path = copied("mrg_event_mor_v9_120", tmp_path)
        properties = path / ".hoodie" / "hoodie.properties"
        text = properties.read_text().replace("hoodie.table.version=9", f"hoodie.table.version={version}")
        properties.write_text(text)
        with pytest.raises((UnsupportedTable, InvalidTableConfig), match=version):
            headwater.open(path).scan().to_arrow()

    @pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "listing"])
    def test_file_that_the_metadata_names_is_gone(self, tmp_path: Path, metadata: bool) -> None:
        path = copied("idx_stats_mor_v9_120", tmp_path)
        plan = headwater.open(path, metadata=metadata).scan()
        gone = next(p for task in plan.plan().tasks for p in task.slice.paths)
        (path / gone).unlink()
        with pytest.raises(MissingFile, match=gone.rsplit("/", 1)[-1]) as caught:
            plan.to_arrow()
        assert isinstance(caught.value, FileNotFoundError)

    def test_no_such_column(self) -> None:
        with pytest.raises(ColumnNotFound, match="fare") as caught:
            opened("mrg_event_mor_v9_120").scan(columns=["fare"]).to_arrow()
        assert isinstance(caught.value, KeyError)
        with pytest.raises(ColumnNotFound, match="Did you mean price"):
            opened("mrg_event_mor_v9_120").scan(filter="pric > 1").to_arrow()

    def test_filter_that_does_not_parse(self) -> None:
        with pytest.raises(InvalidExpression) as caught:
            opened("mrg_event_mor_v9_120").scan(filter="price >")
        assert isinstance(caught.value, ValueError)

    @pytest.mark.parametrize(
        "options",
        [
            {"mode": "sideways"},
            {"limit": -1},
            {"threads": 0},
            {"memory": "much"},
            {"columns": "id"},
            {"columns": ["id"] * 2},
        ],
        ids=lambda options: next(iter(options)),
    )
    def test_arguments_that_cannot_be(self, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgument, match=next(iter(options))):
            opened("mrg_event_mor_v9_120").scan(**options).to_arrow()

    @pytest.mark.parametrize("when", ["yesterday", "2026-13-01", "12", ""])
    def test_text_that_is_no_point_in_time(self, when: str) -> None:
        with pytest.raises(InvalidArgument, match="point in time"):
            opened("mrg_event_mor_v9_120").scan(as_of=when).to_arrow()

    def test_payload_that_nobody_registered(self, tmp_path: Path) -> None:
        path = copied("pay_default_mor_v6_120", tmp_path)
        properties = path / ".hoodie" / "hoodie.properties"
        lines = [line for line in properties.read_text().splitlines() if "payload.class" not in line]
        properties.write_text("\n".join([*lines, "hoodie.compaction.payload.class=com.example.Odd"]) + "\n")
        with pytest.raises(UnknownMerger, match=r"com\.example\.Odd.*register"):
            headwater.open(path).scan().to_arrow()

    @pytest.mark.parametrize("name", ["corrupt_mid_mor_v6_120", "corrupt_mid_mor_v9_120", "corrupt_trunc_mor_v9_120"])
    def test_torn_blocks_are_skipped_and_reported(self, name: str) -> None:
        """reader-spec R24"""
        whole = opened(name)
        whole.scan().to_arrow()
        assert any("skipped" in warning for warning in whole.hudi.warnings)

    def test_errors_come_from_one_tree(self) -> None:
        with pytest.raises(HeadwaterError):
            opened("mrg_event_mor_v9_120").scan(as_of="19990101000000000").to_arrow()


@pytest.mark.parametrize("name", ["corrupt_mid_mor_v9_120", "corrupt_trunc_mor_v9_120"])
def test_a_corrupt_block_is_passed_over_and_reported(name: str, caplog: pytest.LogCaptureFixture) -> None:
    # reader-spec R24
    read = opened(name)
    read.scan().to_arrow()
    assert len(read.warnings) == 1
    assert "CORRUPT block" in read.warnings[0]
    assert read.warnings[0] in caplog.text


def test_files_that_another_format_named_are_told() -> None:
    """Apache XTable registers files with Hudi's metadata under names of their own: none of them would be read."""
    made = opened("mrg_event_cow_v9_120")
    with pytest.raises(UnsupportedTable, match="XTable"):
        build_groups("p", [ListedFile("part-0.parquet_20260101000000000_hudiext", 9)], Horizon(made.hudi.timeline))


@pytest.mark.parametrize("version", [6, 9])
def test_archived_commits_count_where_all_others_have_savepoints(tmp_path: Path, version: int) -> None:
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    made = headwater.create(tmp_path / "t", schema=schema, key="id", partition_by="p", version=version)
    for name in "abc":
        made.upsert(pa.table({"id": [name], "p": [name]}, schema=schema))
    folder = tmp_path / "t" / made.hudi.config.timeline_folder
    first, *others = times(made)
    for file in folder.glob(f"{first}*"):
        file.unlink()
    for instant in others:
        (folder / (f"{instant}.savepoint" if version < 8 else f"{instant}_{instant}.savepoint")).write_bytes(b"")
    assert headwater.open(tmp_path / "t").scan().count() == 3
