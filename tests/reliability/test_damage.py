"""Damage that once got through: each was found by the fuzz test, and says what it was."""

from __future__ import annotations

import io
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.reliability.tables import files_of, unpack
from tests.reliability.thrift import page_bodies

import headwater
from headwater.errors import CorruptFile, HeadwaterError, InvalidTableConfig, StorageError
from headwater.hudi.avro_wire import varint
from headwater.hudi.base_file import open_base_file
from headwater.hudi.hfile import block, checksum, compression
from headwater.hudi.index.bucket import HashRing
from headwater.hudi.log import BlockType, Header, read_data_block, scan_buffer, write_block
from headwater.hudi.metadata_table import decode_records
from headwater.hudi.parquet_pages import check_pages
from headwater.hudi.properties import load_config
from headwater.hudi.schema import load_schema_history, resolve_schema
from headwater.hudi.timeline import HudiTimeline, load_timeline
from headwater.hudi.timeline.history import load_history
from headwater.hudi.timeline.metadata import commit_metadata, decode
from headwater.storage import Storage

DEEP = "[" * 100_000 + "]" * 100_000
PROPERTIES = ".hoodie/hoodie.properties"


def parquet_of(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none", use_dictionary=False, write_page_checksum=True, store_schema=False)
    return sink.getvalue()


def with_flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def put(folder: Path, files: dict[str, bytes]) -> Storage:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Storage.at(folder)


ROWS = pa.table({"id": pa.array(range(100), pa.int64())})


def test_flip_within_a_page_of_a_base_file_is_told_by_its_checksum(tmp_path: Path) -> None:
    data = parquet_of(ROWS)
    storage = put(tmp_path, {"f.parquet": with_flip(data, page_bodies(data)[0][0] + 100)})
    file = open_base_file(storage, "f.parquet")
    with pytest.raises(CorruptFile, match=r"f\.parquet: cannot be read .*restore"):
        file.read(["id"], file.row_groups)


def test_flip_within_a_page_of_a_parquet_log_block_is_told_by_its_checksum() -> None:
    data = parquet_of(ROWS)
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": ["null", "long"]}]})
    headers = {Header.INSTANT_TIME: "001", Header.SCHEMA: schema}
    whole, damaged = (
        next(scan_buffer(write_block(BlockType.PARQUET_DATA, headers, content), "f.log"))
        for content in (data, with_flip(data, page_bodies(data)[0][0] + 100))
    )
    assert read_data_block(whole).equals(ROWS)
    with pytest.raises(CorruptFile, match=r"f\.log"):
        read_data_block(damaged)


def test_parquet_column_of_another_type_than_the_schema_does_not_end_the_process(tmp_path: Path) -> None:
    """Arrow calls std::terminate when it is asked for the statistics of such a column."""
    data = parquet_of(ROWS)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    storage = Storage.at(tmp_path)
    told = 0
    for at in range(footer, len(data) - 8):
        # i32 INT64 (zigzag 4) as the physical type of the chunk becomes one that does not exist
        if data[at : at + 2] == b"\x15\x04":
            (tmp_path / "f.parquet").write_bytes(data[: at + 1] + b"\x7e" + data[at + 2 :])
            try:
                file = open_base_file(storage, "f.parquet")
                file.statistics(file.row_groups[0])
            except CorruptFile as error:
                told += "in a row group and INT64 in the schema" in str(error)
    assert told


def test_no_flipped_bit_of_a_footer_ends_the_process(tmp_path: Path) -> None:
    """As above, when Arrow is only shown such a column: the size statistics of newer writers are checked there."""
    data = parquet_of(pa.table({"id": pa.array([1, None, 3], pa.int64()), "tags": [[1], None, [2, 3]]}))
    storage = Storage.at(tmp_path)
    messages: set[str] = set()
    for at in range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data)):
        for bit in range(8):
            (tmp_path / "f.parquet").write_bytes(data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :])
            try:
                file = open_base_file(storage, "f.parquet")
                for group in file.row_groups:
                    file.statistics(group)
            except CorruptFile as error:
                messages.add(str(error))
    assert any("level histogram size mismatch" in message for message in messages)


