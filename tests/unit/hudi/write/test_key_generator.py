"""Keys and partition paths made from columns, against those that Hudi stored beside them."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import places

from headwater.errors import ColumnNotFound, InvalidTableConfig, UnsupportedTable, WriteRefused
from headwater.hudi.keys import unescape
from headwater.hudi.properties import TableConfig, check_config
from headwater.hudi.table import HudiTable
from headwater.hudi.write.joda import Moment, Pattern
from headwater.hudi.write.key_generator import KeyMaker, auto_keys, escape, key_text, names_single_key
from headwater.hudi.write.partition_time import PartitionTime
from headwater.storage import Storage

TIME = "hoodie.keygen.timebased."
TABLES: dict[str, dict[str, str]] = {
    "generated/idx_stats_mor_v9_120": {},
    "generated/kg_complex1_mor_v6_0150": {},
    "generated/kg_complex2_mor_v9_120": {},
    "generated/kg_enc2_hive_mor_v6_0150": {},
    "generated/kg_noenc_mor_v9_120": {},
    "generated/kg_plain2_mor_v9_120": {},
    "generated/kg_urlenc_cow_v9_120": {},
    "generated/kg_urlenc_hive_mor_v9_120": {},
    "generated/kg_ts_col_cow_v9_120": {},
    "generated/kg_ts_datestr_mor_v6_0150": {},
    "generated/kg_ts_datestr_mor_v9_120": {},
    "generated/kg_ts_ms_slash_mor_v6_0150": {},
    "generated/kg_ts_scalar_days_mor_v9_120": {},
    "generated/kg_ts_unix_hour_mor_v9_120": {},
    "generated/kg_custom_two_cow_v6_0150": {
        "hoodie.datasource.write.partitionpath.field": "city:SIMPLE,n:SIMPLE,ev:TIMESTAMP",
        f"{TIME}timestamp.type": "UNIX_TIMESTAMP",
        f"{TIME}output.dateformat": "yyyy",
    },
    "generated/kg_customstr_cow_v9_120": {
        f"{TIME}timestamp.type": "DATE_STRING",
        f"{TIME}input.dateformat": "yyyy-MM-dd HH:mm:ss,yyyy-MM-dd",
        f"{TIME}output.dateformat": "yyyy-MM-dd",
    },
    "hudi/sample_cow_v6_complexkeygen_hivestyle": {},
    "hudi/sample_cow_v9_txns_complex_meta": {},
    "hudi/sample_cow_v9_timebasedkeygen_nonhivestyle": {},
}


def rows_of(table: HudiTable) -> pa.Table:
    reader = table.reader(table.schema)
    slices = [slice_ for found in table.file_index().list_files_at() for slice_ in found.slices]
    return pa.concat_tables([pa.Table.from_batches([batch]) for slice_ in slices for batch in reader.open(slice_)])


@pytest.mark.parametrize("name", TABLES)
def test_keys_and_paths_are_those_that_hudi_stored(name: str, tmp_path: Path) -> None:
    table = HudiTable.open(Storage.at(places.unpack(name, tmp_path)))
    rows = rows_of(table)
    maker = KeyMaker.of_table(table, TABLES[name])
    assert maker.keys(rows).to_pylist() == rows.column("_hoodie_record_key").to_pylist()
    assert maker.partitions(rows).to_pylist() == rows.column("_hoodie_partition_path").to_pylist()


def config(**properties: str) -> TableConfig:
    names = {name.replace("__", "."): value for name, value in properties.items()}
    return check_config({"hoodie.table.name": "t", "hoodie.table.version": "9", **names}, "here")


def maker(key: str, partition: str = "", options: Any = None, **more: Any) -> KeyMaker:
    fields = {"hoodie.table.recordkey.fields": key, "hoodie.table.partition.fields": partition}
    stored = {f"hoodie.{name}": value for name, value in more.items()}
    return KeyMaker.of(config(**{k: v for k, v in fields.items() if v}, **stored), options)


def test_a_simple_key_is_the_value() -> None:
    assert maker("id", "city").keys(pa.table({"id": [1, 2]})).to_pylist() == ["1", "2"]


def test_several_key_fields_are_named_and_holes_are_marked() -> None:
    rows = pa.table({"a": [1, None, 3], "b": ["x", "y", ""]})
    assert maker("a,b").keys(rows).to_pylist() == ["a:1,b:x", "a:__null__,b:y", "a:3,b:__empty__"]


def test_a_complex_key_of_one_field_is_named_unless_the_option_says_otherwise() -> None:
    rows = pa.table({"id": [1]})
    complex_ = {"table.keygenerator.type": "COMPLEX"}
    assert maker("id", "a,b", **complex_).keys(rows).to_pylist() == ["id:1"]
    new = {"hoodie.write.complex.keygen.new.encoding": "true"}
    assert maker("id", "a,b", new, **complex_).keys(rows).to_pylist() == ["id:1"], "version 9 has one encoding"
    assert maker("id", "a,b", new, **complex_, **{"table.version": "8"}).keys(rows).to_pylist() == ["1"]
    assert maker("id", "a,b", **complex_, **{"table.version": "6"}).keys(rows).to_pylist() == ["id:1"]


def test_the_tables_own_keys_tell_how_a_single_field_is_spelled(tmp_path: Path) -> None:
    table = HudiTable.open(Storage.at(places.unpack("generated/kg_complex1_mor_v6_0150", tmp_path)))
    assert names_single_key(table) is False
    assert KeyMaker.of(table.config).names_single_key, "what the properties alone would say"
    assert not KeyMaker.of_table(table).names_single_key
    told = {"hoodie.write.complex.keygen.new.encoding": "false"}
    assert KeyMaker.of_table(table, told).names_single_key


def test_rows_without_a_key_are_refused() -> None:
    with pytest.raises(WriteRefused, match="2 of 3 rows have no record key"):
        maker("id").keys(pa.table({"id": ["", None, "a"]}))
    with pytest.raises(WriteRefused, match="1 of 2 rows"):
        maker("a,b").keys(pa.table({"a": [None, "x"], "b": ["", ""]}))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ColumnNotFound, match="no record key column 'id' in the rows; they have: x"):
        maker("id").keys(pa.table({"x": [1]}))
    with pytest.raises(ColumnNotFound, match="partition column 'city'"):
        maker("id", "city").partitions(pa.table({"id": [1]}))


def test_fields_within_structs_can_be_keys() -> None:
    rows = pa.table({"a": [{"b": {"c": 5}}]})
    assert maker("a.b.c").keys(rows).to_pylist() == ["5"]


def test_values_are_spelled_as_java_spells_them() -> None:
    rows = {
        "double": pa.array([1e7]),
        "float": pa.array([0.1], pa.float32()),
        "bool": pa.array([True]),
        "day": pa.array([dt.date(2026, 1, 2)]),
        "at": pa.array([dt.datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us", "UTC")),
        "small": pa.array([decimal.Decimal("1E-10")], pa.decimal128(38, 10)),
        "dictionary": pa.array(["x"]).dictionary_encode(),
    }
    found = {name: key_text(column, name)[0].as_py() for name, column in rows.items()}
    assert found == {
        "double": "1.0E7",
        "float": "0.1",
        "bool": "true",
        "day": "2026-01-02",
        "at": "1000000",
        "small": "1E-10",
        "dictionary": "x",
    }
    with pytest.raises(UnsupportedTable, match="column 'b' of type binary"):
        key_text(pa.array([b"x"]), "b")


def test_null_and_empty_partition_values_share_a_folder() -> None:
    rows = pa.table({"city": ["sf", None, ""], "n": [1, 2, None]})
    default = "__HIVE_DEFAULT_PARTITION__"
    assert maker("id", "city").partitions(rows).to_pylist() == ["sf", default, default]
    hive = maker("id", "city,n", **{"datasource.write.hive_style_partitioning": "true"})
    assert hive.partitions(rows).to_pylist() == ["city=sf/n=1", f"city={default}/n=2", f"city={default}/n={default}"]


def test_tables_without_partitions_have_one_empty_path() -> None:
    assert maker("id").partitions(pa.table({"id": [1, 2]})).to_pylist() == ["", ""]


def test_dates_may_be_folders_within_folders() -> None:
    slashed = maker("id", "day", **{"datasource.write.slash.separated.date.partitioning": "true"})
    assert slashed.partitions(pa.table({"day": ["2026-01-02", "-5"]})).to_pylist() == ["2026/01/02", "-5"]


@pytest.mark.parametrize("value", ["..", "a/../b", "/a", "a//b", "a/", ".", ".hoodie", ".hoodie/metadata"])
def test_paths_that_leave_their_place_are_refused(value: str) -> None:
    with pytest.raises(WriteRefused, match="is no folder of its own"):
        maker("id", "city").partitions(pa.table({"city": [value]}))


@given(st.text(min_size=1, max_size=20))
def test_escaped_values_come_back_and_hold_no_slash(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    assert not set(escaped) & set("\"#'*/:=?\\{[]^\x00\x1f\x7f")


def test_made_up_keys_have_the_shape_of_hudis() -> None:
    assert auto_keys("20260101000000000", 2, task=1, first_row=5).to_pylist() == [
        "20260101000000000_1_5",
        "20260101000000000_1_6",
    ]


def test_unknown_generators_are_refused() -> None:
    with pytest.raises(UnsupportedTable, match=r"made by com\.example\.Mine"):
        maker("id", **{"table.keygenerator.class": "com.example.Mine"})


def test_custom_partitions_that_no_property_tells_are_refused() -> None:
    with pytest.raises(InvalidTableConfig, match="city:SIMPLE,ev:SIMPLE"):
        maker("id", "city,ev", **{"table.keygenerator.type": "CUSTOM"})


# Times


def times(kind: str, output: str, **more: str) -> PartitionTime:
    given = {f"{TIME}timestamp.type": kind, f"{TIME}output.dateformat": output}
    return PartitionTime.of({**given, **{TIME + name.replace("_", "."): value for name, value in more.items()}})


@pytest.mark.parametrize(
    ("kind", "unit", "value", "text"),
    [
        ("UNIX_TIMESTAMP", "", 1_700_000_000, "2023-11-14 22:13"),
        ("EPOCHMILLISECONDS", "", 1_700_000_000_999, "2023-11-14 22:13"),
        ("EPOCHMICROSECONDS", "", 1_700_000_000_999_999, "2023-11-14 22:13"),
        ("SCALAR", "DAYS", 20_000, "2024-10-04 00:00"),
        ("SCALAR", "HOURS", 5, "1970-01-01 05:00"),
        ("SCALAR", "NANOSECONDS", -1, "1970-01-01 00:00"),
        ("UNIX_TIMESTAMP", "", -1, "1969-12-31 23:59"),
        ("UNIX_TIMESTAMP", "", None, "1970-01-01 00:00"),
        ("EPOCHMILLISECONDS", "", 1_704_114_062_345_678, "55971-03-24 09:19"),
    ],
)
def test_numbers_are_times_of_a_unit(kind: str, unit: str, value: int | None, text: str) -> None:
    more = {"timestamp_scalar_time_unit": unit} if unit else {}
    made = times(kind, "yyyy-MM-dd HH:mm", timezone="UTC", **more)
    assert made.texts(pa.array([value], pa.int64())).to_pylist() == [text]


def test_times_are_written_in_their_zone() -> None:
    made = times("UNIX_TIMESTAMP", "yyyyMMddHH", output_timezone="America/New_York")
    assert made.texts(pa.array([1_700_000_000, 1_690_000_000])).to_pylist() == ["2023111417", "2023072200"]
    assert times("UNIX_TIMESTAMP", "HH", timezone="GMT+8:00").texts(pa.array([0])).to_pylist() == ["08"]
    with pytest.raises(InvalidTableConfig, match="timezone=Mars"):
        times("UNIX_TIMESTAMP", "HH", timezone="Mars")


def test_dates_of_several_forms_are_read() -> None:
    forms = "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd'T'HH:mm:ss.SSSZ,dd MMM yy"
    made = times("DATE_STRING", "yyyy-MM-dd HH", input_dateformat=forms, output_timezone="UTC", input_timezone="UTC")
    texts = ["2024-01-01T23:00:00-02:00", "2024-01-01T13:01:02.345Z", "05 Mar 24", None]
    found = made.texts(pa.array(texts)).to_pylist()
    assert found == ["2024-01-02 01", "2024-01-01 13", "2024-03-05 00", "1970-01-01 00"]
    with pytest.raises(WriteRefused, match="'nonsense' cannot be read"):
        made.texts(pa.array(["nonsense"]))


def test_without_a_zone_for_the_path_the_dates_own_stays() -> None:
    made = times("DATE_STRING", "yyyy-MM-dd HH", input_dateformat="yyyy-MM-dd'T'HH:mm:ssZ")
    assert made.texts(pa.array(["2024-01-01T23:00:00-02:00"])).to_pylist() == ["2024-01-01 23"]


def test_what_is_missing_or_unknown_is_named() -> None:
    for told, says in (
        ({}, r"timestamp\.type is not known"),
        ({"timestamp.type": "X", "output.dateformat": "yyyy"}, "timestamp.type=X"),
        ({"timestamp.type": "SCALAR", "output.dateformat": "yyyy", "timestamp.scalar.time.unit": "WEEKS"}, "WEEKS"),
        ({"timestamp.type": "DATE_STRING", "output.dateformat": "yyyy"}, r"input\.dateformat is missing"),
    ):
        with pytest.raises(InvalidTableConfig, match=says):
            PartitionTime.of({TIME + name: value for name, value in told.items()})
    with pytest.raises(UnsupportedTable, match="texts"):
        times("DATE_STRING", "yyyy", input_dateformat="yyyy").texts(pa.array([1]))
    with pytest.raises(UnsupportedTable, match="numbers"):
        times("UNIX_TIMESTAMP", "yyyy").texts(pa.array(["1"]))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy/MM/dd", "2024/02/03"),
        ("yy-M-d", "24-2-3"),
        ("'year='yyyy'/month='MM", "year=2024/month=02"),
        ("EEE d MMM yyyy", "Sat 3 Feb 2024"),
        ("EEEE MMMM", "Saturday February"),
        ("hh:mm:ss.SSS a", "04:05:06.789 PM"),
        ("KK kk", "04 16"),
        ("DDD xxxx-'W'ww-e", "034 2024-W05-6"),
        ("HH 'o''clock' Z ZZ", "16 o'clock +0000 +00:00"),
    ],
)
def test_patterns_write_what_joda_writes(pattern: str, text: str) -> None:
    moment = Moment(dt.datetime(2024, 2, 3, 16, 5, 6, 789_000, dt.timezone.utc))
    assert Pattern(pattern).format(moment) == text


def test_letters_that_are_not_known_are_refused() -> None:
    for bad in ("QQ", "yyyy'"):
        with pytest.raises(InvalidTableConfig, match="date pattern"):
            Pattern(bad).format(Moment(dt.datetime(2024, 2, 3)))


@given(st.datetimes(dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 30)))
def test_a_written_time_is_read_back(time: dt.datetime) -> None:
    time = time.replace(microsecond=time.microsecond // 1000 * 1000, tzinfo=dt.timezone.utc)
    for text in ("yyyyMMddHHmmssSSSZ", "yyyy-MM-dd'T'HH:mm:ss.SSSZZ", "d MMMM yyyy hh:mm:ss.SSS a Z"):
        pattern = Pattern(text)
        assert pattern.parse(pattern.format(Moment(time))) == time
