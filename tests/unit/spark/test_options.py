"""Read options: names, precedence, refusals, and the reference made from them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from headwater.errors import InvalidArgument
from headwater.spark.options import OPTIONS, ReadOptions, parse_read_options, parse_size
from headwater.spark.reference import within

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"


def test_every_field_has_an_option_and_every_option_a_field() -> None:
    assert [option.field for option in OPTIONS] == [field.name for field in fields(ReadOptions)]


def test_nothing_given_is_the_default() -> None:
    assert parse_read_options({}) == ReadOptions()


def test_option_wins_over_session_and_session_over_table_property() -> None:
    table = {"headwater.read.split-size": "1m", "headwater.read.file-open-cost": "1m", "headwater.read.memory": "100m"}
    session = {"spark.headwater.read.split-size": "2m", "spark.headwater.read.file-open-cost": "2m"}
    given = parse_read_options({"split-size": "3m"}, session, table)
    assert (given.split_size, given.open_cost, given.memory) == (3 << 20, 2 << 20, 100 << 20)


@pytest.mark.parametrize(
    ("name", "value", "field", "parsed"),
    [
        ("as-of", "20260101000000000", "as_of", "20260101000000000"),
        ("as.of.instant", "2026-01-01", "as_of", "2026-01-01"),
        ("timestampAsOf", "2026-01-01", "as_of", "2026-01-01"),
        ("mode", "read_optimized", "mode", "read_optimized"),
        ("mode", "READ-OPTIMIZED", "mode", "read_optimized"),
        ("hoodie.datasource.query.type", "snapshot", "mode", "snapshot"),
        ("hoodie.metadata.enable", "false", "metadata", False),
        ("hoodie.datasource.read.use.dsv2", "FALSE", "use_dsv2", False),
        ("use.dsv2", "false", "use_dsv2", False),
        ("splitSize", "64MB", "split_size", 64 << 20),
        ("split_size", "1024", "split_size", 1024),
        ("SPLIT-SIZE", "1k", "split_size", 1024),
        ("file-open-cost", "4m", "open_cost", 4 << 20),
        ("reader", "merge", "reader", "merge"),
        ("threads", "3", "threads", 3),
        ("preserve-data-grouping", "true", "preserve_data_grouping", True),
        ("push-down-aggregates", "false", "push_down_aggregates", False),
    ],
)
def test_names_and_values_are_accepted_as_people_write_them(name: str, value: str, field: str, parsed: object) -> None:
    assert getattr(parse_read_options({name: value}), field) == parsed


def test_every_option_for_a_session_is_read_from_it() -> None:
    values = {"mode": "read_optimized", "reader": "merge"}
    for option in OPTIONS:
        given = {option.session_name: values.get(option.name, "false" if "true" in option.values else "7")}
        if option.in_session:
            parse_read_options({}, given)
        else:
            with pytest.raises(InvalidArgument):
                parse_read_options({}, given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"as-off": "x"}, "did you mean 'as-of'?"),
        ({"hoodie.datasource.query.typ": "snapshot"}, "did you mean 'hoodie.datasource.query.type'?"),
        ({"mergeSchema": "true"}, "the table knows its schema"),
        ({"hoodie.datasource.read.begin.instanttime": "0"}, r"headwater.open\(path\).incremental\(\)"),
        ({"zzz": "1"}, "no read option 'zzz'; Known: as-of, "),
        ({"mode": "incremental"}, r"mode='incremental' is none of: snapshot, read_optimized; .*incremental\(\)"),
        ({"metadata": "yes"}, "metadata='yes' is neither true nor false"),
        ({"split-size": "many"}, "split-size='many' is no size; .*128m"),
        ({"split-size": "0"}, "no size"),
        ({"threads": "0"}, "no whole number, 1 or more"),
        ({"as-of": " "}, "as-of=' ' is empty"),
        ({"as-of": "2026-01-01", "as.of.instant": "2026-01-02"}, "are the same option; give one of them"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        parse_read_options(given)


def test_unknown_configuration_of_ours_is_refused_and_of_others_passed_over() -> None:
    with pytest.raises(InvalidArgument, match=r"did you mean 'spark\.headwater\.read\.reader'\?"):
        parse_read_options({}, {"spark.headwater.read.raeder": "merge"})
    assert parse_read_options({}, {"spark.sql.x": "1", "time_zone": "UTC", "case_sensitive": False}) == ReadOptions()


def test_what_spark_adds_and_what_hudi_needs_is_passed_over() -> None:
    assert parse_read_options({"path": "/x", "paths": "[]", "hoodie.enable.data.skipping": "true"}) == ReadOptions()


def test_the_same_value_by_two_names_is_no_conflict() -> None:
    assert parse_read_options({"mode": "snapshot", "hoodie.datasource.query.type": "SNAPSHOT"}).mode == "snapshot"


def test_sizes_are_read_as_spark_reads_them() -> None:
    assert [parse_size(text) for text in ("1", "1b", "1k", "1kb", "2 MB", "3GiB", "1t")] == [
        1,
        1,
        1 << 10,
        1 << 10,
        2 << 20,
        3 << 30,
        1 << 40,
    ]


def test_reference_in_the_docs_is_current() -> None:
    page = PAGE.read_text("utf-8")
    assert within(page) == page, "run: python -m headwater.spark.reference docs/spark.md"