def with_first_page(data: bytes, *, compressed_size: int) -> bytes:
    """The first page's header says that it is of type 15, which does not exist (yet), and so long."""
    # i32 type, i32 uncompressed size, i32 compressed size, stop; what was behind is taken for the page
    header = b"\x15\x1e\x15\x24\x15" + varint(compressed_size) + b"\0"
    return data[:4] + header + data[4 + len(header) :]


def page_of_unknown_type(data: bytes) -> bytes:
    column = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0)
    header = len(b"\x15\x1e\x15\x24\x15" + varint(column.total_compressed_size) + b"\0")
    return with_first_page(data, compressed_size=column.total_compressed_size - header)


def test_page_of_an_unknown_type_is_no_missing_row(tmp_path: Path) -> None:
    """Arrow passes over such a page; a file of one column has fewer rows then, and nobody says so."""
    storage = put(tmp_path, {"f.parquet": page_of_unknown_type(parquet_of(ROWS))})
    file = open_base_file(storage, "f.parquet")
    with pytest.raises(CorruptFile, match=r"0 rows where the footer says 100.*restore"):
        file.read(["id"], file.row_groups)
    with pytest.raises(CorruptFile, match=r"0 rows where the footer says 100.*restore"):
        list(file.batches(["id"], file.row_groups))


def test_page_of_an_unknown_type_is_no_missing_log_record() -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": ["null", "long"]}]})
    headers = {Header.INSTANT_TIME: "001", Header.SCHEMA: schema}
    written = write_block(BlockType.PARQUET_DATA, headers, page_of_unknown_type(parquet_of(ROWS)))
    with pytest.raises(CorruptFile, match="0 rows where its footer says 100"):
        read_data_block(next(scan_buffer(written, "f.log")))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell how much memory a process had")
def test_page_that_says_it_is_huge_takes_no_memory(tmp_path: Path) -> None:
    import resource

    storage = put(tmp_path, {"f.parquet": with_first_page(parquet_of(ROWS), compressed_size=1_500_000_000)})
    file = open_base_file(storage, "f.parquet")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptFile):
        list(file.batches(["id"], file.row_groups))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell how much memory a process had")
@pytest.mark.parametrize("claimed", [1_500_000_000, 2**31 - 1, -1])
def test_page_of_a_large_file_that_says_it_is_huge_takes_no_memory(tmp_path: Path, claimed: int) -> None:
    """Large columns of local files are read through a buffer, which Arrow makes as large as a page says it is."""
    import resource

    rows = pa.table({"id": pa.array(range(64 << 17), pa.int64()), "x": pa.nulls(64 << 17)})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=rows.num_rows, compression="none", use_dictionary=False)
    storage = Storage.at(tmp_path)
    assert (tmp_path / "f.parquet").stat().st_size > 64 << 20
    whole = open_base_file(storage, "f.parquet")
    assert sum(table.num_rows for _, table in whole.batches(["id"], whole.row_groups)) == rows.num_rows
    with open(tmp_path / "f.parquet", "r+b") as stream:
        head = stream.read(1000)
        stream.seek(0)
        stream.write(with_first_page(head, compressed_size=claimed))
    del rows
    file = open_base_file(storage, "f.parquet")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptFile, match=r"the page at byte 4 claims -?\d+ bytes, and its column chunk of .*restore"):
        list(file.batches(["id"], file.row_groups))
    with pytest.raises(CorruptFile, match="the page at byte 4 claims"):
        file.read(["id"], file.row_groups[:1])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    assert file.read(["x"], file.row_groups[:1]).num_rows


@pytest.mark.parametrize("options", [{}, {"data_page_version": "2.0"}, {"compression": "zstd", "data_page_size": 100}])
def test_sound_pages_pass_the_look_at_their_headers(tmp_path: Path, options: dict[str, Any]) -> None:
    texts = [None if n % 7 == 0 else f"text {n}" * (n % 50) for n in range(5000)]
    rows = pa.table({"n": range(5000), "s": texts, "l": [[n, n + 1] for n in range(5000)]})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=1500, write_page_checksum=True, **options)
    metadata = pq.read_metadata(tmp_path / "f.parquet")
    for group in range(metadata.num_row_groups):
        check_pages(str(tmp_path / "f.parquet"), metadata, group, rows.column_names)


