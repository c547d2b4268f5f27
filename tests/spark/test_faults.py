"""Bad input and faults: a clear error, never fewer rows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.fixtures.suites import FixtureTable, tables
from tests.spark.session import PATHS, load, rows, spark, using

import headwater


def with_logs() -> FixtureTable:
    """A merge-on-read table whose newest slices have a base file and logs."""
    for table in tables("generated"):
        if table.kind == "MOR" and not table.name.startswith(("corrupt", "torn")):
            tasks = headwater.open(table.path()).scan().plan().tasks
            if tasks and all(task.slice.base_file and task.slice.delta_files for task in tasks):
                return table
    raise AssertionError("no such table")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(with_logs().path(), tmp_path / "table"))


def sidecars(parent: int | None = None) -> list[int]:
    """Processes that run the sidecar; of one parent, where given."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            above = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if b"headwater.spark.sidecar" in command and parent in (None, above):
            found.append(int(entry.name))
    return found


def jvm() -> int:
    return int(spark()._jvm.java.lang.ProcessHandle.current().pid())


@pytest.mark.parametrize("path", PATHS)
def test_path_that_is_no_table(path: str, tmp_path: Path) -> None:
    with using(path) as session, pytest.raises(Exception, match="TableNotFound"):
        rows(load(session, str(tmp_path / "nothing")))


@pytest.mark.parametrize("path", PATHS)
def test_option_that_does_not_exist(path: str, copy: Path) -> None:
    with using(path) as session, pytest.raises(Exception, match="as-of"):
        rows(load(session, str(copy), **{"as-off": "20260101000000000"}))


@pytest.mark.parametrize("path", ["dsv2", "merge"])  # the fallback plans when it runs: nothing lies in between
def test_file_that_vanishes_between_planning_and_reading(path: str, copy: Path) -> None:
    with using(path) as session:
        frame = load(session, str(copy))
        frame._jdf.queryExecution().executedPlan()
        for task in headwater.open(copy).scan().plan().tasks:
            for file in (task.slice.base_file, *task.slice.delta_files):
                if file is not None:
                    (copy / file.path).unlink()
        with pytest.raises(Exception, match=r"MissingFile|does not exist|FileNotFound"):
            rows(frame)


@pytest.mark.parametrize("path", PATHS)
def test_base_file_that_is_garbage(path: str, copy: Path) -> None:
    task = headwater.open(copy).scan().plan().tasks[0]
    assert task.slice.base_file is not None
    (copy / task.slice.base_file.path).write_bytes(b"no parquet" * 100)
    with using(path) as session, pytest.raises(Exception, match=r"CorruptFile|not a Parquet file|FAILED_READ_FILE"):
        rows(load(session, str(copy)))


def test_sidecar_that_is_killed_fails_the_task_and_the_next_one_succeeds(copy: Path) -> None:
    session = spark()
    expected = rows(load(session, str(copy)))
    for process in sidecars(jvm()):
        os.kill(process, signal.SIGKILL)
    # A process that died while idle is noticed before it is used again.
    assert rows(load(session, str(copy))).num_rows == expected.num_rows


def test_sidecars_of_cut_off_tasks_are_used_again(copy: Path) -> None:
    session = spark()
    assert load(session, str(copy)).limit(1).count() == 1
    before = set(sidecars(jvm()))
    for _ in range(5):
        load(session, str(copy)).limit(1).collect()
    assert len(sidecars(jvm())) <= max(len(before), 3), "sidecars are used again, not left behind"


def test_sidecars_die_with_a_killed_jvm(copy: Path) -> None:
    """kill -9 of the JVM leaves no process behind."""
    program = f"""
        import os, sys
        import headwater
        from pyspark.sql import SparkSession
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = headwater.configure(builder.config("spark.driver.memory", "512m")).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        assert spark.read.format("headwater").load({str(copy)!r}).toArrow().num_rows
        print("jvm", spark._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
        sys.stdin.read()
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        line = next(line for line in child.stdout if line.startswith("jvm"))
        java = int(line.split()[1])
        mine = sidecars(java)
        assert mine, "the query above used a sidecar"
        os.kill(java, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while any(Path(f"/proc/{process}").exists() for process in mine) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not [process for process in mine if Path(f"/proc/{process}").exists()]
    finally:
        child.kill()
        child.wait()
