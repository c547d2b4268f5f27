"""What the metadata table's statistics may leave out (reader-spec R5, R13), on tables written by Apache Hudi."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.fixtures.suites import table

import headwater
from headwater.hudi.metadata_table.reader import MetadataTable
from headwater.hudi.metadata_table.records import ColumnStats
from headwater.hudi.pruning import SlicePruner

STATISTICS = ["idx_stats_cow_v6_0150", "idx_stats_cow_v8_102", "idx_stats_mor_v9_111", "idx_stats_mor_v9_120"]


@pytest.mark.parametrize("name", STATISTICS)
def test_every_number_of_a_file_with_nan_is_found(name: str) -> None:
    opened = headwater.open(table("generated", name).path())
    floats = [field.name for field in opened.schema if pa.types.is_floating(field.type)]
    for column in floats:
        values = opened.scan(columns=[column]).to_arrow().column(0).to_pylist()
        assert any(value is not None and math.isnan(value) for value in values)
        for value in {value for value in values if value is not None and math.isfinite(value)}:
            for test in (f"{column} = {value!r}D", f"{column} <= {value!r}D", f"{column} >= {value!r}D"):
                with_statistics = opened.scan(filter=test).count()
                assert with_statistics == headwater.open(opened.uri, metadata=False).scan(filter=test).count(), test


@pytest.mark.parametrize(("low", "high", "is_trusted"), [(0.0, 0.0, False), (-1.0, 5.0, False), (0.5, 9.0, True)])
def test_range_of_floats_that_includes_zero_is_not_trusted(low: float, high: float, is_trusted: bool) -> None:
    """All releases note 0.0 to 0.0 for a file with NaN, whatever else is in it, and unite that with other ranges."""
    opened = headwater.open(table("generated", STATISTICS[0]).path())
    column = next(field.name for field in opened.schema if pa.types.is_floating(field.type))
    metadata = opened.hudi.metadata
    assert metadata is not None
    pruner = SlicePruner(opened.hudi.config, opened.hudi.schema, metadata, True)
    stats = ColumnStats("f", column, low, high, 4, 0, 8, 8)
    assert (pruner._convert(stats) is not None) == is_trusted


@pytest.mark.parametrize(("kind", "is_trusted"), [(pa.string(), False), (pa.int32(), True)])
def test_text_that_counts_as_null_throughout_may_have_no_statistics(kind: pa.DataType, is_trusted: bool) -> None:
    """Hudi counts every row of a column chunk without statistics as null, which text may be written as."""
    opened = headwater.open(table("generated", STATISTICS[0]).path())
    column = next(f.name for f in opened.schema if f.type.equals(kind) or (is_trusted and pa.types.is_integer(f.type)))
    metadata = opened.hudi.metadata
    assert metadata is not None
    pruner = SlicePruner(opened.hudi.config, opened.hudi.schema, metadata, True)
    assert (pruner._convert(ColumnStats("f", column, None, None, 4, 4, 8, 8)) is not None) == is_trusted


@pytest.mark.parametrize(
    ("low", "high", "is_trusted"),
    [("1", "10", False), ("", "-2.5E-7", False), ("NaN", "a", False), ("2026-01-01", "2026-01-31", True)],
)
def test_texts_of_numbers_do_not_bound_a_partition(low: str, high: str, is_trusted: bool) -> None:
    """They may be the bounds of files that were written when the column was a number, as texts: not in their order."""
    opened = headwater.open(table("generated", STATISTICS[0]).path())
    column = next(f.name for f in opened.schema if pa.types.is_string(f.type) and not f.name.startswith("_"))
    metadata = opened.hudi.metadata
    assert metadata is not None
    pruner = SlicePruner(opened.hudi.config, opened.hudi.schema, metadata, True)
    stats = ColumnStats("p", column, low, high, 4, 0, 8, 8)
    assert (pruner._convert(stats, united=True) is not None) == is_trusted
    assert pruner._convert(stats) is not None


@pytest.mark.parametrize(
    ("file", "nulls", "united", "is_trusted"),
    [
        ("f_0_1.parquet", 0, False, True),
        ("f_0_1.parquet", 1, False, False),
        ("f_0_1.parquet", None, False, False),
        (".f_1.log.1_0-0-0", 1, False, True),
        ("", 0, True, True),
        ("", 1, True, False),
    ],
)
def test_bounds_of_text_beside_nulls_may_be_those_of_other_row_groups(
    file: str, nulls: int | None, united: bool, is_trusted: bool
) -> None:
    """Rows of a row group whose texts are too long for statistics count as nulls, and its bounds not at all."""
    opened = headwater.open(table("generated", STATISTICS[0]).path())
    column = next(f.name for f in opened.schema if pa.types.is_string(f.type) and not f.name.startswith("_"))
    metadata = opened.hudi.metadata
    assert metadata is not None
    pruner = SlicePruner(opened.hudi.config, opened.hudi.schema, metadata, True)
    stats = ColumnStats(file, column, "a", "b", 4, nulls, 8, 8)
    assert (pruner._convert(stats, united=united) is not None) == is_trusted


@pytest.mark.parametrize(
    ("kind", "low", "high", "is_trusted"),
    [
        (pa.binary(), b"a", b"b", False),
        (pa.string(), "a", "b", True),
        (pa.string(), "", "z\ud7ff", True),
        (pa.string(), "a", "\uffef", False),
        (pa.string(), "a", "z\U0001f600", False),
        (pa.string(), "\U0001f600", "\uffef", False),
    ],
)
def test_bounds_that_java_may_have_ordered_otherwise_are_not_trusted(
    kind: pa.DataType, low: str | bytes, high: str | bytes, is_trusted: bool
) -> None:
    """Hudi unites ranges of bytes by signed ones and those of text by UTF-16 units: values may lie outside."""
    opened = headwater.open(table("generated", STATISTICS[0]).path())
    metadata = opened.hudi.metadata
    assert metadata is not None
    schema = replace(opened.hudi.schema, arrow=pa.schema([("v", kind)]))
    pruner = SlicePruner(opened.hudi.config, schema, metadata, True)
    assert (pruner._convert(ColumnStats("f", "v", low, high, 4, 0, 8, 8)) is not None) == is_trusted


def test_an_index_that_knows_one_place_is_not_asked_where_keys_are_unique_by_partition_alone(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    made = headwater.create(tmp_path / "t", schema=schema, key="id", partition_by="p", index="bloom")
    made.upsert(pa.table({"id": ["1", "2"], "p": ["a", "a"]}, schema=schema))
    made.index.create("record_index")
    made.upsert(pa.table({"id": ["1"], "p": ["b"]}, schema=schema))
    assert sorted(made.scan(filter="id = '1'").to_arrow()["p"].to_pylist()) == ["a", "b"]


@pytest.mark.parametrize("kind", ["mor", "cow"])
@pytest.mark.parametrize("by", ["ts", ()])
@pytest.mark.parametrize("deletes", [True, False])
def test_a_key_that_the_record_index_lost_is_found_where_deletes_may_lose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, by: Any, deletes: bool
) -> None:
    """Hudi takes a key out of the index by a delete that is earlier than the row, which stays (HUDI-9188)."""
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("_hoodie_is_deleted", pa.bool_())])
    made = headwater.create(tmp_path / "t", schema=schema, key="id", ordering=by, kind=kind)
    made.upsert(pa.table({"id": ["1", "2"], "ts": [9, 9], "_hoodie_is_deleted": [False, False]}, schema=schema))
    made.index.create("record_index")
    if deletes:
        made.upsert(pa.table({"id": ["1"], "ts": [5], "_hoodie_is_deleted": [True]}, schema=schema))
    whole = {row["id"] for row in made.scan().to_arrow().to_pylist()}
    assert whole == ({"1", "2"} if by or not deletes else {"2"})
    find = MetadataTable.locations
    monkeypatch.setattr(MetadataTable, "locations", lambda *asked: [one for one in find(*asked) if one[0] != "1"])
    assert made.scan(filter="id = '2'").count() == 1
    assert made.scan(filter="id = '1'").count() == (1 if kind == "mor" and by and deletes else 0)
