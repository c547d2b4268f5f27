"""The benchmark's generated tables hold the rows they claim, and a run of it measures and reports."""

from __future__ import annotations

import base64
import io
import json
import struct
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from benchmarks import embedded, results
from benchmarks.measure import Measured
from benchmarks.queries import HEADWATER, PLAIN, Query, Target, queries
from benchmarks.tables import cache, commit, generated, log_block, metadata_table, plain, rows
from benchmarks.tables.build import build
from pyroaring import BitMap64

TOTAL = 2_000


def silent(_: str) -> None:
    """No progress in tests."""


def merged_table() -> pa.Table:
    return pa.concat_tables(rows.merged_rows(c, TOTAL) for c in rows.chunks(TOTAL, plain.ROWS_PER_FILE)).sort_by("id")


def read_blocks(log: Path) -> list[tuple[int, dict[int, str], bytes]]:
    """A log file's blocks, decoded here by hand."""
    data, at, found = log.read_bytes(), 0, []
    while at < len(data):
        assert data[at : at + 6] == b"#HUDI#"
        size, version, kind, entries = struct.unpack_from(">qiii", data, at + 6)
        assert version == 1
        place, header = at + 26, {}
        for _ in range(entries):
            ordinal, length = struct.unpack_from(">ii", data, place)
            header[ordinal] = data[place + 8 : place + 8 + length].decode()
            place += 8 + length
        (length,) = struct.unpack_from(">q", data, place)
        found.append((kind, header, data[place + 8 : place + 8 + length]))
        assert struct.unpack_from(">q", data, at + size + 6) == (size + 6,)
        at += size + 14
    return found


def read_records(kind: int, header: dict[int, str], content: bytes) -> pa.Table:
    if kind == log_block.PARQUET_DATA:
        return pq.read_table(io.BytesIO(content))
    version, count = struct.unpack_from(">ii", content)
    assert version == 3
    schema, at, records = fastavro.parse_schema(json.loads(header[2])), 8, []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", content, at)
        records.append(fastavro.schemaless_reader(io.BytesIO(content[at + 4 : at + 4 + length]), schema))
        at += 4 + length
    assert at == len(content)
    return pa.Table.from_pylist(records, schema=pa.schema([*META, *rows.SCHEMA]))


META = [(name, pa.string()) for name in metadata_table.META_COLUMNS]


def test_keys_are_unique_and_ts_ascends_within_a_city() -> None:
    table = pa.concat_tables(rows.base_rows(c, TOTAL) for c in rows.chunks(TOTAL, 300))
    table.validate(full=True)
    assert pc.count_distinct(table["id"]).as_py() == TOTAL
    for city in range(rows.CITIES):
        ts = table.filter(pc.field("city") == f"city_{city}")["ts"]
        assert ts.to_pylist() == sorted(ts.to_pylist())


def test_rows_do_not_depend_on_how_they_are_cut_into_files() -> None:
    whole = pa.concat_tables(rows.merged_rows(c, TOTAL) for c in rows.chunks(TOTAL, TOTAL))
    cut = pa.concat_tables(rows.merged_rows(c, TOTAL) for c in rows.chunks(TOTAL, 77))
    assert whole.equals(cut)


def test_plain_parquet_reads_back_as_the_rows(tmp_path: Path) -> None:
    plain.write_merged(tmp_path, TOTAL, silent)
    partitioning = ds.partitioning(pa.schema([("city", pa.string())]), flavor="hive")
    read = ds.dataset(tmp_path, format="parquet", partitioning=partitioning).to_table(columns=rows.COLUMNS)
    assert read.sort_by("id").equals(merged_table())


def test_copy_on_write_base_files_hold_meta_columns_and_rows(tmp_path: Path) -> None:
    generated.write_copy_on_write(tmp_path, TOTAL, silent)
    files = sorted(tmp_path.glob("city=*/*.parquet"))
    table = pa.concat_tables(pq.read_table(f, partitioning=None) for f in files)
    expected = pa.concat_tables(rows.base_rows(c, TOTAL) for c in rows.chunks(TOTAL, plain.ROWS_PER_FILE))
    assert table.select(rows.COLUMNS).sort_by("id").equals(expected.sort_by("id"))
    assert table["_hoodie_record_key"].equals(table["id"])
    assert set(table["_hoodie_file_name"].to_pylist()) == {f.name for f in files}


