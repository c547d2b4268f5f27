"""Base files: what is in them, what their footers say, and what Hudi's own files say in the same places."""

from __future__ import annotations

import datetime as dt
import decimal
import gc
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import places

from headwater.errors import InvalidArgument, StorageError, WrongType
from headwater.hudi.avro_schema import to_arrow, to_avro
from headwater.hudi.base_file import open_base_file
from headwater.hudi.footer_index import by_footer
from headwater.hudi.write.base_writer import BaseFileWriter, KeyRange
from headwater.hudi.write.file_ranges import FileRanges
from headwater.hudi.write.meta_columns import (
    with_empty_meta_columns,
    with_file_name,
    with_meta_columns,
    with_meta_schema,
)
from headwater.hudi.write.model import WrittenFile
from headwater.storage import Storage

INSTANT = "20260101000000000"
NAME = f"f1-0_0-0-0_{INSTANT}.parquet"


def write(
    root: Path, rows: pa.Table, keys: Any = None, *, path: str = f"city=sf/{NAME}", **options: Any
) -> WrittenFile:
    """A base file of rows; their keys are their numbers unless told."""
    schema = with_meta_schema(rows.schema)
    texts = pa.array([str(n) for n in range(rows.num_rows)] if keys is None else keys, pa.string())
    partition, _, name = path.rpartition("/")
    full = with_meta_columns(rows, texts, instant=INSTANT, partition=partition, file_name=name)
    with BaseFileWriter(Storage.at(root), path, schema, avro_schema=to_avro(schema, "trips"), **options) as writer:
        writer.write(full)
        return writer.finish(inserted=rows.num_rows)


def test_rows_and_meta_columns_come_back(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "name": ["a", None]})
    written = write(tmp_path, rows)
    assert (written.partition, written.name, written.file_id) == ("city=sf", NAME, "f1-0")
    assert (written.rows, written.inserted, written.path) == (2, 2, f"city=sf/{NAME}")
    assert written.size == (tmp_path / written.path).stat().st_size
    found = pq.read_table(tmp_path / written.path, partitioning=None)
    assert found.to_pylist()[1] == {
        "_hoodie_commit_time": INSTANT,
        "_hoodie_commit_seqno": f"{INSTANT}_0_1",
        "_hoodie_record_key": "1",
        "_hoodie_partition_path": "city=sf",
        "_hoodie_file_name": NAME,
        "id": 2,
        "name": None,
    }
    assert found.schema == with_meta_schema(rows.schema)


def test_footer_says_what_hudi_writes_into_it(tmp_path: Path) -> None:
    """The same entries, and the same Parquet types, as in a file of Hudi with columns of every type."""
    seen = 0
    for path, data in places.files("generated/types_all_cow_v9_120", lambda path: path.endswith(".parquet")).items():
        if path.startswith(".hoodie/"):
            continue
        theirs = pq.ParquetFile(io.BytesIO(data))
        schema = to_arrow(theirs.metadata.metadata[b"parquet.avro.schema"].decode())
        storage = Storage.at(tmp_path)
        with BaseFileWriter(
            storage, NAME, schema, avro_schema=to_avro(schema, "types_all_cow_v9_120"), codec="gzip"
        ) as writer:
            writer.write(
                open_base_file(Storage.at(_on_disk(tmp_path, data)), "x.parquet").read(schema.names, _all(data))
            )
            written = writer.finish()
        ours = pq.ParquetFile(tmp_path / NAME)
        assert set(theirs.metadata.metadata) == set(ours.metadata.metadata)
        for key in (b"parquet.avro.schema", b"hoodie_min_record_key", b"hoodie_max_record_key", b"writer.model.name"):
            assert theirs.metadata.metadata[key] == ours.metadata.metadata[key]
        assert _leaf_types(theirs) == _leaf_types(ours)
        assert ours.metadata.row_group(0).column(0).compression == theirs.metadata.row_group(0).column(0).compression
        assert written.rows == theirs.metadata.num_rows
        seen += 1
    assert seen


def _on_disk(root: Path, data: bytes) -> Path:
    folder = root / "theirs"
    folder.mkdir(exist_ok=True)
    (folder / "x.parquet").write_bytes(data)
    return folder


def _all(data: bytes) -> Any:
    from headwater.hudi.base_file import RowGroup

    metadata = pq.read_metadata(io.BytesIO(data))
    return [RowGroup(n, 0, metadata.row_group(n).num_rows) for n in range(metadata.num_row_groups)]


def _leaf_types(file: pq.ParquetFile) -> list[tuple[str, str, int]]:
    """Name, type and width of each leaf that is in no list or map: those have two levels in one, three in the other."""
    columns = [file.schema.column(n) for n in range(len(file.schema))]
    return [
        (c.path, c.physical_type + str(c.logical_type), c.length or 0) for c in columns if not c.max_repetition_level
    ]


