"""Records of real metadata tables, checked against the very files that they describe."""

from __future__ import annotations

import datetime
import functools
import io
import itertools
import json
import random
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import places
from tests.unit.hudi.plain_log import HFILE, log_blocks

from headwater.errors import CorruptFile, HeadwaterError, UnsupportedTable
from headwater.hudi.hfile import BytesSource, HFileReader
from headwater.hudi.index.hashing import column_stats_key
from headwater.hudi.metadata_table import (
    ALL_PARTITIONS_KEY,
    BloomEntry,
    ColumnStats,
    FileListing,
    ListedFile,
    Payload,
    RecordLocation,
    SecondaryEntry,
    Tombstone,
    ValueType,
    column_statistics,
    columns,
    decode_record,
    decode_records,
    live,
    merge,
    merge_column_stats,
    merge_listings,
    parsed_schema,
    record_locations,
)
from headwater.hudi.metadata_table.values import stat_value

WHOLE = (
    "generated/idx_mdt_all_cow_v6_0150",
    "generated/idx_secondary_mor_v8_102",
    "generated/idx_stats_cow_v8_102",
    "generated/idx_stats_mor_v9_111",
    "generated/idx_stats_mor_v9_120",
    "hudi/sample_cow_v9_txns_complex_meta",
    "hudi/sample_cow_v9_txns_nonpart_meta",
    "hudi/mdtbasic_mor_avro_v8_nonpartitioned",
)


@functools.cache
def table(name: str) -> dict[str, bytes]:
    return places.files(name)


def hfiles(name: str, partition: str = r"\w+") -> Iterator[tuple[str, HFileReader, bytes]]:
    """The HFiles of a metadata table, oldest instant first: (partition, file, its schema)."""
    found: list[tuple[str, int, str, HFileReader, bytes]] = []
    for path, data in table(name).items():
        match = re.fullmatch(rf"\.hoodie/metadata/({partition})/([^/]+)", path)
        if match is None or path.endswith(".crc"):
            continue
        if path.endswith(".hfile"):
            file = HFileReader(BytesSource(data), path)
            instant = path.removesuffix(".hfile").rsplit("_", 1)[1]
            found.append((instant, 0, match[1], file, file.file_info[b"schema"]))
        elif ".log." in path:
            for order, (header, content) in enumerate(hfile_blocks(data)):
                file = HFileReader(BytesSource(content), path)
                found.append((header[0].decode(), order + 1, match[1], file, header[2]))
    found.sort(key=lambda entry: entry[:2])
    return ((partition_, file, schema) for _, _, partition_, file, schema in found)


def hfile_blocks(data: bytes) -> Iterator[tuple[dict[int, bytes], bytes]]:
    return ((header, content) for kind, header, content in log_blocks(data) if kind == HFILE)


def merged(name: str, partition: str) -> dict[str, Payload]:
    """The live records of a metadata partition whose instants all completed."""
    state: dict[str, Payload] = {}
    for _, file, schema in hfiles(name, partition):
        for key, payload in decode_records(file.scan(), schema, name=file.name):
            state[key] = merge(state.get(key), payload)
    return {key: payload for key, payload in state.items() if live(payload) is not None}


def data_files(name: str) -> dict[str, dict[str, int]]:
    """Base and log files of a table by partition, with their sizes."""
    found: dict[str, dict[str, int]] = {}
    for path, data in table(name).items():
        folder, _, file = path.rpartition("/")
        if not folder.startswith(".hoodie") and (file.endswith(".parquet") or ".log." in file) and ".crc" not in file:
            found.setdefault(folder or ".", {})[file] = len(data)
    return found


@pytest.mark.parametrize("name", WHOLE)
def test_listings_are_the_files_of_the_table(name: str) -> None:
    listings = merged(name, "files")
    partitions = listings.pop(ALL_PARTITIONS_KEY)
    assert isinstance(partitions, FileListing)
    files = data_files(name)
    assert set(partitions.present) == set(files)
    assert {key: payload.present for key, payload in listings.items()} == files  # type: ignore[union-attr]