@pytest.mark.parametrize(("logs", "kind"), [("avro", log_block.AVRO_DATA), ("parquet", log_block.PARQUET_DATA)])
def test_logs_replace_base_rows_at_their_positions(tmp_path: Path, logs: generated.Logs, kind: int) -> None:
    generated.write_merge_on_read(tmp_path, TOTAL, logs, silent)
    merged = []
    for log in sorted(tmp_path.glob("city=*/.*.log.*")):
        (base,) = log.parent.glob("*.parquet")
        ((found_kind, header, content),) = read_blocks(log)
        assert found_kind == kind
        assert header[8] == generated.INSERT
        positions = list(BitMap64.deserialize(base64.b64decode(header[5])))
        old, new = pq.read_table(base, partitioning=None), read_records(found_kind, header, content)
        assert old.take(positions)["id"].equals(new["id"])
        kept = sorted(set(range(old.num_rows)) - set(positions))
        merged += [old.take(kept).select(rows.COLUMNS), new.select(rows.COLUMNS)]
    assert pa.concat_tables(merged).cast(rows.SCHEMA).sort_by("id").equals(merged_table())


def test_timeline_lists_every_file_with_its_size(tmp_path: Path) -> None:
    generated.write_merge_on_read(tmp_path, TOTAL, "parquet", silent)
    listed = {}
    for instant in (tmp_path / ".hoodie" / "timeline").glob("*_*commit"):
        with open(instant, "rb") as file:
            (metadata,) = fastavro.reader(file)
        for stats in metadata["partitionToWriteStats"].values():
            listed |= {stat["path"]: stat["fileSizeInBytes"] for stat in stats}
    files = [*tmp_path.glob("city=*/*.parquet"), *tmp_path.glob("city=*/.*.log.*")]
    assert listed == {str(f.relative_to(tmp_path)): f.stat().st_size for f in files}


def test_a_table_of_many_files_has_them(tmp_path: Path) -> None:
    generated.write_many_files(tmp_path, generated.ManyFiles(3, 4), silent, by_hudi=True)
    assert len(list(tmp_path.glob("part=*/*.parquet"))) == 12
    assert ds.dataset(tmp_path, format="parquet").count_rows() == 12 * generated.ROWS_PER_TINY_FILE


@pytest.mark.parametrize("in_last_commit", [False, True])
def test_the_metadata_table_lists_every_file(tmp_path: Path, in_last_commit: bool) -> None:
    from headwater.hudi.hfile import BytesSource, HFileReader

    generated.write_many_files(tmp_path, generated.ManyFiles(3, 4, in_last_commit), silent)
    directory = tmp_path / ".hoodie" / "metadata" / "files"
    contents = [path.read_bytes() for path in directory.glob("*.hfile")]
    for log in directory.glob(".*.log.*"):
        contents += [content for kind, _, content in read_blocks(log) if kind == log_block.HFILE_DATA]
    schema = fastavro.parse_schema(metadata_table.SCHEMA)
    listed, partitions = {}, set()
    for content in contents:
        for key, value in HFileReader(BytesSource(content), "files").scan():
            found = fastavro.schemaless_reader(io.BytesIO(value), schema)["filesystemMetadata"]
            if bytes(key) == b"__all_partitions__":
                partitions |= set(found)
            else:
                listed |= {(bytes(key).decode(), name): info["size"] for name, info in found.items()}
    assert partitions == {"part=p00000", "part=p00001", "part=p00002"}
    assert listed == {(f.parent.name, f.name): f.stat().st_size for f in tmp_path.glob("part=*/*.parquet")}


def test_commit_metadata_has_the_fields_in_hudis_order() -> None:
    fields = [field["name"] for field in commit.WRITE_STAT["fields"]]
    assert fields[:10] == [
        "fileId",
        "path",
        "prevCommit",
        "numWrites",
        "numDeletes",
        "numUpdateWrites",
        "totalWriteBytes",
        "totalWriteErrors",
        "partitionPath",
        "totalLogRecords",
    ]
    assert fields[-1] == "numUpdates"