@pytest.mark.parametrize("table", ["clean_mor_v6_0150", "idx_stats_mor_v9_120", "clus_mor_mor_v9_120"])
def test_pages_that_hudi_wrote_pass_the_look_at_their_headers(tmp_path: Path, table: str) -> None:
    looked = 0
    for path in unpack(table, tmp_path).rglob("*.parquet"):
        if not path.name.startswith("."):
            metadata = pq.read_metadata(path)
            for group in range(metadata.num_row_groups):
                check_pages(str(path), metadata, group, pq.read_schema(path).names)
                looked += 1
    assert looked


def test_footer_whose_row_groups_do_not_add_up_is_corrupt(tmp_path: Path) -> None:
    data = parquet_of(ROWS)
    hundred = b"\x16\xc8\x01"  # i64 100: the rows of the file, then those of the group
    at = data.rindex(hundred)
    storage = put(tmp_path, {"f.parquet": data[:at] + b"\x16\xca\x01" + data[at + 3 :]})
    with pytest.raises(CorruptFile, match="its row groups have 101 rows, its footer says 100"):
        open_base_file(storage, "f.parquet")


def timeline_of(folder: Path, table: str, files: dict[str, bytes]) -> HudiTimeline:
    storage = put(folder, {PROPERTIES: files_of(table)[PROPERTIES], **files})
    return load_timeline(storage, load_config(storage))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"partitionToWriteStats": {"p": [{"numWrites": 1e999}]}}', id="an endless number"),
        pytest.param(b'{"partitionToWriteStats": {"p": [{"numWrites": 1%b}]}}' % (b"0" * 300), id="a long number"),
        pytest.param(b'{"partitionToReplaceFileIds": {"p": [["f"]]}}', id="a list for a file id"),
        pytest.param(b'{"partitionToReplaceFileIds": {"p": "file-id"}}', id="a text for a list"),
    ],
)
def test_commit_metadata_of_another_shape_is_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"001\.commit: is not commit metadata .*restore"):
        commit_metadata(decode(content, "001.commit"), "001.commit")


def test_message_about_an_undecodable_instant_is_not_its_whole_schema() -> None:
    files = files_of("clus_mor_mor_v9_120")
    data = next(d for n, d in files.items() if n.endswith(".replacecommit"))
    with pytest.raises(CorruptFile) as caught:
        decode(data.replace(b'"type":"record"', b'"type":"recovd"', 1), "001.replacecommit")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "schema", [DEEP, '{"fields": [{"name": "a", "type": ' + DEEP + "}]}", '{"fields": 5}', '{"fields": [5]}']
)
def test_commit_with_an_endless_or_shapeless_schema_is_an_error_that_names_it(tmp_path: Path, schema: str) -> None:
    commit = json.dumps({"extraMetadata": {"schema": schema}}).encode()
    timeline = timeline_of(tmp_path, "clean_mor_v6_0150", {".hoodie/20260101000000000.commit": commit})
    with pytest.raises(HeadwaterError, match=r"schema of instant 20260101000000000.*restore it"):
        resolve_schema(timeline)


@pytest.mark.parametrize(
    "content",
    [
        DEEP,
        '{"schemas": 1.5}',
        '{"schemas": [1.5]}',
        '{"schemas": [{"version_id": 1e999, "fields": []}]}',
        '{"schemas": [{"version_id": 1, "fields": [{"id": 1, "name": "a", "type": {"type": "record"}}]}]}',
        '{"schemas": [{"version_id": 1, "fields": [{"id": 1, "name": "a", "type": {"type": "array"}}]}]}',
    ],
)
def test_schema_history_of_another_shape_is_corrupt(tmp_path: Path, content: str) -> None:
    files = {
        ".hoodie/20260101000000000.commit": b"{}",
        ".hoodie/.schema/20260101000000000.schemacommit": content.encode(),
    }
    with pytest.raises(CorruptFile, match=r"20260101000000000\.schemacommit: .*restore"):
        load_schema_history(timeline_of(tmp_path, "clean_mor_v6_0150", files))


