"""A table on S3 through Spark, where Hadoop has no filesystem for it: written and read by Python, or told why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_table_on_s3_is_written_and_read_without_hadoops_filesystem() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.s3_job"],
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
    expected = sum(2 * one for one in range(10, 1000)) - 10
    assert {saw["merge"], saw["python"], saw.get("fallback", expected)} == {expected}
    assert saw["count"] == 1000
    assert saw["after an upsert"] == expected + 10
    assert "StorageError" in saw["native"]
    assert "hadoop-aws" in saw["native"]
    assert "reader=merge" in saw["native"]
