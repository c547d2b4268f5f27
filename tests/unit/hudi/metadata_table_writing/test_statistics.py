"""Statistics of files and partitions: never less than is there, and as Hudi's readers take it right."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.hudi.metadata_table import records
from headwater.hudi.metadata_table.changes import UNKNOWN, Changes, united_range
from headwater.hudi.metadata_table.encoding import encode, statistics_record
from headwater.hudi.metadata_table.record_schema import record_schema
from headwater.hudi.metadata_table.statistics import kept_columns, statistics_content
from headwater.hudi.write.model import ColumnRange, WrittenFile

VALUES: list[tuple[pa.DataType, Any, Any]] = [
    (pa.bool_(), False, True),
    (pa.int32(), -5, 7),
    (pa.int64(), -(2**60), 2**60),
    (pa.float32(), -1.5, 2.5),
    (pa.float64(), -1.5, 2.5),
    (pa.string(), "a", "ü"),
    (pa.binary(), b"a", b"\xff"),
    (pa.date32(), datetime.date(1969, 1, 1), datetime.date(2024, 2, 29)),
    (pa.decimal128(12, 3), Decimal("-1.500"), Decimal("12.345")),
]


def decoded(content: dict[str, Any], version: int) -> records.ColumnStats:
    value = encode(statistics_record(content), record_schema(version))
    found = records.decode_record("k", value, records.parsed_schema(record_schema(version)))
    assert isinstance(found, records.ColumnStats)
    return found


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(("kind", "low", "high"), VALUES, ids=[str(kind) for kind, *_ in VALUES])
def test_bounds_are_read_as_they_were_written(version: int, kind: pa.DataType, low: Any, high: Any) -> None:
    content = statistics_content(ColumnRange("c", low, high, 1, 9), kind, "f", version)
    assert content is not None
    found = decoded(content, version)
    assert (found.min, found.max, found.null_count, found.value_count) == (low, high, 1, 9)


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_keep_their_unit(unit: str, zone: str | None) -> None:
    when = datetime.datetime(2024, 1, 2, 3, 4, 5, 678000)
    kind = pa.timestamp(unit, zone)
    new = decoded(statistics_content(ColumnRange("c", when, when, 0, 1), kind, "f", 9) or {}, 9)
    assert isinstance(new.min, datetime.datetime)
    assert new.min.replace(tzinfo=None) == when
    assert (new.min.tzinfo is None) == (zone is None)
    old = decoded(statistics_content(ColumnRange("c", when, when, 0, 1), kind, "f", 8) or {}, 8)
    assert old.min == pa.scalar(when, pa.timestamp(unit)).value


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(("kind", "low", "high"), VALUES, ids=[str(kind) for kind, *_ in VALUES])
def test_partition_of_which_nothing_is_known_holds_every_value(
    version: int, kind: pa.DataType, low: Any, high: Any
) -> None:
    content = statistics_content(ColumnRange("c", None, None, 0, 9), kind, "p", version, of_partition=True)
    assert content is not None
    found = decoded(content, version)
    assert found.min <= low  # type: ignore[operator]
    assert found.max >= high  # type: ignore[operator]


def test_bound_of_another_type_than_the_column_says_nothing() -> None:
    """A column that was a number when the file was written has another order as a text."""
    assert statistics_content(ColumnRange("c", 1, 5, 0, 9), pa.string(), "f", 9) is None
    assert statistics_content(ColumnRange("c", "1", "5", 0, 9), pa.int32(), "f", 9) is None
    assert statistics_content(ColumnRange("c", True, True, 0, 9), pa.int32(), "f", 9) is None
    too_fine = Decimal("0.0000000000000001")
    assert statistics_content(ColumnRange("c", too_fine, too_fine, 0, 1), pa.decimal128(38, 16), "f", 8) is None


def test_file_with_nan_has_no_statistics_and_its_partition_has_no_end() -> None:
    column = ColumnRange("c", 1.0, math.nan, 0, 9)
    assert statistics_content(column, pa.float64(), "f", 9) is None
    whole = statistics_content(column, pa.float64(), "p", 9, of_partition=True)
    assert whole is not None
    assert whole["maxValue"][1] == {"value": math.inf}


def test_file_has_statistics_of_all_columns_or_of_none() -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    known, vague = ColumnRange("a", 1, 2, 0, 9), ColumnRange("b", None, None, 0, 9)

    def entries(*ranges: ColumnRange, **more: Any) -> int:
        file = WrittenFile("p", "f", "f_0-0-0_1.parquet", 1, 9, ranges=ranges, **more)
        return len(Changes("1", [file], {}, {}, schema).statistics(9, ["a", "b"]))

    assert entries(known, ColumnRange("b", "x", "y", 0, 9)) == 2
    assert entries(known, vague) == 0
    assert entries(known) == 0
    assert entries() == 0
    assert entries(is_log=True, deleted=9) == 2  # a log of deletes has no rows


def test_unknown_stays_unknown() -> None:
    known = ColumnRange("a", 1, 2, 0, 9)
    for whole in (united_range(UNKNOWN, known), united_range(known, UNKNOWN)):
        assert (whole.minimum, whole.maximum) == (None, None)
        assert 0 < whole.null_count < whole.value_count
    nulls = ColumnRange("a", None, None, 5, 5)
    assert united_range(nulls, known).minimum == 1
    mixed = united_range(known, ColumnRange("a", "x", "y", 0, 9))
    assert (mixed.minimum, mixed.maximum) == (None, None)


def test_columns_without_an_order_are_not_kept() -> None:
    schema = pa.schema(
        [("a", pa.int32()), ("m", pa.map_(pa.string(), pa.string())), ("n", pa.null()), ("t", pa.timestamp("ns"))]
    )
    assert list(kept_columns(schema, None, 9)) == ["a"]
    assert list(kept_columns(schema, ["m", "a", "gone"], 9)) == ["a"]
