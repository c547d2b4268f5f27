"""Every fixture table gives the expected rows through Spark, by each of the three paths."""

from __future__ import annotations

import pytest
from tests import places
from tests.fixtures.comparison import difference
from tests.fixtures.declared import DECLARED, META_COLUMNS_DIFFER, CaseId
from tests.fixtures.suites import FixtureTable, tables
from tests.spark.fixture_reader import MODES, read
from tests.spark.session import PATHS


def every_table(name: str) -> list[object]:
    """A set that is missing must not pass for one without tables: it gives a test that says so."""
    if not places.is_there(name):
        return [pytest.param(None, "dsv2", id="missing")]
    return [pytest.param(table, path, id=f"{table.name}-{path}") for table in tables(name) for path in PATHS]


def check(table: FixtureTable, path: str) -> None:
    strict = table.set != "bridge" and (table.set, table.name) not in META_COLUMNS_DIFFER
    failures = []
    for case in table.cases:
        if case.optional or case.mode not in MODES or CaseId(table.set, table.name, case.id) in DECLARED:
            continue
        try:
            problem = difference(case, read(path, str(table.path(case.stage)), case.mode, **case.opts), strict=strict)
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:400]}"
        if problem:
            failures.append(f"{case.id}: {problem}")
    assert not failures, f"{len(failures)} cases:\n" + "\n".join(failures)


@pytest.mark.parametrize(("table", "path"), every_table("hudi"))
def test_hudi(table: FixtureTable | None, path: str) -> None:
    check(table or places.missing("hudi"), path)


@pytest.mark.parametrize(("table", "path"), every_table("generated"))
def test_generated(table: FixtureTable, path: str) -> None:
    check(table, path)


@pytest.mark.parametrize(("table", "path"), every_table("bridge"))
def test_bridge(table: FixtureTable, path: str) -> None:
    check(table, path)
