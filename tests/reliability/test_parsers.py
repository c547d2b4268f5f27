"""Parsers of names and texts: whatever they are given, they give a value or an error of ours."""

from __future__ import annotations

import contextlib
import re
import string
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import HeadwaterError, InvalidArgument
from headwater.hudi.file_names import parse_base_file, parse_log_file
from headwater.hudi.index.bucket import bucket_of_file_id, key_values
from headwater.hudi.keys import describe_partition, unescape
from headwater.hudi.merge import merge_rules
from headwater.hudi.properties import check_config, parse_java_properties
from headwater.hudi.timeline import as_instant_text
from headwater.hudi.timeline.instants import KNOWN_ACTIONS, format_instant, parse_timeline_file
from headwater.pipeline import parse_memory
from headwater.spec.expressions import bind, to_expression
from headwater.storage import FileEntry

# Other tests share the machine.
CALM = settings(deadline=None)
TEXT = st.text(max_size=60)
PROPERTY_TEXT = st.text(st.sampled_from("ab=: \\\t\f#!u0éñ,\r\n"), max_size=40)
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32()), ("price", pa.decimal128(8, 2))])


def pieces(letters: str, *words: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from([*letters, *words]), max_size=40).map("".join)


def written(text: str, *, key: bool) -> str:
    """A text as Java's Properties.store writes it."""
    special = {
        "\\": "\\\\",
        "\t": "\\t",
        "\n": "\\n",
        "\r": "\\r",
        "\f": "\\f",
        "=": "\\=",
        ":": "\\:",
        "#": "\\#",
        "!": "\\!",
    }
    out = []
    for at, char in enumerate(text):
        if char == " ":
            out.append("\\ " if key or at == 0 else " ")
        elif char in special:
            out.append(special[char])
        elif " " < char < "\x7f":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)]
    return "".join(out)


@CALM
@given(st.dictionaries(PROPERTY_TEXT, PROPERTY_TEXT, max_size=6), st.sampled_from(["\n", "\r\n", "\r"]))
def test_properties_that_java_wrote_come_back(pairs: dict[str, str], end: str) -> None:
    lines = [f"{written(key, key=True)}={written(value, key=False)}" for key, value in pairs.items()]
    assert parse_java_properties("#comment" + end + end.join(lines)) == pairs


@CALM
@given(st.one_of(st.text(), PROPERTY_TEXT))
@example("\\")
@example("a\\\n")
@example("a=\\u12")
def test_any_text_is_some_properties(text: str) -> None:
    found = parse_java_properties(text)
    assert all(isinstance(part, str) for pair in found.items() for part in pair)


KEYS = st.sampled_from(
    [
        "hoodie.table.name",
        "hoodie.table.version",
        "hoodie.table.type",
        "hoodie.timeline.layout.version",
        "hoodie.table.base.file.format",
        "hoodie.table.ordering.fields",
        "hoodie.table.partition.fields",
        "hoodie.table.keygenerator.type",
        "hoodie.table.keygenerator.class",
        "hoodie.record.merge.mode",
        "hoodie.table.partial.update.mode",
        "hoodie.table.cdc.supplemental.logging.mode",
        "hoodie.populate.meta.fields",
        "hoodie.table.timeline.timezone",
        "hoodie.compaction.payload.class",
        "hoodie.payload.delete.field",
        "hoodie.table.checksum",
    ]
)


@CALM
@given(st.dictionaries(KEYS, st.one_of(TEXT, st.sampled_from(["6", "9", "true", "UTC", "CUSTOM", "NONE", "²", "٣"]))))
@example({"hoodie.table.version": "²", "hoodie.table.name": "t"})
@example({"hoodie.table.version": "٩", "hoodie.table.name": "t"})
def test_any_configuration_is_typed_or_refused(values: dict[str, str]) -> None:
    try:
        config = check_config(values, "here/hoodie.properties")
        merge_rules(config)
    except HeadwaterError as error:
        assert str(error).startswith(("here/hoodie.properties", "table "))  # noqa: PT017
    else:
        assert config.version in (6, 8, 9)