@pytest.mark.parametrize("name", WHOLE[1:])
def test_column_stats_agree_with_the_footers_of_the_files(name: str) -> None:
    footers = {
        path.rsplit("/", 1)[-1]: pq.ParquetFile(io.BytesIO(data))
        for path, data in table(name).items()
        if path.endswith(".parquet") and not path.startswith(".hoodie")
    }
    checked = 0
    # Record by record: what a log says is said again by the base file made of it, and merging would count it twice.
    decoded = (decode_records(file.scan(), schema) for _, file, schema in hfiles(name, "column_stats"))
    for key, stats in itertools.chain.from_iterable(decoded):
        if not isinstance(stats, ColumnStats) or stats.is_deleted or stats.file not in footers:
            continue
        file = footers[stats.file]
        folder = next(path for path in table(name) if path.endswith(stats.file)).rpartition("/")[0]
        assert key == column_stats_key(stats.column, folder, stats.file)
        column = file.read([stats.column]).column(0)
        assert (stats.value_count, stats.null_count) == (len(column), column.null_count), stats
        present = [value for value in column.drop_null().to_pylist() if value is not None]
        if not present:
            assert (stats.min, stats.max) == (None, None)
        elif stats.min is not None and not any(value != value for value in present):
            # With NaN among the values Hudi's bounds are NaN, or 0.0 where Parquet kept none.
            low, high = min(present), max(present)
            assert (plain(stats.min), plain(stats.max)) == (plain(low), plain(high)), stats
        checked += 1
    assert checked > 20


def plain(value: Any) -> Any:
    """Timestamps before table version 9 are numbers in their column's unit."""
    if isinstance(value, datetime.datetime):
        utc = datetime.timezone.utc
        return round(value.replace(tzinfo=value.tzinfo or utc).timestamp() * 1_000_000)
    return value


def test_record_index_names_the_file_that_holds_the_record() -> None:
    name = "hudi/sample_cow_v9_txns_complex_meta"
    newest: dict[str, tuple[str, str, str]] = {}
    for path, data in table(name).items():
        if path.endswith(".parquet") and not path.startswith(".hoodie"):
            folder, _, file = path.rpartition("/")
            rows = pq.read_table(io.BytesIO(data), columns=["_hoodie_record_key"]).column(0).to_pylist()
            instant = file.removesuffix(".parquet").rsplit("_", 1)[1]
            for key in rows:
                if key not in newest or instant > newest[key][0]:
                    newest[key] = instant, folder, file.split("_")[0]
    index = merged(name, "record_index")
    assert len(index) > 5
    for key, location in index.items():
        assert isinstance(location, RecordLocation)
        assert (location.partition, location.file_id) == newest[key][1:]


def test_secondary_index_entries_have_both_keys() -> None:
    entries = merged("generated/idx_sec_updates_mor_v8_102", r"secondary_index_\w+")
    assert entries
    for key, entry in entries.items():
        assert isinstance(entry, SecondaryEntry)
        assert key == f"{entry.value}${entry.record_key}"


def test_bloom_entries_open_as_the_filters_of_their_files() -> None:
    name = "generated/idx_mdt_all_cow_v6_0150"
    texts = {
        (pq.ParquetFile(io.BytesIO(data)).metadata.metadata or {}).get(b"org.apache.hudi.bloomfilter")
        for path, data in table(name).items()
        if path.endswith(".parquet") and not path.startswith(".hoodie")
    }
    entries = merged(name, "bloom_filters")
    assert entries
    for entry in entries.values():
        assert isinstance(entry, BloomEntry)
        assert entry.text in texts
        assert entry.open().serialize().encode() == entry.text


@pytest.mark.parametrize("name", WHOLE)
def test_columnar_decoding_agrees_with_the_record_by_record_one(name: str) -> None:
    rows = 0
    for partition, file, schema in hfiles(name):
        if partition == "files":
            continue
        for keys, values in file.scan_columns():
            typed = dict(decode_records(file.scan(), schema))
            if partition == "record_index":
                found = record_locations(keys, values, schema)
                slow = columns._location_rows(keys, values, schema, name)
                for row in found.to_pylist():
                    key = row.pop("key")
                    assert RecordLocation(**row) == typed[key]
            elif partition in ("column_stats", "partition_stats"):
                found = column_statistics(keys, values, schema)
                slow = columns._statistic_rows(keys, values, schema, name)
                for row in found.to_pylist():
                    assert repr(from_columns(row)) == repr(typed[row["key"]])  # NaN is not equal to itself
            else:
                continue
            for field, column in slow.items():
                assert repr(found[field].to_pylist()) == repr(column.to_pylist()), field
            rows += len(found)
    assert rows > 20