@pytest.mark.parametrize("content", [DEEP, '{"files": 5}', '{"files": [{}]}', "[]"])
def test_history_manifest_of_another_shape_is_corrupt(tmp_path: Path, content: str) -> None:
    files = {n: d for n, d in files_of("archive_mor_v9_120").items() if "/history/" in n or n == PROPERTIES}
    files[".hoodie/timeline/history/manifest_4"] = content.encode()
    storage = put(tmp_path, files)
    with pytest.raises(CorruptFile, match=r"manifest_4: is no history manifest .*restore"):
        load_history(storage, load_config(storage))


@pytest.mark.parametrize("content", ["²", "9" * 5000, "-1", "", "\0"])
def test_unreadable_version_of_the_history_leaves_the_newest_manifest(tmp_path: Path, content: str) -> None:
    files = {n: d for n, d in files_of("archive_mor_v9_120").items() if "/history/" in n or n == PROPERTIES}
    whole = put(tmp_path / "whole", files)
    damaged = put(tmp_path / "damaged", {**files, ".hoodie/timeline/history/_version_": content.encode()})
    assert load_history(damaged, load_config(damaged)) == load_history(whole, load_config(whole))


def test_history_file_with_other_columns_is_corrupt(tmp_path: Path) -> None:
    files = {n: d for n, d in files_of("archive_mor_v9_120").items() if "/history/" in n or n == PROPERTIES}
    name = next(n for n in files if n.endswith(".parquet"))
    numbers = pa.table({name: pa.array([[1]]) for name in ("instantTime", "completionTime", "action", "metadata")})
    storage = put(tmp_path, {**files, name: parquet_of(numbers)})
    with pytest.raises(CorruptFile, match=r"\.parquet: is no history file .*restore"):
        load_history(storage, load_config(storage))


@pytest.mark.parametrize("text", [DEEP, '{"nodes": [{"value": 1e999, "fileIdPrefix": "f"}]}', "[]", "{}"])
def test_hash_ring_of_another_shape_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptFile, match=r"p\.hashing_meta: no consistent-hashing metadata .*restore"):
        HashRing.parse(text, name="p.hashing_meta")


@pytest.mark.parametrize("value", [-1, 2**31, 2**200])
def test_hash_ring_with_a_node_that_no_hash_reaches_is_corrupt(value: int) -> None:
    text = json.dumps(
        {
            "partitionPath": "",
            "instant": "0",
            "nodes": [{"value": value, "fileIdPrefix": "f"}, {"value": 5, "fileIdPrefix": "g"}],
        }
    )
    with pytest.raises(CorruptFile, match=r"p\.hashing_meta: .*outside 0 to 2147483647; restore"):
        HashRing.parse(text, name="p.hashing_meta")


def frame_flips(path: Path) -> Iterator[bytes]:
    """A log file with one byte of the magic, the first size or the last size of a block flipped."""
    data = path.read_bytes()
    for found in scan_buffer(data, path.name):
        for at in (found.offset, found.offset + 13, found.offset + found.length - 1):
            yield with_flip(data, at)


@pytest.mark.parametrize("table", ["idx_stats_evo_mor_v9_120", "idx_mdt_all_cow_v6_0150", "idx_rli_moves_mor_v6_0150"])
def test_broken_block_of_the_metadata_table_never_hides_files(tmp_path: Path, table: str) -> None:
    """Data logs may end in a broken block of a dead writer; here every block says which files there are."""
    path = unpack(table, tmp_path)
    for log in sorted(path.glob(".hoodie/metadata/files/.*.log.*")):
        whole = log.read_bytes()
        for damaged in frame_flips(log):
            log.write_bytes(damaged)
            with pytest.raises(
                CorruptFile, match=r"are no log block; rebuild the metadata table, or open .*metadata=False"
            ):
                headwater.open(path).scan().to_arrow()
        log.write_bytes(whole)


def test_broken_block_of_a_change_log_never_hides_changes(tmp_path: Path) -> None:
    path = unpack("cdc_data_before_after_cow_v9_120", tmp_path)
    for log in sorted(path.glob("**/.*.cdc")):
        whole = log.read_bytes()
        for damaged in frame_flips(log):
            log.write_bytes(damaged)
            with pytest.raises(CorruptFile, match=r"\.cdc: .* are no log block, and changes of instant"):
                headwater.open(path).changes().to_arrow()
        log.write_bytes(whole)


