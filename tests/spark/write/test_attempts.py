"""Tasks that are tried again: only files of the attempts that won are in the table, and no others are left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_files_of_attempts_that_died_are_removed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.write.attempts_job", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("SAW ")]
    assert lines, done.stderr[-3000:]
    saw = json.loads(lines[0].removeprefix("SAW "))
    assert saw["rows"] == 4000
    assert saw["updated"] == 800
    assert saw["files"] > 4
    assert saw["unnamed"] == []
    assert saw["missing"] == []