def from_columns(row: dict[str, Any]) -> ColumnStats:
    def bound(side: str) -> Any:
        raw = next(
            (row[f"{side}_{kind}"] for kind in ("long", "double", "bytes") if row[f"{side}_{kind}"] is not None), None
        )
        if raw is None:
            return None
        if row["wrapper"] == "StringWrapper":
            raw = raw.decode()
        elif row["wrapper"] == "BooleanWrapper":
            raw = bool(raw)
        return stat_value(raw, row["wrapper"], row["value_type"], row["type_info"])

    rest = (row[key] for key in ("value_count", "null_count", "total_size", "total_uncompressed_size"))
    return ColumnStats(
        row["file"],
        row["column"],
        bound("min"),
        bound("max"),
        *rest,
        is_deleted=row["is_deleted"],
        is_tight=row["is_tight"],
        value_type=row["value_type"],
    )


def newest_schema() -> bytes:
    return next(iter(hfiles("hudi/sample_cow_v9_txns_complex_meta", "column_stats")))[2]


def written(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed_schema(newest_schema()), {"key": "", **record})
    return out.getvalue()


def test_record_index_with_raw_file_ids_positions_and_deletes() -> None:
    def location(**info: Any) -> bytes:
        return written({"type": 5, "recordIndexMetadata": {"partitionName": "p", "instantTime": 7, **info}})

    uuid_bits = {"fileIdHighBits": -1, "fileIdLowBits": 1}
    values = [
        location(**uuid_bits, fileIndex=12, fileId="", fileIdEncoding=0, position=3),
        location(fileIdHighBits=-1, fileIdLowBits=-1, fileIndex=-1, fileId="bucket-7", fileIdEncoding=1),
        b"",
        location(**uuid_bits, fileIndex=-1, fileId=None, fileIdEncoding=0),
    ]
    keys = [b"a", b"b", b"c", b"d"]
    found = record_locations(pa.array(keys), pa.array(values), newest_schema()).to_pylist()
    assert [row["file_id"] for row in found] == [
        "ffffffff-ffff-ffff-0000-000000000001-12",
        "bucket-7",
        None,
        "ffffffff-ffff-ffff-0000-000000000001",
    ]
    assert [row["position"] for row in found] == [3, None, None, None]
    typed = dict(decode_records(zip(keys, values, strict=True), newest_schema()))
    assert typed["c"] == Tombstone()
    assert [getattr(typed[key], "file_id", None) for key in "abcd"] == [row["file_id"] for row in found]


