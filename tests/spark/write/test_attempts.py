"""Tasks that are tried again: only files of the attempts that won are in the table, and no others are left."""

from __future__ import annotations

from pathlib import Path

from tests.spark.jobs import run_job


def test_files_of_attempts_that_died_are_removed(tmp_path: Path) -> None:
    saw = run_job("tests.spark.write.attempts_job", str(tmp_path))
    assert saw["rows"] == 4000
    assert saw["updated"] == 800
    assert saw["files"] > 4
    assert saw["unnamed"] == []
    assert saw["missing"] == []
