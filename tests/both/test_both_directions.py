"""Tables that Headwater and Apache Hudi wrote in turn: read in every mode as Hudi reads them, and written on.

`tests/interop/write_matrix/store.py` makes them anew; `make interop` does the same with more of them, and Hudi.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.interop.write_matrix.cells import against_model, compare
from tests.interop.write_matrix.reads import Read
from tests.interop.write_matrix.specs import Spec
from tests.interop.write_matrix.story import Story
from tests.places import DATA

import headwater
from headwater.verify import verify

FOLDER = DATA / "both"
TABLES = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz"))


@cache
def expected(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def restored(name: str, target: Path) -> Story:
    """The story of a table, where it was left; its model holds the rows that the table has."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(target, filter="data")
    known = expected(name)
    story = Story(name, Spec(**known["spec"]), target / name, seed=1)
    if known["is_evolved"]:
        story.rows.evolve()
    story.is_made_by_hudi = known["is_made_by_hudi"]
    story.rows.next_id, story.rows.clock = known["next_id"], known["clock"]
    rows = headwater.open(story.path).scan(columns=list(story.rows.columns)).to_arrow()
    story.model.insert(rows.to_pylist(maps_as_pydicts="strict"))
    return story


def test_there_are_tables_of_every_version_made_by_each_side() -> None:
    made = {(name.split("_")[0], expected(name)["spec"]["version"]) for name in TABLES}
    assert made == {(maker, version) for maker in ("headwater", "hudi") for version in (6, 8, 9)}


@pytest.mark.parametrize("name", TABLES)
def test_every_mode_gives_the_rows_that_hudi_reads(name: str, tmp_path: Path) -> None:
    story = restored(name, tmp_path)
    for told in expected(name)["reads"]:
        for metadata in (True, False):
            read = Read(told["name"], told["mode"], {}, told["opts"], told["where"], metadata, told["path_values"])
            assert compare(story, read, told["rows"], told["types"]) is None, (told["name"], metadata)


@pytest.mark.parametrize("name", TABLES)
def test_writing_goes_on_where_the_other_side_left_off(name: str, tmp_path: Path) -> None:
    story = restored(name, tmp_path)
    story.go_on()
    assert against_model(story) is None or not story.model_is_exact
    report = verify(headwater.open(story.path), deep=True)
    assert report.ok, [str(finding) for finding in report.findings]