def test_mixed_wrappers_and_arrays_fall_back_to_the_same_result() -> None:
    model = "org.apache.hudi.avro.model."

    def stats(low: Any, high: Any, kind: dict[str, Any] | None = None) -> bytes:
        counts = {"valueCount": 2, "nullCount": 0, "totalSize": 1, "totalUncompressedSize": 1}
        content = {"fileName": "f", "columnName": "c", "minValue": low, "maxValue": high, "valueType": kind}
        return written(
            {"type": 3, "ColumnStatsMetadata": {**content, **counts, "isDeleted": False, "isTightBound": True}}
        )

    def wrapped(name: str, value: Any) -> Any:
        return (f"{model}{name}Wrapper", {"value": value})

    flat = [
        stats(wrapped("Int", 1), wrapped("Int", 2), {"typeOrdinal": 3, "additionalInfo": None}),
        stats(None, None, {"typeOrdinal": 1, "additionalInfo": None}),
        stats(wrapped("Float", 1.5), wrapped("Double", 2.5)),
        stats(wrapped("String", "ä"), wrapped("String", "z")),
        stats(wrapped("Bytes", b"\xff\x00"), wrapped("Bytes", b"\x01"), {"typeOrdinal": 10, "additionalInfo": "5,1"}),
        b"",
    ]
    array = stats((f"{model}ArrayWrapper", {"wrappedValues": [wrapped("Int", 1), None]}), wrapped("Int", 9))
    keys = [str(n).encode() for n in range(len(flat) + 1)]
    fast = column_statistics(pa.array(keys[:-1]), pa.array(flat), newest_schema())
    slow = column_statistics(pa.array(keys), pa.array([*flat, array]), newest_schema())
    assert fast.equals(slow.slice(0, len(flat)))
    assert fast["min_long"].to_pylist() == [1, None, None, None, None, None]
    assert fast["max_double"].to_pylist() == [None, None, 2.5, None, None, None]
    assert fast["is_deleted"].to_pylist() == [False] * 5 + [True]
    typed = list(dict(decode_records(zip(keys, [*flat, array], strict=True), newest_schema())).values())
    assert [(stat.min, stat.max) for stat in typed[:5]] == [  # type: ignore[union-attr]
        (1, 2),
        (None, None),
        (1.5, 2.5),
        ("ä", "z"),
        (Decimal("-25.6"), Decimal("0.1")),
    ]
    assert typed[6].min == (1, None)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("raw", "wrapper", "ordinal", "value"),
    [
        (86_400_000, "IntWrapper", ValueType.TIME_MILLIS, datetime.time(23, 59, 59, 999999)),
        (61_000_001, "LongWrapper", ValueType.TIME_MICROS, datetime.time(0, 1, 1, 1)),
        (
            -1,
            "LongWrapper",
            ValueType.TIMESTAMP_MILLIS,
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, datetime.timezone.utc),
        ),
        (5, "LongWrapper", ValueType.LOCAL_TIMESTAMP_MICROS, datetime.datetime(1970, 1, 1, 0, 0, 0, 5)),
        (1, "LongWrapper", ValueType.LOCAL_TIMESTAMP_NANOS, datetime.datetime(1970, 1, 1)),
        (10**18, "LongWrapper", ValueType.LOCAL_TIMESTAMP_MILLIS, datetime.datetime.max),
        (-(10**9), "IntWrapper", ValueType.DATE, datetime.date.min),
        (3, "LongWrapper", 99, 3),
        (3, "TimestampMicrosWrapper", None, datetime.datetime(1970, 1, 1, 0, 0, 0, 3, datetime.timezone.utc)),
        (1, "LocalDateWrapper", ValueType.V1, datetime.date(1970, 1, 2)),
        (b"\x03\x8d\x7e\xa4\xc6\x80\x00", "DecimalWrapper", None, Decimal(1)),
        (True, "BooleanWrapper", None, True),
    ],
)
def test_values_by_wrapper_and_value_type(raw: Any, wrapper: str, ordinal: int | None, value: Any) -> None:
    assert stat_value(raw, wrapper, ordinal, None) == value


def test_upper_bound_in_nanoseconds_is_rounded_up() -> None:
    assert stat_value(1, "LongWrapper", ValueType.LOCAL_TIMESTAMP_NANOS, None, upper=True) == datetime.datetime(
        1970, 1, 1, 0, 0, 0, 1
    )


listings = st.dictionaries(
    st.sampled_from("abcd"), st.builds(ListedFile, st.integers(1, 9), st.booleans()), max_size=4
).map(FileListing)


@given(listings, listings)
def test_listing_after_a_merge_holds_what_came_and_not_what_went(older: FileListing, newer: FileListing) -> None:
    result = merge_listings(older, newer)
    for name in {*older.files, *newer.files}:
        old, new = older.files.get(name), newer.files.get(name)
        if new is None:
            assert result.files[name] == old
        elif new.deleted:
            assert name not in result.present
            assert (name in result.files) == (old is None or old.deleted)
        else:
            assert result.present[name] == max(new.size, old.size if old else 0)


def stats(low: Any, high: Any, **more: Any) -> ColumnStats:
    return ColumnStats("f", "c", low, high, 10, 1, 100, 200, **more)


def test_column_stats_unite_unless_the_newer_are_tight_or_either_is_deleted() -> None:
    both = merge_column_stats(stats(3, 5), stats(1, 4))
    assert (both.min, both.max, both.value_count, both.null_count, both.total_size) == (1, 5, 20, 2, 200)
    assert merge_column_stats(stats(3, 5), stats(4, 4, is_tight=True)) == stats(4, 4, is_tight=True)
    gone = stats(None, None, is_deleted=True)
    assert merge_column_stats(stats(3, 5), gone) == gone
    assert merge_column_stats(gone, stats(3, 5)) == stats(3, 5)
    assert live(merge(stats(3, 5), gone)) is None


