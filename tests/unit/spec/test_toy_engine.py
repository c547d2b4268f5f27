"""The toy engine of docs/toy-engine.md, taken out of the page and run on real merge-on-read tables."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from tests.fixtures.suites import table

import headwater
from headwater.hudi.table import HudiTable
from headwater.spec import FileIndex, FileSliceReader, ReadingMode, Timeline
from headwater.spec.expressions import parse

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "toy-engine.md"
SOURCE = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)[0]

MERGE_ON_READ = ["comp_pending_mor_v9_120", "comp_pending_mor_v8_102", "mrg_event_mor_v6_120"]


@pytest.fixture(scope="module")
def toy() -> ModuleType:
    module = ModuleType("toy_engine")
    sys.modules["toy_engine"] = module  # dataclasses look their module up
    exec(compile(SOURCE, str(PAGE), "exec"), vars(module))
    return module


def opened(name: str) -> headwater.Table:
    return headwater.open(table("generated", name).path())


def engine_on(toy: ModuleType, hudi: HudiTable) -> Any:
    return toy.ToyEngine(hudi.timeline, hudi.file_index(), hudi.reader(hudi.schema))


def rows(of: pa.Table) -> Counter[str]:
    return Counter(map(repr, of.to_pylist()))


def test_engine_is_under_80_lines_and_imports_the_spec_alone() -> None:
    assert len(SOURCE.splitlines()) < 80
    imported = set(re.findall(r"^(?:from|import) (\S+)", SOURCE, re.MULTILINE)) - set(sys.stdlib_module_names)
    assert {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names} == {
        "headwater.spec",
        "headwater.spec.expressions",
        "pyarrow",
    }


@pytest.mark.parametrize("name", MERGE_ON_READ)
class TestQueries:
    def test_select_star(self, toy: ModuleType, name: str) -> None:
        whole = opened(name)
        assert rows(engine_on(toy, whole.hudi).query("SELECT *")) == rows(whole.scan().to_arrow())

    def test_where(self, toy: ModuleType, name: str) -> None:
        whole = opened(name)
        got = engine_on(toy, whole.hudi).query("SELECT id, price WHERE price > 5 AND city != 'sf'")
        assert rows(got) == rows(whole.scan(filter="price > 5 AND city != 'sf'", columns=["id", "price"]).to_arrow())
        assert got.num_rows

    def test_group_by(self, toy: ModuleType, name: str) -> None:
        whole = opened(name)
        got = engine_on(toy, whole.hudi).query("select city, count(*) group by city")
        assert dict(zip(*got.to_pydict().values(), strict=True)) == Counter(
            whole.scan(columns=["city"]).to_arrow().column("city").to_pylist()
        )

    def test_limit(self, toy: ModuleType, name: str) -> None:
        whole = opened(name)
        got = engine_on(toy, whole.hudi).query("SELECT id LIMIT 3")
        assert got.num_rows == 3
        assert rows(got) <= rows(whole.scan(columns=["id"]).to_arrow())

    def test_as_of(self, toy: ModuleType, name: str) -> None:
        whole = opened(name)
        for instant in whole.hudi.timeline.commits:
            got = engine_on(toy, whole.hudi).query("SELECT id, name, price", as_of=instant.requested_at)
            then = whole.scan(as_of=instant.requested_at, columns=["id", "name", "price"])
            assert rows(got) == rows(then.to_arrow()), f"at {instant}"


def test_not_a_query(toy: ModuleType) -> None:
    with pytest.raises(ValueError, match="not a query"):
        engine_on(toy, opened(MERGE_ON_READ[0]).hudi).query("DELETE everything")


class TestProtocols:
    """A format's objects are what the protocols say."""

    def test_objects_of_a_table_satisfy_the_protocols(self) -> None:
        hudi = opened(MERGE_ON_READ[0]).hudi
        assert isinstance(hudi.timeline, Timeline)
        assert isinstance(hudi.file_index(), FileIndex)
        assert isinstance(hudi.reader(hudi.schema), FileSliceReader)

    @pytest.mark.parametrize("name", [*MERGE_ON_READ, "archive_noclean_cow_v9_120"])
    def test_listing_at_an_instant_is_listing_up_to_it_with_an_open_start(self, name: str) -> None:
        hudi = opened(name).hudi
        for instant in (None, *hudi.timeline.commits):
            for filters in (None, parse("city = 'sf'")):
                at = hudi.file_index().list_files_at(instant, filters)
                between = hudi.file_index().list_files_between(None, instant, filters)
                assert [(p.partition, p.slices) for p in at] == [(p.partition, p.slices) for p in between]

    def test_readers_do_not_change(self) -> None:
        hudi = opened(MERGE_ON_READ[0]).hudi
        reader = hudi.reader(hudi.schema)
        before = replace(reader)
        narrow = pa.schema([hudi.schema.arrow.field("id")])
        changed = [
            reader.project(narrow),
            reader.push_down_filters(parse("id = '1'")),
            reader.reading_mode(ReadingMode.SNAPSHOT_READ_OPTIMIZED),
        ]
        assert all(type(copy) is type(reader) and copy != before for copy in changed)
        assert reader == before
        assert reader.schema.equals(hudi.schema.arrow)
        with pytest.raises(FrozenInstanceError):
            reader.schema = narrow  # type: ignore[misc]

    def test_filters_add_up(self) -> None:
        hudi = opened(MERGE_ON_READ[0]).hudi
        reader = hudi.reader(hudi.schema)
        one_by_one = reader.push_down_filters(parse("price > 5")).push_down_filters(parse("city = 'sf'"))
        both = reader.push_down_filters(parse("price > 5"), parse("city = 'sf'"))
        slices = [s for found in hudi.file_index().list_files_at() for s in found.slices]
        read = [[b.to_pylist() for s in slices for b in each.open(s)] for each in (one_by_one, both)]
        assert read[0] == read[1]
        assert read[0]


ASSIGNMENTS = """
from headwater.hudi.table import HudiTable
from headwater.spec import FileIndex, FileSliceReader, Timeline


def satisfied(table: HudiTable) -> tuple[Timeline, FileIndex, FileSliceReader]:
    timeline: Timeline = table.timeline
    index: FileIndex = table.file_index()
    reader: FileSliceReader = table.reader(table.schema)
    return timeline, index, reader
"""


def test_mypy_accepts_the_engine_and_the_assignments(tmp_path: Path) -> None:
    (tmp_path / "toy_engine.py").write_text(SOURCE, "utf-8")
    (tmp_path / "assignments.py").write_text(ASSIGNMENTS, "utf-8")
    files = [str(tmp_path / "toy_engine.py"), str(tmp_path / "assignments.py")]
    # The cache of `make lint` serves here too; errors of other modules are that target's to report.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *files],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stdout + done.stderr
