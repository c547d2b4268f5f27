"""Arrow filters: no row that the tree keeps is skipped, and `exact` keeps the promise, on real Parquet files."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.spec.expression_cases import SCHEMA, VALUES, expected, random_table, trees

from headwater.spec.expressions import Expression, bind, filter_batch, parse, to_arrow

NAN = math.nan
# A Parquet file holds neither string views nor timestamps whose nanoseconds Python cannot say.
STORED = pa.schema([field for field in SCHEMA if field.name != "view"])
NAMES = [name for name in VALUES if name != "view"]


def scan(path: Path, expression: object) -> list[int]:
    return ds.dataset(path).to_table(columns=["row"], filter=expression)["row"].to_pylist()  # type: ignore[no-any-return]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees(NAMES), st.integers(0, 2**32), st.integers(1, 9))
def test_scanning_with_the_arrow_filter_loses_no_row(tmp_path: Path, tree: Expression, seed: int, count: int) -> None:
    table = random_table(seed, count, schema=STORED)
    path = tmp_path / "rows.parquet"
    pq.write_table(table.append_column("row", pa.array(range(count))), path, row_group_size=2)
    found = to_arrow(bind(tree, STORED))
    wanted = [row for row, values in enumerate(table.to_pylist()) if expected(tree, values) is True]
    if found.expression is None:
        assert not found.exact or len(wanted) == count
        return
    kept = scan(path, found.expression)
    assert set(wanted) <= set(kept)
    if found.exact:
        assert kept == wanted


def test_row_group_of_one_number_and_nan_is_not_skipped(tmp_path: Path) -> None:
    path = tmp_path / "nan.parquet"
    table = pa.table({"x": [1.0, NAN, 7.0, 8.0], "row": [0, 1, 2, 3]})
    pq.write_table(table, path, row_group_size=2)
    for text in ("x > 5", "x >= 5", "x != 1", "isnan(x)", "x NOT IN (1, 2)", "NOT (x <=> 1)"):
        bound = bind(parse(text), table.schema)
        arrow = to_arrow(bound)
        assert not arrow.exact
        kept = ds.dataset(path).to_table(filter=arrow.expression)
        assert 1 in filter_batch(bound, kept)["row"].to_pylist()


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("x = 5", 1),
        ("x > 3.5 AND x < 5.5", 1),
        ("x IN (1, 100)", 1),
        ("name LIKE 'c%'", 1),
        ("name LIKE 'c_d%'", 1),
        ("x = 5 AND real > 1", 1),
        ("x IS NULL", 0),
        ("x = 1000", 0),
        ("x = 1.5", 0),
    ],
)
def test_row_groups_are_skipped(tmp_path: Path, text: str, groups: int) -> None:
    table = pa.table({"x": range(10), "name": sorted("abcdefghij"), "real": [1.0] * 10})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    fragment = next(ds.dataset(tmp_path / "x.parquet").get_fragments())
    assert len(fragment.split_by_row_group(to_arrow(bind(parse(text), table.schema)).expression)) == groups


def test_part_that_arrow_cannot_say_is_dropped_from_and_but_not_from_or() -> None:
    schema = pa.schema([("x", pa.int64()), ("s", pa.string()), ("f", pa.float64())])
    both = to_arrow(bind(parse("x = 1 AND s = 5"), schema))
    assert str(both.expression) == "(x == 1)"
    assert not both.exact
    either = to_arrow(bind(parse("x = 1 OR f > 5"), schema))
    assert either.expression is None
    assert not either.exact
    everything = to_arrow(bind(parse("TRUE"), schema))
    assert everything.expression is None
    assert everything.exact


def test_long_chain_is_cut_because_arrow_would_overflow_its_stack() -> None:
    table = pa.table({"x": range(5), "y": range(5)})
    terms = [f"(x != {number} OR y != {number})" for number in range(3, 2_000)]
    conjunction = bind(parse(" AND ".join(terms)), table.schema)
    arrow = to_arrow(conjunction)
    assert not arrow.exact
    assert set(table.filter(arrow.expression)["x"].to_pylist()) >= {0, 1, 2}
    assert filter_batch(conjunction, table)["x"].to_pylist() == [0, 1, 2]
    disjunction = " OR ".join(f"(x = {number} AND y = {number})" for number in range(3, 2_000))
    assert to_arrow(bind(parse(disjunction), table.schema)).expression is None
    assert to_arrow(bind(parse(" OR ".join(f"x = {number}" for number in range(9999))), table.schema)).exact