def test_nan_is_above_all_numbers() -> None:
    nan = float("nan")
    for older, newer in ((stats(3.0, 5.0), stats(nan, nan)), (stats(nan, nan), stats(3.0, 5.0))):
        both = merge_column_stats(older, newer)
        assert both.min == 3.0
        assert both.max != both.max


def test_bounds_without_a_common_order_are_unknown_for_good() -> None:
    mixed = merge_column_stats(stats(3, 5), stats("a", "b"))
    assert (mixed.min, mixed.max, mixed.value_count) == (None, None, None)
    assert merge_column_stats(mixed, stats("c", "d")).min is None
    assert merge_column_stats(stats("c", "d"), mixed).min is None


def test_deleted_records_are_replaced_and_other_kinds_refused() -> None:
    location = RecordLocation("p", "f", 1)
    assert merge(Tombstone(), location) == location
    assert merge(None, location) == location
    assert live(merge(location, Tombstone())) is None
    with pytest.raises(CorruptFile, match="RecordLocation and a FileListing"):
        merge(location, FileListing({}))


def test_damaged_values_raise_only_errors_of_ours() -> None:
    chance = random.Random(5)
    for partition, file, schema in list(hfiles("hudi/sample_cow_v9_txns_nonpart_meta"))[::4]:
        entries = list(file.scan())
        for _ in range(6):
            bad = []
            for key, value in entries[:20]:
                changed = bytearray(value)
                for _ in range(chance.choice([0, 1, 3])):
                    changed[chance.randrange(len(changed))] = chance.randrange(256)
                bad.append((key, bytes(changed[: chance.choice([len(changed), len(changed) - 1])])))
            attempt(lambda rows=bad, with_=schema: list(decode_records(rows, with_)))  # type: ignore[misc]
            keys, values = (pa.array(column, pa.binary()) for column in zip(*bad, strict=True)) if bad else (None, None)
            if keys is not None and partition in ("column_stats", "partition_stats"):
                attempt(lambda k=keys, v=values, s=schema: column_statistics(k, v, s))  # type: ignore[misc]
            elif keys is not None and partition == "record_index":
                attempt(lambda k=keys, v=values, s=schema: record_locations(k, v, s))  # type: ignore[misc]


def attempt(call: Any) -> None:
    try:
        call()
    except HeadwaterError:
        return


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=1, max_size=60))
def test_random_values_raise_only_errors_of_ours(value: bytes) -> None:
    attempt(lambda: decode_record("k$k", value, parsed_schema(newest_schema())))
    attempt(lambda: column_statistics(pa.array([b"k"]), pa.array([value]), newest_schema()))
    attempt(lambda: record_locations(pa.array([b"k"]), pa.array([value]), newest_schema()))


def test_broken_schemas_keys_and_types_are_named() -> None:
    with pytest.raises(CorruptFile, match=r"x\.hfile: its Avro schema"):
        list(decode_records([(b"k", b"v")], "{", name="x.hfile"))
    with pytest.raises(CorruptFile, match="not UTF-8"):
        list(decode_records([(b"\xff", b"v")], newest_schema()))
    with pytest.raises(CorruptFile, match="not UTF-8"):
        record_locations(pa.array([b"\xff"]), pa.array([b"v"]), newest_schema())
    with pytest.raises(UnsupportedTable, match="type 42"):
        decode_record("k", written({"type": 42}), parsed_schema(newest_schema()))
    with pytest.raises(CorruptFile, match="not that of a record"):
        decode_record("k", b"\x02", parsed_schema(json.dumps("int")))


def test_decoding_nothing_gives_empty_tables() -> None:
    none = pa.array([], pa.binary())
    assert record_locations(none, none, newest_schema()).num_rows == 0
    assert column_statistics(none, none, newest_schema()).num_rows == 0
    assert np.array_equal(column_statistics(none, none, newest_schema()).schema.names, columns.STATISTICS.names)