INSTANT = st.from_regex(r"[0-9]{14,17}", fullmatch=True)


@CALM
@given(
    INSTANT,
    st.none() | INSTANT,
    st.sampled_from(sorted(KNOWN_ACTIONS)),
    st.sampled_from(["", ".requested", ".inflight"]),
)
def test_names_of_timeline_files_are_understood(requested: str, completed: str | None, action: str, state: str) -> None:
    stem = requested if completed is None else f"{requested}_{completed}"
    found = parse_timeline_file(FileEntry(f".hoodie/{stem}.{action}{state}", 1, 0), in_utc=True)
    assert found is not None
    assert (found.requested_at, found.action, found.state.value) == (requested, action, state[1:] or "completed")
    if not state:
        assert found.completed_at == completed or found.completed_at == max(requested, "19700101000000000")


@CALM
@given(st.one_of(TEXT, st.from_regex(r"\d{1,20}(_\d+)?\.[a-z]{1,9}(\.[a-z]{1,9})?")), st.integers(0, 2**62))
def test_any_name_is_a_timeline_file_or_none(name: str, modified_at: int) -> None:
    try:
        parse_timeline_file(FileEntry(f".hoodie/{name}", 1, modified_at), in_utc=True)
    except HeadwaterError as error:
        pytest.fail(f"a listing must not fail over a name: {error}")


FILE_ID = st.from_regex(r"[0-9a-f]{8}-[0-9a-f]{4}-0", fullmatch=True)
TOKEN = st.from_regex(r"[0-9]{1,4}-[0-9]{1,4}-[0-9]{1,4}", fullmatch=True)


@CALM
@given(FILE_ID, TOKEN, INSTANT, st.sampled_from(["parquet", "orc", "hfile", "lance"]))
def test_names_of_base_files_are_understood(file_id: str, token: str, instant: str, extension: str) -> None:
    found = parse_base_file(f"{file_id}_{token}_{instant}.{extension}")
    assert found is not None
    assert (found.file_id, found.write_token, found.instant, found.extension) == (file_id, token, instant, extension)


@CALM
@given(FILE_ID, INSTANT, st.integers(0, 10**9), st.none() | TOKEN, st.booleans())
def test_names_of_log_files_are_understood(
    file_id: str, instant: str, version: int, token: str | None, cdc: bool
) -> None:
    name = f".{file_id}_{instant}.log.{version}" + (f"_{token}" if token else "") + (".cdc" if cdc else "")
    found = parse_log_file(name)
    assert found is not None
    assert (found.file_id, found.instant, found.version, found.write_token, found.is_cdc) == (
        (file_id, instant, version, token or "", cdc)
    )


@CALM
@given(pieces("._-ab019²٣/ \n", "log", ".log.", "parquet"))
def test_any_name_is_a_data_file_or_none(name: str) -> None:
    base, log = parse_base_file(name), parse_log_file(name)
    assert base is None or log is None
    bucket_of_file_id(name)


@CALM
@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)))
def test_datetimes_become_instants_and_keep_their_order(when: datetime) -> None:
    text = as_instant_text(when, in_utc=True)
    assert re.fullmatch(r"\d{17}", text)
    assert text == as_instant_text(when.isoformat(sep=" ", timespec="milliseconds"), in_utc=True)
    assert as_instant_text(when.date(), in_utc=True) <= text