def test_tables_are_made_once_per_parameters(tmp_path: Path) -> None:
    made: list[Path] = []
    assert cache.make(tmp_path / "t", {"rows": 1}, made.append)
    assert not cache.make(tmp_path / "t", {"rows": 1}, made.append)
    assert cache.make(tmp_path / "t", {"rows": 2}, made.append)
    assert len(made) == 2


def test_a_table_without_a_stamp_is_made_anew(tmp_path: Path) -> None:
    def crash(path: Path) -> None:
        (path / "half").touch()
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        cache.make(tmp_path / "t", {}, crash)
    assert cache.make(tmp_path / "t", {}, lambda path: None)
    assert not (tmp_path / "t" / "half").exists()


def _result(target: Target, ours: Measured, theirs: Measured) -> results.Result:
    query = Query("q", "q", "read", "cow", "base", (PLAIN, HEADWATER), PLAIN, targets=(target,))
    figures = {PLAIN: results.figures(PLAIN, [theirs], theirs), HEADWATER: results.figures(HEADWATER, [ours], theirs)}
    return results.Result(query, figures)


def _verdict(result: results.Result) -> str:
    (check,) = result.checks
    return check.verdict


def test_a_fast_wrong_answer_meets_no_target() -> None:
    right = Measured((1.0, 1.0), 100.0, 50.0, rows=10, checksum=5.0)
    fast = Measured((0.1, 0.1), 10.0, 5.0, rows=9, checksum=5.0)
    assert _verdict(_result(Target("ratio", 1.1), fast, right)) == "wrong answer"


def test_verdicts_follow_the_target() -> None:
    base = Measured((1.0, 1.0), 100.0, 50.0, rows=10, checksum=5.0)
    slow = Measured((3.0, 2.0), 400.0, 50.0, rows=10, checksum=5.0)
    assert _verdict(_result(Target("ratio", 2.0), slow, base)) == "met"
    assert _verdict(_result(Target("ratio", 1.9), slow, base)) == "missed"
    assert _verdict(_result(Target("peak_mb", 300), slow, base)) == "missed"
    assert _verdict(_result(Target("peak", 5.0), slow, base)) == "met"
    assert _verdict(_result(Target("warm_seconds", 0.3), Measured(error="no"), base)) == "no figure"


def test_a_best_time_that_no_other_process_confirms_is_noisy() -> None:
    def process(seconds: float) -> Measured:
        return Measured((seconds,), 100.0, 50.0, rows=10, checksum=5.0)

    query = Query("q", "q", "read", "cow", "base", (PLAIN,), PLAIN, targets=(Target("ratio", 1.1),))
    for seconds, noisy in (((1.0, 1.1), False), ((1.0, 1.4), True), ((1.0, 1.4, 1.05), False)):
        figures = {PLAIN: results.figures(PLAIN, [process(s) for s in seconds], None)}
        assert results.Result(query, figures).noisy is noisy


def test_a_busy_machine_meets_no_target_in_seconds() -> None:
    quiet = Measured((1.0, 1.0), 100.0, 50.0, rows=10, checksum=5.0)
    busy = Measured((1.0, 1.0), 100.0, 50.0, busy_elsewhere=1.2, rows=10, checksum=5.0)
    assert _verdict(_result(Target("ratio", 2.0), busy, quiet)) == "noisy"
    assert _verdict(_result(Target("peak_mb", 200), busy, quiet)) == "met"


def test_every_query_names_a_baseline_among_its_systems() -> None:
    for query in queries(TOTAL, 16):
        assert query.baseline in query.systems
        assert query.kind == "plan" or query.checksum in query.columns


def test_a_small_run_writes_json(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    options = {"--rows": TOTAL, "--data": tmp_path / "data", "--results": tmp_path / "results", "--source": "generated"}
    given = [str(part) for option in options.items() for part in option]
    build(tmp_path / "data", tmp_path, TOTAL, "generated", silent, many={})
    assert embedded.main([*given, "--only", "cow_two", "--rounds", "1", "--repetitions", "1"], many={}) == 0
    document = json.loads((tmp_path / "results" / "embedded.json").read_text())
    found = {query["name"]: query for query in document["queries"]}
    assert found["cow_two_data"]["systems"][PLAIN]["rows"] == TOTAL
    assert (tmp_path / "results" / "embedded.png").stat().st_size > 0
