"""Tables that are damaged on purpose: what `verify` finds, and what it does not cry about."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests import places

import headwater
from headwater.demo import DEMO_TABLES, demo_table
from headwater.verify import Finding, Severity, VerifyReport, verify


def copy(name: str, into: Path) -> Path:
    """A copy of a shipped table that may be damaged."""
    return Path(shutil.copytree(demo_table(name), into / name))


def fixture_table(name: str, into: Path) -> Path:
    return places.unpack(f"generated/{name}", into)


def check(path: Path, *, deep: bool = False) -> VerifyReport:
    return verify(headwater.open(path), deep=deep)


def current(path: Path, kind: str, partition: str) -> Path:
    """One file of a partition's current slices."""
    rows = headwater.open(path, metadata=False).inspect.files(partition).to_pylist()
    return path / next(row["path"] for row in rows if row["kind"] == kind)


def about(report: VerifyReport, file: Path) -> list[Finding]:
    return [finding for finding in report.findings if file.name in finding.where]


@pytest.mark.parametrize("name", DEMO_TABLES)
def test_whole_tables_are_fine(name: str) -> None:
    report = verify(headwater.open(demo_table(name)), deep=True)
    assert report.ok
    assert report.findings == ()
    assert report.checked["base files"] > 0


@pytest.mark.parametrize("name", ["idx_mdt_all_cow_v6_0150", "idx_rli_moves_mor_v6_0150", "failed_mdt_mor_v6_0150"])
def test_tables_with_indexes_and_unfinished_writes_are_fine(name: str, tmp_path: Path) -> None:
    assert check(fixture_table(name, tmp_path)).findings == ()


def test_missing_base_file_is_an_error_that_names_its_commit(tmp_path: Path) -> None:
    path = copy("trips", tmp_path)
    gone = current(path, "base", "city=sf")
    gone.unlink()
    report = check(path)
    assert not report.ok
    (finding,) = about(report, gone)
    assert finding.severity is Severity.ERROR
    assert finding.what == "the file is not there; commit 20261115073146372 wrote it"
    assert "backup" in finding.todo


def test_missing_log_file_is_an_error(tmp_path: Path) -> None:
    path = copy("trips", tmp_path)
    gone = current(path, "log", "city=la")
    gone.unlink()
    assert [finding.severity for finding in about(check(path), gone)] == [Severity.ERROR]


def test_cut_off_base_file_is_an_error(tmp_path: Path) -> None:
    path = copy("trips", tmp_path)
    base = current(path, "base", "city=sf")
    base.write_bytes(base.read_bytes()[:-100])
    said = [finding.what for finding in about(check(path), base)]
    assert any("has 435384 bytes, commit 20261115073146372 wrote 435484" in what for what in said)
    assert any("cannot be read" in what for what in said)


def test_base_file_with_other_rows_than_its_commit_wrote_is_an_error(tmp_path: Path) -> None:
    path = copy("trips", tmp_path)
    files = headwater.open(path).inspect.files("city=nyc").to_pylist()
    one_row, four_rows = (path / row["path"] for row in files if row["kind"] == "base")
    shutil.copy(one_row, four_rows)
    said = [finding.what for finding in about(check(path), four_rows)]
    assert any("has 1 rows, commit 20261115073146372 wrote 4" in what for what in said)


def test_damaged_page_is_found_by_a_deep_check_alone(tmp_path: Path) -> None:
    path = copy("trips", tmp_path)
    base = current(path, "base", "city=la")
    data = bytearray(base.read_bytes())
    data[60:160] = bytes(100)
    base.write_bytes(data)
    assert check(path).ok
    assert not check(path, deep=True).ok


def test_cut_off_log_file_is_an_error(tmp_path: Path) -> None:
    path = copy("trips", tmp_path)
    log = current(path, "log", "city=la")
    log.write_bytes(log.read_bytes()[:-40])
    found = about(check(path), log)
    assert {finding.severity for finding in found} == {Severity.ERROR, Severity.WARNING}
    assert any("holds no block of commit 20261115073152107" in finding.what for finding in found)


def test_damaged_records_of_a_log_block_are_an_error(tmp_path: Path) -> None:
    path = copy("trips", tmp_path)
    log = current(path, "log", "city=la")
    data = bytearray(log.read_bytes())
    at = data.rindex(b"n2_1")
    data[at - 6 : at] = b"\xff" * 6
    log.write_bytes(data)
    report = check(path)
    assert not report.ok
    assert any("byte 0" in finding.where for finding in about(report, log))