def test_our_own_index_of_footers_finds_the_keys(tmp_path: Path) -> None:
    written = write(tmp_path, pa.table({"id": [1, 2, 3]}), ["k1", "k2", "k5"])
    base = open_base_file(Storage.at(tmp_path), written.path)
    assert by_footer(base, pa.array(["k1", "k3", "k5", "k9"])).to_pylist() == ["k1", "k5"]
    assert base.footer[b"hoodie_min_record_key"] == b"k1" == (written.smallest_key or "").encode()
    assert base.footer[b"hoodie_bloom_filter_type_code"] == b"DYNAMIC_V0"
    assert base.footer[b"org.apache.hudi.bloomfilter"].decode() == written.bloom


def test_small_files_have_small_filters(tmp_path: Path) -> None:
    assert write(tmp_path, pa.table({"id": [1]})).size < 5_000


def test_rows_come_in_row_groups_of_a_size(tmp_path: Path) -> None:
    rows = pa.table({"id": np.arange(50_000), "s": [f"text {n}" for n in range(50_000)]})
    written = write(tmp_path, rows, row_group_bytes=1_000_000)
    file = pq.ParquetFile(tmp_path / written.path)
    assert 2 < file.num_row_groups < 8
    assert file.read(["id"]).column(0).to_pylist() == list(range(50_000))
    assert written.rows == 50_000
    by_name = {r.column: r for r in written.ranges}
    assert (by_name["id"].minimum, by_name["id"].maximum) == (0, 49_999)


def test_batches_with_dictionaries_of_their_own_make_one_row_group(tmp_path: Path) -> None:
    schema = with_meta_schema(pa.schema([("id", pa.int64())]))
    with BaseFileWriter(Storage.at(tmp_path), NAME, schema, avro_schema=to_avro(schema, "t")) as writer:
        for n in range(3):
            rows = pa.table({"id": [n]})
            full = with_meta_columns(rows, pa.array([f"{n}"]), instant=f"2026010{n}", partition="", file_name="old")
            writer.write(with_file_name(full, NAME).to_batches()[0])
        writer.finish()
    found = pq.read_table(tmp_path / NAME)
    assert found.column("_hoodie_commit_time").to_pylist() == ["20260100", "20260101", "20260102"]
    assert set(found.column("_hoodie_file_name").to_pylist()) == {NAME}
    assert pq.ParquetFile(tmp_path / NAME).num_row_groups == 1


def test_ranges_are_those_of_the_rows(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "i": pa.array([3, None, 1], pa.int32()),
            "f": pa.array([1.5, math.nan, None]),
            "d": pa.array([decimal.Decimal("1.50"), decimal.Decimal("-2.25"), None], pa.decimal128(9, 2)),
            "day": pa.array([dt.date(2026, 1, 2), None, dt.date(2025, 1, 2)]),
            "at": pa.array([dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc), None, None], pa.timestamp("us", "UTC")),
            "s": ["b", "a", None],
            "nothing": pa.nulls(3, pa.string()),
            "st": pa.array([{"x": 5}, {"x": 7}, None], pa.struct([("x", pa.int64())])),
            "li": pa.array([[1], [2], None], pa.list_(pa.int64())),
        }
    )
    ranges = {r.column: r for r in write(tmp_path, rows).ranges}
    assert (ranges["i"].minimum, ranges["i"].maximum, ranges["i"].null_count, ranges["i"].value_count) == (1, 3, 1, 3)
    assert ranges["f"].minimum == 1.5
    assert math.isnan(ranges["f"].maximum)
    assert (ranges["d"].minimum, ranges["d"].maximum) == (decimal.Decimal("-2.25"), decimal.Decimal("1.50"))
    assert (ranges["day"].minimum, ranges["day"].maximum) == (dt.date(2025, 1, 2), dt.date(2026, 1, 2))
    assert ranges["at"].maximum == dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)
    assert (ranges["s"].minimum, ranges["s"].maximum) == ("a", "b")
    assert (ranges["nothing"].minimum, ranges["nothing"].null_count) == (None, 3)
    assert (ranges["st.x"].minimum, ranges["st.x"].maximum, ranges["st.x"].null_count) == (5, 7, 1)
    assert ranges["_hoodie_record_key"].maximum == "2"
    assert ranges["i"].size > 0
    assert not any("li" in name for name in ranges)


def test_times_beyond_pythons_calendar_have_no_range(tmp_path: Path) -> None:
    rows = pa.table({"at": pa.array([2**62], pa.timestamp("us", "UTC"))})
    (found,) = [r for r in write(tmp_path, rows).ranges if r.column == "at"]
    assert (found.minimum, found.maximum, found.null_count) == (None, None, 0)