@CALM
@given(
    st.datetimes(datetime(1972, 1, 1), datetime(9000, 1, 1)),
    st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_times_with_a_zone_are_the_same_instant_in_every_zone(when: datetime, zone: timezone) -> None:
    aware = when.replace(tzinfo=timezone.utc, microsecond=0)
    elsewhere = aware.astimezone(zone)
    assert as_instant_text(aware, in_utc=True) == as_instant_text(elsewhere, in_utc=True)
    assert as_instant_text(aware, in_utc=True) == as_instant_text(elsewhere.isoformat(), in_utc=True)


@CALM
@given(
    st.one_of(
        TEXT, st.text(st.sampled_from(string.digits + "-:. TZ+²٣"), max_size=30), st.integers(), st.floats(), st.none()
    )
)
@example("0001-01-01T00:00:00+14:00")
@example("9999-12-31T23:59:59-14:00")
@example("2026-01-01T00:00:00+99:99")
@example("²" * 17)
@example(b"2026-01-01")
def test_any_time_is_an_instant_or_refused(when: Any) -> None:
    for in_utc in (True, False):
        try:
            text = as_instant_text(when, in_utc=in_utc)
        except InvalidArgument as error:
            assert "is no point in time" in str(error)  # noqa: PT017
        else:
            assert re.fullmatch(r"[0-9]{1,20}", text)


@CALM
@given(st.dates() | st.datetimes(timezones=st.timezones()))
@example(datetime.min.replace(tzinfo=timezone(timedelta(hours=14))))
@example(datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))))
def test_any_date_is_an_instant_or_refused(when: date) -> None:
    for in_utc in (True, False):
        try:
            assert re.fullmatch(r"\d{17}", as_instant_text(when, in_utc=in_utc))
        except InvalidArgument as error:
            assert "is no point in time" in str(error)  # noqa: PT017


@CALM
@given(st.integers(0, 2**62))
def test_any_modification_time_is_an_instant(milliseconds: int) -> None:
    assert re.fullmatch(r"\d{17}", format_instant(milliseconds, in_utc=True))


@CALM
@given(
    st.integers(0, 10**6),
    st.sampled_from(["", "B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB"]),
    st.sampled_from(["", " "]),
)
def test_sizes_are_understood(number: int, unit: str, space: str) -> None:
    scale = {
        "": 1,
        "B": 1,
        "KB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
    }
    assert parse_memory(f"{number}{space}{unit.lower()}") == max(number * scale[unit], 16 * 10**6)


@CALM
@given(
    st.one_of(TEXT, st.text(st.sampled_from("0123456789.kmgtibKMGTIB ²٣-e"), max_size=12), st.integers(), st.floats())
)
@example("9" * 400)
@example("9" * 400 + "TB")
@example("٣GB")
def test_any_size_is_bytes_or_refused(memory: Any) -> None:
    try:
        found = parse_memory(memory)
    except InvalidArgument as error:
        assert "memory=" in str(error)  # noqa: PT017
    else:
        assert isinstance(found, int)
        assert found >= 16 * 10**6


@settings(max_examples=300, deadline=None)
@given(
    pieces(
        "()'\"<>=!,.%_`0123456789 -+*²٣\n\0é",
        *(" AND ", " OR ", " NOT ", " IN ", " LIKE ", " IS NULL", "id", "name", "DATE '", "BETWEEN ", "CAST("),
    )
)
@example("(" * 50_000)
@example("NOT " * 50_000 + "id = 1")
@example("id = 1" + " AND id = 1" * 20_000)
@example("id = " + "9" * 5_000)
@example("id = 1e999999")
@example("id IN (" + "1," * 20_000 + "1)")
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    with contextlib.suppress(HeadwaterError):
        bind(to_expression(text), SCHEMA)


@CALM
@given(TEXT, st.sampled_from(["", "dt", "dt,hr"]), st.booleans())
def test_any_partition_path_is_described(path: str, fields: str, hive: bool) -> None:
    values = {"hoodie.table.name": "t", "hoodie.table.version": "9", "hoodie.table.partition.fields": fields}
    config = check_config({**values, "hoodie.datasource.write.hive_style_partitioning": str(hive)}, "here")
    for kind in (pa.string(), pa.int32(), pa.date32(), pa.decimal128(5, 2), pa.timestamp("us"), pa.bool_()):
        describe_partition(config, path, pa.schema([("dt", kind), ("hr", kind)]))
    unescape(path)
    key_values(path)