def test_remains_of_a_died_writer_are_a_warning(tmp_path: Path) -> None:
    table = fixture_table("corrupt_mid_mor_v6_120", tmp_path)
    report = check(table)
    assert report.ok
    assert [finding.severity for finding in report.findings] == [Severity.WARNING]
    assert "readers pass over them" in report.findings[0].what


def test_partition_without_its_marker_is_an_error(tmp_path: Path) -> None:
    path = copy("trips", tmp_path)
    (path / "city=sf" / ".hoodie_partition_metadata").unlink()
    report = check(path)
    assert [finding.where for finding in report.findings] == ["city=sf"]
    assert not report.ok


def test_unreadable_commit_is_an_error_and_not_an_exception(tmp_path: Path) -> None:
    path = copy("trips", tmp_path)
    commit = next((path / ".hoodie" / "timeline").glob("20261115073157687_*.deltacommit"))
    commit.write_bytes(b"Obj\x01junk")
    report = check(path)
    assert not report.ok
    assert report.findings[0].where == "instant 20261115073157687.deltacommit"


def test_metadata_table_that_lists_a_missing_file_is_an_error(tmp_path: Path) -> None:
    path = copy("stats", tmp_path)
    gone = current(path, "base", "city=sf")
    gone.unlink()
    said = {finding.what for finding in about(check(path), gone)}
    assert "the metadata table lists it, and it is not there" in said


def test_metadata_table_with_another_size_is_an_error(tmp_path: Path) -> None:
    path = copy("stats", tmp_path)
    log = current(path, "log", "city=sf")
    with log.open("ab") as stream:
        stream.write(b"#HUDI")
    (finding,) = about(check(path), log)
    assert finding.severity is Severity.ERROR
    assert finding.what == f"has {log.stat().st_size} bytes, the metadata table says {log.stat().st_size - 5}"


def test_column_statistics_that_do_not_hold_the_footers_are_errors(tmp_path: Path) -> None:
    path = copy("stats", tmp_path)
    sf, nyc = current(path, "base", "city=sf"), current(path, "base", "city=nyc")
    shutil.copy(nyc, sf)
    by_column = {finding.where.rsplit(" ", 1)[-1]: finding.what for finding in about(check(path), sf)}
    assert by_column["id"] == "the column statistics' least value is 3, the footer's 1"
    assert by_column["city"] == "the column statistics' least value is 'sf', the footer's 'nyc'"


def test_damaged_metadata_table_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    path = copy("stats", tmp_path)
    for file in (path / ".hoodie" / "metadata" / "files").iterdir():
        if file.name.endswith(".hfile"):
            file.write_bytes(file.read_bytes()[:-50])
    (finding,) = [f for f in check(path).findings if f.where == "metadata table"]
    assert finding.severity is Severity.ERROR
    assert "metadata=False" in finding.todo


def test_metadata_table_that_is_out_of_use_is_left_alone(tmp_path: Path) -> None:
    assert check(fixture_table("mdt_stale_mor_v6_0150", tmp_path)).findings == ()


def test_stale_metadata_table_is_a_warning(tmp_path: Path) -> None:
    path = fixture_table("mdt_stale_mor_v6_0150", tmp_path)
    properties = path / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace(
        "hoodie.table.metadata.partitions=\n", "hoodie.table.metadata.partitions=files\n"
    )
    properties.write_text(text)
    report = check(path)
    assert report.ok
    assert [finding.where for finding in report.findings] == ["metadata table"]


def test_record_index_that_points_to_no_file_group_is_an_error(tmp_path: Path) -> None:
    path = fixture_table("idx_mdt_all_cow_v6_0150", tmp_path)
    last = max(path.glob(".hoodie/*.commit")).name.split(".")[0]
    for file in [*path.glob(f".hoodie/{last}.*"), *path.glob(f"*/*_{last}.parquet")]:
        file.unlink()
    report = check(path)
    assert not report.ok
    assert any("the record index places" in finding.what for finding in report.findings)


def test_progress_is_told_and_ends_at_the_total() -> None:
    calls: list[tuple[str, int, int]] = []
    verify(headwater.open(demo_table("stats")), lambda what, done, total: calls.append((what, done, total)))
    last = {what: (done, total) for what, done, total in calls}
    assert set(last) == {"timeline", "files", "metadata table", "column statistics", "partition statistics"}
    assert all(done == total for done, total in last.values())


def test_report_prints_verdict_and_findings(tmp_path: Path) -> None:
    path = copy("trips", tmp_path)
    current(path, "base", "city=sf").unlink()
    lines = str(check(path)).splitlines()
    assert lines[0].startswith(f"{path}: damaged (")
    assert lines[1].startswith("  error: city=sf/")