def test_keys_are_ordered_as_java_orders_them() -> None:
    keys = KeyRange()
    keys.add(pa.array(["\ue000", "\U00010000", None]))
    assert (keys.smallest, keys.largest) == ("\U00010000", "\ue000")


def test_tables_without_meta_fields_have_neither_keys_nor_filter(tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    schema = with_meta_schema(rows.schema)
    with BaseFileWriter(Storage.at(tmp_path), NAME, schema, avro_schema=to_avro(schema, "t")) as writer:
        writer.write(with_empty_meta_columns(rows))
        written = writer.finish()
    assert (written.bloom, written.smallest_key) == (None, None)
    assert not {b"org.apache.hudi.bloomfilter", b"hoodie_min_record_key"} & set(
        pq.read_metadata(tmp_path / NAME).metadata or {}
    )


def test_a_file_without_rows_is_a_file(tmp_path: Path) -> None:
    written = write(tmp_path, pa.table({"id": pa.array([], pa.int64())}))
    assert written.rows == 0
    assert pq.read_table(tmp_path / written.path, partitioning=None).num_rows == 0


@pytest.mark.parametrize("codec", ["snappy", "GZIP", "zstd", "lz4_raw", "uncompressed"])
def test_codecs_have_hudis_names(tmp_path: Path, codec: str) -> None:
    written = write(tmp_path, pa.table({"id": [1]}), codec=codec)
    found = pq.read_metadata(tmp_path / written.path).row_group(0).column(0).compression
    assert found == {"lz4_raw": "LZ4"}.get(codec, codec.upper())


def test_an_unknown_codec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="compression codec 'zip' is not known"):
        write(tmp_path, pa.table({"id": [1]}), codec="zip")


def test_rows_of_another_schema_are_refused(tmp_path: Path) -> None:
    schema = with_meta_schema(pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    with BaseFileWriter(Storage.at(tmp_path), NAME, schema, avro_schema=to_avro(schema, "t")) as writer:
        with pytest.raises(InvalidArgument, match="the file has"):
            writer.write(pa.table({"id": [1]}))
        for column, error in ((["x"], WrongType), ([None], InvalidArgument)):
            rows = with_meta_columns(
                pa.table({"id": column}), pa.array(["1"]), instant="1", partition="", file_name="f"
            )
            with pytest.raises(error, match="column 'id'"):
                writer.write(rows)


def test_a_name_that_no_reader_would_find_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no base file's name"):
        write(tmp_path, pa.table({"id": [1]}), path="data.parquet")


def test_a_storage_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "city=sf").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="city=sf"):
        write(tmp_path, pa.table({"id": [1]}))


def test_a_file_without_rows_has_a_bloom_filter_and_no_range_of_keys(tmp_path: Path) -> None:
    """As Hudi's own have: its bloom index asks the filter of every file."""
    written = write(tmp_path, pa.table({"id": pa.array([], pa.int64())}))
    footer = pq.read_metadata(tmp_path / written.path).metadata
    assert {b"org.apache.hudi.bloomfilter", b"hoodie_bloom_filter_type_code"} <= footer.keys()
    assert not {b"hoodie_min_record_key", b"hoodie_max_record_key"} & footer.keys()


def test_ranges_of_a_written_file_are_those_that_its_footer_tells(tmp_path: Path) -> None:
    inner = pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.int64()))])
    rows = pa.table(
        {
            "id": pa.array([2, 1], pa.int64()),
            "where": pa.array([{"x": 1.5, "tags": [1]}, {"x": math.nan, "tags": None}], inner),
            "more": pa.array([[{"a": 1}], None], pa.list_(pa.struct([("a", pa.int32())]))),
            "words": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
            "last": pa.array(["b", "a"]),
        }
    )
    written = write(tmp_path, rows)
    ranges = FileRanges(with_meta_schema(rows.schema))
    ranges.look_at(rows)
    footer = pq.read_metadata(tmp_path / written.path)
    assert [one.column for one in written.ranges][5:] == ["id", "where.x", "last"]
    assert repr(written.ranges) == repr(ranges.of_footer(footer)) == repr(ranges.of_written(footer))


def test_a_written_footer_does_not_outlive_its_file(tmp_path: Path) -> None:
    """It holds the bloom filter, some megabytes for a million keys."""
    gc.collect()
    gc.disable()
    try:
        write(tmp_path, pa.table({"id": [1, 2]}))
        left = [one for one in gc.get_objects() if isinstance(one, pq.FileMetaData)]
    finally:
        gc.enable()
    assert not left
