"""Changes whose files are gone are an error, never fewer changes (reader-spec R10, R18)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fixtures.suites import table

import headwater
from headwater.errors import InstantNotFound


def without_files_of_first_commit(name: str, tmp_path: Path) -> tuple[Path, list[str]]:
    """A copy of a table less what its first commit wrote, as a cleaner leaves it, and the table's commits."""
    path = Path(shutil.copytree(table("generated", name).path(), tmp_path / name))
    timeline = headwater.open(path).hudi.timeline
    for stat in timeline.metadata(timeline.commits[0]).write_stats:
        (path / stat.path).unlink()
    return path, [instant.requested_at for instant in timeline.commits]


@pytest.mark.parametrize("name", ["cdc_op_key_only_cow_v6_0150", "cdc_replace_cow_v6_0150"])
def test_inserts_of_a_cleaned_file_are_an_error(name: str, tmp_path: Path) -> None:
    path, commits = without_files_of_first_commit(name, tmp_path)
    with pytest.raises(InstantNotFound, match=f"changes of instant {commits[0]} cannot be told"):
        headwater.open(path, metadata=False).changes(end=commits[0]).to_arrow()


def test_before_images_of_a_cleaned_file_are_an_error(tmp_path: Path) -> None:
    path, commits = without_files_of_first_commit("cdc_op_key_only_cow_v6_0150", tmp_path)
    with pytest.raises(InstantNotFound, match=f"changes of instant {commits[1]} cannot be told: the rows before it"):
        headwater.open(path, metadata=False).changes(commits[0], commits[1]).to_arrow()


def test_deletes_of_a_replaced_group_that_was_cleaned_are_an_error(tmp_path: Path) -> None:
    name = "cdc_replace_cow_v6_0150"
    path = Path(shutil.copytree(table("generated", name).path(), tmp_path / name))
    timeline = headwater.open(path).hudi.timeline
    replacing = next(i for i in timeline.commits if timeline.metadata(i).replaced)
    ids = {file_id for found in timeline.metadata(replacing).replaced.values() for file_id in found}
    for file in [file for file in path.rglob("*.parquet") if file.name.split("_")[0] in ids]:
        file.unlink()
    before = [i.requested_at for i in timeline.commits if i.requested_at < replacing.requested_at]
    with pytest.raises(InstantNotFound, match=f"changes of instant {replacing.requested_at} cannot be told"):
        headwater.open(path, metadata=False).changes(before[-1], replacing.requested_at).to_arrow()
