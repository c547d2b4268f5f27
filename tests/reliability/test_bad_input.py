"""What people and disks do wrong: one typed error each, that says what, where and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.reliability.tables import TO_DO, files_of, unpack

import headwater
from headwater.errors import (
    ColumnNotFound,
    CorruptFile,
    HeadwaterError,
    InstantNotFound,
    InvalidArgument,
    InvalidExpression,
    InvalidTableConfig,
    MissingFile,
    TableNotFound,
    UnsupportedTable,
    WrongType,
)
from headwater.hudi.log import scan_buffer

V6, V9 = "mrg_event_mor_v6_120", "mrg_event_mor_v9_120"
COW = "ow_table_cow_v6_0150"
WITH_METADATA = "idx_stats_evo_mor_v9_120"
GARBAGE = bytes(range(256)) * 8
MODES: dict[str, Callable[[headwater.Table], headwater.Scan]] = {
    "snapshot": lambda table: table.scan(),
    "read_optimized": lambda table: table.scan(mode="read_optimized"),
    "time travel": lambda table: table.scan(as_of="2099-01-01"),
    "incremental": lambda table: table.incremental(),
    "changes": lambda table: table.changes(),
}
every_mode = pytest.mark.parametrize("mode", MODES)
every_table = pytest.mark.parametrize("table", [V6, V9])


def refused(call: Callable[[], Any], kind: type[HeadwaterError], builtin: type[Exception], *says: str) -> str:
    """Asserts that a call is refused with such an error, whose message has these parts and a thing to do."""
    with pytest.raises(HeadwaterError) as caught:
        call()
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, builtin)
    for part in says:
        assert part in str(error)
    assert TO_DO.search(str(error)), str(error)
    return str(error)


def read(path: Path, mode: str) -> pa.Table:
    return MODES[mode](headwater.open(path)).to_arrow()


def one(path: Path, pattern: str) -> Path:
    """The last file that matches: the newest, where names have times."""
    return sorted(found for found in path.glob(pattern) if found.is_file())[-1]


def newest_commit(path: Path) -> Path:
    pattern = ".hoodie/timeline/*commit" if (path / ".hoodie/timeline").is_dir() else ".hoodie/*commit"
    return one(path, pattern)


def halved(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


# A path that is no table


def test_path_that_is_not_there_is_no_table(tmp_path: Path) -> None:
    refused(
        lambda: headwater.open(tmp_path / "gone"), TableNotFound, FileNotFoundError, str(tmp_path / "gone"), "folder"
    )


def test_folder_without_a_meta_folder_is_no_table(tmp_path: Path) -> None:
    refused(
        lambda: headwater.open(tmp_path), TableNotFound, FileNotFoundError, str(tmp_path), ".hoodie/hoodie.properties"
    )


def test_file_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b")
    refused(lambda: headwater.open(tmp_path / "rows.csv"), TableNotFound, FileNotFoundError, "rows.csv")


def test_partition_of_a_table_is_no_table(tmp_path: Path) -> None:
    path = unpack(V9, tmp_path)
    refused(lambda: headwater.open(path / "city=la"), TableNotFound, FileNotFoundError, "city=la", "base folder")


def test_empty_path_is_an_argument_that_cannot_be() -> None:
    refused(lambda: headwater.open(""), InvalidArgument, ValueError, "empty path")


def test_scheme_that_nobody_knows_is_an_argument_that_cannot_be() -> None:
    refused(lambda: headwater.open("gopher://host/table"), InvalidArgument, ValueError, "gopher://host/table")


# hoodie.properties


@every_table
def test_missing_properties(tmp_path: Path, table: str) -> None:
    path = unpack(table, tmp_path)
    (path / ".hoodie/hoodie.properties").unlink()
    refused(lambda: headwater.open(path), TableNotFound, FileNotFoundError, str(path), "hoodie.properties")


@every_table
def test_empty_properties(tmp_path: Path, table: str) -> None:
    path = unpack(table, tmp_path)
    (path / ".hoodie/hoodie.properties").write_bytes(b"")
    refused(lambda: headwater.open(path), InvalidTableConfig, ValueError, str(path), "hoodie.table.version is missing")


@every_table
def test_truncated_properties(tmp_path: Path, table: str) -> None:
    path = unpack(table, tmp_path)
    halved(path / ".hoodie/hoodie.properties")
    refused(lambda: headwater.open(path), InvalidTableConfig, ValueError, str(path), "hoodie.properties", "is missing")


@every_table
def test_garbage_for_properties(tmp_path: Path, table: str) -> None:
    path = unpack(table, tmp_path)
    (path / ".hoodie/hoodie.properties").write_bytes(GARBAGE)
    refused(lambda: headwater.open(path), InvalidTableConfig, ValueError, str(path), "hoodie.table.name is missing")


@pytest.mark.parametrize("version", [0, 5, 7, 10, 999])
def test_table_version_that_nobody_knows(tmp_path: Path, version: int) -> None:
    path = unpack(V9, tmp_path)
    file = path / ".hoodie/hoodie.properties"
    file.write_bytes(re.sub(rb"hoodie.table.version=\d+", b"hoodie.table.version=%d" % version, file.read_bytes()))
    message = f"hoodie.table.version={version}"
    refused(lambda: headwater.open(path), UnsupportedTable, NotImplementedError, str(path), message, "6, 8, 9")


def test_every_value_that_cannot_be_is_named_at_once(tmp_path: Path) -> None:
    path = unpack(V9, tmp_path)
    file = path / ".hoodie/hoodie.properties"
    text = re.sub(rb"hoodie.table.type=\w+", b"hoodie.table.type=MERGED", file.read_bytes())
    file.write_bytes(text + b"\nhoodie.populate.meta.fields=perhaps\nhoodie.table.base.file.format=CSV\n")
    named = ("hoodie.table.type=MERGED", "hoodie.populate.meta.fields='perhaps'", "hoodie.table.base.file.format=CSV")
    refused(lambda: headwater.open(path), InvalidTableConfig, ValueError, str(path), *named)


# Instants


@every_mode
@every_table
def test_truncated_instant(tmp_path: Path, table: str, mode: str) -> None:
    path = unpack(table, tmp_path)
    commit = newest_commit(path)
    halved(commit)
    refused(lambda: read(path, mode), CorruptFile, ValueError, str(commit), "cannot be read as Avro or JSON")


@every_mode
@every_table
def test_garbage_for_an_instant(tmp_path: Path, table: str, mode: str) -> None:
    path = unpack(table, tmp_path)
    commit = newest_commit(path)
    commit.write_bytes(GARBAGE)
    refused(lambda: read(path, mode), CorruptFile, ValueError, str(commit), "cannot be read as Avro or JSON")


@every_mode
@every_table
def test_instant_that_is_archived_while_the_table_is_open(tmp_path: Path, table: str, mode: str) -> None:
    path = unpack(table, tmp_path)
    opened = headwater.open(path)
    commit = newest_commit(path)
    commit.unlink()
    refused(lambda: MODES[mode](opened).to_arrow(), MissingFile, FileNotFoundError, str(commit))


def test_garbage_for_a_history_manifest(tmp_path: Path) -> None:
    path = unpack("archive_mor_v9_120", tmp_path)
    manifest = one(path, ".hoodie/timeline/history/manifest_*")
    manifest.write_bytes(GARBAGE)
    refused(lambda: read(path, "incremental"), CorruptFile, ValueError, str(manifest), "is no history manifest")


def test_garbage_for_a_history_file(tmp_path: Path) -> None:
    path = unpack("archive_mor_v9_120", tmp_path)
    file = one(path, ".hoodie/timeline/history/*.parquet")
    file.write_bytes(GARBAGE)
    refused(lambda: read(path, "incremental"), CorruptFile, ValueError, str(file), "is no history file")


def test_history_file_that_is_missing(tmp_path: Path) -> None:
    path = unpack("archive_mor_v9_120", tmp_path)
    file = one(path, ".hoodie/timeline/history/*.parquet")
    file.unlink()
    refused(lambda: read(path, "incremental"), MissingFile, FileNotFoundError, str(file))


# Log files


def logs(path: Path) -> list[Path]:
    return sorted(path.glob("city=la/.*.log.*"))


@every_table
def test_truncated_log_is_read_up_to_there_and_reported(tmp_path: Path, table: str) -> None:
    """A writer that died leaves such a file: Hudi passes over the rest, and so do we, but not in silence."""
    path = unpack(table, tmp_path)
    halved(logs(path)[-1])
    opened = headwater.open(path)
    opened.scan().to_arrow()
    (warning,) = opened.hudi.warnings
    assert str(logs(path)[-1]) in warning
    assert "bytes skipped" in warning


@every_table
def test_garbage_for_a_log_is_reported(tmp_path: Path, table: str) -> None:
    path = unpack(table, tmp_path)
    logs(path)[0].write_bytes(GARBAGE)
    opened = headwater.open(path)
    opened.scan().to_arrow()
    assert any(str(logs(path)[0]) in warning and "bytes skipped" in warning for warning in opened.hudi.warnings)


@pytest.mark.parametrize("mode", ["snapshot", "time travel", "incremental", "changes"])
@every_table
def test_garbage_within_a_log_block(tmp_path: Path, table: str, mode: str) -> None:
    path = unpack(table, tmp_path)
    log = logs(path)[0]
    data = log.read_bytes()
    block = next(block for block in scan_buffer(data, "") if block.type.is_data)
    start, end = block.content_offset + 8, block.content_offset + block.content_length
    log.write_bytes(data[:start] + (GARBAGE * 9)[: end - start] + data[end:])
    refused(lambda: read(path, mode), CorruptFile, ValueError, str(log), "AVRO_DATA block at byte 0")


@every_table
def test_log_that_is_cleaned_while_the_table_is_open(tmp_path: Path, table: str) -> None:
    path = unpack(table, tmp_path)
    scan, logs_before = headwater.open(path).scan(), logs(path)
    assert scan.plan().tasks
    for log in logs(path):
        log.unlink()
    refused(scan.to_arrow, MissingFile, FileNotFoundError, str(logs_before[0]), "may have been cleaned", "refresh")


# Parquet


def base_files(path: Path) -> list[Path]:
    return sorted(path.glob("city=*/*.parquet"))


def damages() -> Iterator[Any]:
    yield pytest.param(halved, id="truncated")
    yield pytest.param(lambda path: path.write_bytes(GARBAGE), id="garbage")
    yield pytest.param(lambda path: path.write_bytes(b""), id="empty")
    yield pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-4] + b"PAR9"), id="another magic")
    footer = partial(_overwrite, at=-8, piece=b"\xff\xff\xff\x7f")
    yield pytest.param(footer, id="a footer longer than the file")
    yield pytest.param(partial(_overwrite, at=-400, piece=GARBAGE[:300]), id="garbage in the footer")


def _overwrite(path: Path, at: int, piece: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) + at : len(data) + at + len(piece)] = piece
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("mode", ["snapshot", "read_optimized", "time travel"])
@pytest.mark.parametrize("damage", list(damages()))
@every_table
def test_damaged_parquet_footer(tmp_path: Path, table: str, damage: Callable[[Path], object], mode: str) -> None:
    path = unpack(table, tmp_path)
    file = base_files(path)[0]
    damage(file)
    refused(lambda: read(path, mode), CorruptFile, ValueError, str(file), "cannot be read", "restore the file")


@every_table
def test_base_file_that_is_cleaned_while_the_table_is_read(tmp_path: Path, table: str) -> None:
    path = unpack(table, tmp_path)
    scan = headwater.open(path).scan(threads=1)
    batches = scan.to_batches()
    next(batches)
    gone = base_files(path)[-1]
    gone.unlink()
    refused(lambda: list(batches), MissingFile, FileNotFoundError, str(gone), "may have been cleaned")


# HFiles


@pytest.mark.parametrize("damage", [halved, lambda path: path.write_bytes(GARBAGE)], ids=["truncated", "garbage"])
@every_mode
def test_damaged_hfile_of_the_metadata_table(tmp_path: Path, mode: str, damage: Callable[[Path], object]) -> None:
    path = unpack(WITH_METADATA, tmp_path)
    expected = read(path, mode)
    file = one(path, ".hoodie/metadata/files/*.hfile")
    damage(file)
    refused(lambda: read(path, mode), CorruptFile, ValueError, str(file), "drop that table and have it rebuilt")
    assert MODES[mode](headwater.open(path, metadata=False)).to_arrow().equals(expected)


# Columns, filters and arguments


@every_table
def test_column_that_does_not_exist(tmp_path: Path, table: str) -> None:
    opened = headwater.open(unpack(table, tmp_path))
    says = ("no column 'fare'", "the table has: _hoodie_commit_time")
    refused(lambda: opened.scan(columns=["fare"]).to_arrow(), ColumnNotFound, KeyError, *says)
    refused(lambda: opened.scan().select("city", "fare").to_arrow(), ColumnNotFound, KeyError, *says)
    refused(lambda: opened.incremental(columns=["fare"]).to_arrow(), ColumnNotFound, KeyError, *says)


@every_mode
@every_table
def test_filter_on_a_column_that_does_not_exist(tmp_path: Path, table: str, mode: str) -> None:
    scan = MODES[mode](headwater.open(unpack(table, tmp_path))).where("fare > 5")
    refused(scan.to_arrow, ColumnNotFound, KeyError, "no column fare", "_hoodie_commit_time")


@every_mode
@pytest.mark.parametrize(
    "text", ["", "price >", "price = ", "(price = 1", "price == = 1", "price = 'x", "DROP TABLE t"]
)
def test_filter_that_does_not_parse(tmp_path: Path, text: str, mode: str) -> None:
    table = headwater.open(unpack(V9, tmp_path))
    refused(lambda: MODES[mode](table).where(text).to_arrow(), InvalidExpression, ValueError, "filter")


def test_filter_that_does_not_fit_the_type(tmp_path: Path) -> None:
    table = headwater.open(unpack(V9, tmp_path))
    scan = table.scan(filter="price = 'expensive'")
    with pytest.raises(InvalidExpression, match="price"):
        scan.to_arrow()


@every_table
def test_instant_before_the_history(tmp_path: Path, table: str) -> None:
    opened = headwater.open(unpack(table, tmp_path))
    for when in ("2001-01-01", "20010101000000000", "2001-01-01T00:00:00Z"):
        refused(
            lambda when=when: opened.scan(as_of=when).to_arrow(), InstantNotFound, LookupError, opened.uri, "begins at"
        )


def test_instant_whose_files_were_cleaned(tmp_path: Path) -> None:
    path = unpack("clean_cow_v9_120", tmp_path)
    opened = headwater.open(path)
    first = opened.hudi.timeline.commits[0].requested_at
    message = refused(lambda: opened.scan(as_of=first).to_arrow(), InstantNotFound, LookupError, str(path), first)
    assert "cleaned" in message


@pytest.mark.parametrize("when", ["yesterday", "2026-13-45", "", "1", "2026-01-01 25:00:00", None, 5.5, object()])
def test_time_that_is_none(tmp_path: Path, when: object) -> None:
    table = headwater.open(unpack(V9, tmp_path))
    if when is not None:
        refused(lambda: table.scan(as_of=when).to_arrow(), InvalidArgument, ValueError, "is no point in time")
        refused(lambda: table.incremental(when).to_arrow(), InvalidArgument, ValueError, "is no point in time")
        refused(lambda: table.changes(None, when).to_arrow(), InvalidArgument, ValueError, "is no point in time")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "snapshots"}, "mode='snapshots'"),
        ({"columns": "price"}, "columns='price'"),
        ({"columns": ["price", "price"]}, "names a column twice"),
        ({"limit": -1}, "limit=-1"),
        ({"threads": 0}, "threads=0"),
        ({"memory": "lots"}, "memory='lots'"),
        ({"memory": "-1GB"}, "memory='-1GB'"),
        ({"memory": "1PB"}, "memory='1PB'"),
    ],
)
def test_argument_that_cannot_be(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    table = headwater.open(unpack(V9, tmp_path))
    refused(lambda: table.scan(**options).to_arrow(), InvalidArgument, ValueError, says)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limit": "x"}, "limit='x' is a str; give a whole number, 0 or more"),
        ({"limit": 1.5}, "limit=1.5 is a float"),
        ({"limit": True}, "limit=True is a bool"),
        ({"threads": 1.5}, "threads=1.5 is a float; give a whole number, 1 or more"),
        ({"threads": "2"}, "threads='2' is a str"),
        ({"memory": []}, "memory=[] is a list; give bytes or a text"),
        ({"memory": True}, "memory=True is a bool"),
        ({"columns": 5}, "columns=5 is a int; give a list of column names"),
        ({"columns": ["price", None]}, "columns=['price', None]: None is a NoneType, no name"),
        ({"mode": 3}, "mode=3 is a int; known: snapshot, read_optimized"),
        ({"mode": []}, "mode=[] is a list"),
    ],
)
def test_argument_of_wrong_type(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    """reader-spec R23"""
    table = headwater.open(unpack(V9, tmp_path))
    refused(lambda: table.scan(**options), WrongType, TypeError, says)
    if "mode" not in options:
        refused(lambda: table.incremental(**options), WrongType, TypeError, says)
    if not options.keys() & {"mode", "columns"}:
        refused(lambda: table.changes(**options), WrongType, TypeError, says)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ([1, 2], "keys=[1, 2]: 1 is a int; a record key is a text, so give str(key)"),
        (5, "keys=5 is a int; give a list of texts"),
        (None, "keys=None is a NoneType; give a list of texts"),
        ([b"k"], "keys=[b'k']: b'k' is a bytes"),
        (pa.array([[1]]), "keys of type list<item: int64> are no texts"),
    ],
)
def test_keys_of_wrong_type(tmp_path: Path, keys: Any, says: str) -> None:
    table = headwater.open(unpack(V9, tmp_path))
    refused(lambda: table.lookup(keys), WrongType, TypeError, says)
    refused(lambda: table.record_index.tag(keys), WrongType, TypeError, says)
    refused(lambda: table.record_index.slices(keys), WrongType, TypeError, says)


def test_keys_that_are_one_text_or_null(tmp_path: Path) -> None:
    table = headwater.open(unpack(V9, tmp_path))
    refused(lambda: table.lookup("1001"), InvalidArgument, ValueError, "keys='1001' is one text; give a list")
    refused(lambda: table.lookup(["a", None]), InvalidArgument, ValueError, "a record key is never null")


def test_other_arguments_of_wrong_type(tmp_path: Path) -> None:
    path = unpack(V9, tmp_path)
    refused(lambda: headwater.open(5), WrongType, TypeError, "path=5 is a int; give a folder or a URI")  # type: ignore[arg-type]
    refused(lambda: headwater.open(b"x"), WrongType, TypeError, "is bytes; give a text")  # type: ignore[arg-type]
    refused(lambda: headwater.open(path, metadata="no"), WrongType, TypeError, "metadata='no' is a str")  # type: ignore[arg-type]
    refused(lambda: headwater.open(path, filesystem=5), WrongType, TypeError, "filesystem=5 is a int")
    table = headwater.open(path)
    refused(lambda: table.incremental(if_cleaned=1), WrongType, TypeError, "if_cleaned=1 is a int; known: raise")  # type: ignore[arg-type]
    refused(lambda: table.scan().select("price", 3), WrongType, TypeError, "columns=('price', 3)")  # type: ignore[arg-type]
    refused(lambda: table.scan(filter=5), InvalidExpression, ValueError, "a int is no filter; give a text")  # type: ignore[arg-type]
    refused(lambda: table.scan().where(5), InvalidExpression, ValueError, "a int is no filter; give a text")  # type: ignore[arg-type]


def test_table_of_no_commits_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    (path / ".hoodie/timeline").mkdir(parents=True)
    (path / ".hoodie/hoodie.properties").write_bytes(files_of(V9)[".hoodie/hoodie.properties"])
    for mode in ("snapshot", "read_optimized", "incremental", "changes"):
        assert read(path, mode).num_rows == 0
    refused(lambda: read(path, "time travel"), InstantNotFound, LookupError, str(path), "has no commits")