def test_broken_block_of_the_archive_never_hides_actions(tmp_path: Path) -> None:
    files = files_of("cow_archived_mdt__v6")
    names = [name for name in files if name.startswith(".hoodie/archived/.commits_.archive.")]
    assert names
    storage = put(tmp_path, {PROPERTIES: files[PROPERTIES], **{name: files[name] for name in names}})
    assert load_history(storage, load_config(storage))
    for damaged in frame_flips(tmp_path / names[0]):
        (tmp_path / names[0]).write_bytes(damaged)
        with pytest.raises(CorruptFile, match="are no log block, and the actions archived there are lost"):
            load_history(storage, load_config(storage))


@pytest.mark.parametrize("content", [DEEP, "[]", "5", '{"indexDefinitions": 5}', '{"indexDefinitions": {"a": 5}}'])
def test_index_definitions_of_another_shape_are_corrupt(tmp_path: Path, content: str) -> None:
    path = unpack("idx_stats_evo_mor_v9_120", tmp_path)
    (path / ".hoodie/.index_defs/index.json").write_text(content)
    metadata = headwater.open(path).hudi.metadata
    assert metadata is not None
    with pytest.raises(CorruptFile, match=r"index\.json: is no list of index definitions .*metadata=False"):
        _ = metadata.definitions


def test_hfile_block_that_says_it_has_checksums_and_has_none_is_corrupt() -> None:
    """A damaged length must not switch the check off."""
    body = b"some bytes"
    header = struct.pack(">8siiqBii", block.META, len(body), len(body), -1, checksum.CRC32C, 16384, 33 + len(body))
    with pytest.raises(CorruptFile, match="0 bytes of checksums for 43 bytes of block"):
        block.read_block(header + body, 0, codec=compression.NONE, name="f.hfile", expect=block.META)


@pytest.mark.parametrize("folder", ["a\\u0000b", "a\\ud800b", "x" * 5000])
def test_properties_that_name_a_folder_that_cannot_be_are_a_storage_error(tmp_path: Path, folder: str) -> None:
    data = files_of("archive_mor_v9_120")[PROPERTIES]
    storage = put(tmp_path, {PROPERTIES: data + f"\nhoodie.timeline.path={folder}\n".encode()})
    with pytest.raises(StorageError, match=r"cannot be listed: .*then try again"):
        headwater.open(tmp_path)
    with pytest.raises(StorageError):
        storage.find("a\0b")
    with pytest.raises(StorageError):
        storage.read_bytes("a\0b")


def test_properties_whose_checksum_does_not_fit_the_name_are_refused(tmp_path: Path) -> None:
    data = files_of("clean_mor_v6_0150")[PROPERTIES]
    damaged = data.replace(b"hoodie.table.name=clean", b"hoodie.table.name=cleam")
    assert damaged != data
    storage = put(tmp_path, {PROPERTIES: damaged})
    with pytest.raises(InvalidTableConfig, match=r"hoodie\.properties: .*checksum=\d+ does not fit .*restore it"):
        load_config(storage)


def test_backup_stands_in_for_properties_whose_checksum_does_not_fit(tmp_path: Path) -> None:
    data = files_of("clean_mor_v6_0150")[PROPERTIES]
    damaged = data.replace(b"hoodie.table.name=clean", b"hoodie.table.name=cleam")
    storage = put(tmp_path, {PROPERTIES: damaged, f"{PROPERTIES}.backup": data})
    assert load_config(storage).name == "clean_mor_v6_0150"


def test_secondary_record_under_a_key_of_another_index_names_its_file() -> None:
    schema = '{"type": "record", "name": "HoodieMetadataRecord", "fields": [{"name": "type", "type": "int"}]}'
    with pytest.raises(CorruptFile, match=r"f\.hfile: .*the key '3' has no separator; rebuild"):
        list(decode_records([(b"3", bytes([7 * 2]))], schema, name="f.hfile"))
