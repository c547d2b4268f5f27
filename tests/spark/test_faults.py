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
from tests.spark.session import HAS_FALLBACK, PATHS, load, rows, spark, using

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


@pytest.mark.skipif(HAS_FALLBACK, reason="this Spark has Python data sources")
def test_fallback_where_spark_has_no_python_data_sources(copy: Path) -> None:
    with using("fallback") as session, pytest.raises(Exception, match=r"needs Spark 4\.0 or newer"):
        rows(load(session, str(copy)))


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


SLOW_READS = """
import os, time
from pathlib import Path
from headwater.hudi.slice_reader import HudiSliceReader

notes, read = Path(os.environ["NOTES"]), HudiSliceReader.open

def first(name):
    try:
        os.close(os.open(notes / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def slow(self, slice_):
    if not (notes / "endless").exists() or not first(f"began-{os.getpid()}"):
        yield from read(self, slice_)
        return
    if (notes / "once").exists() and not first("victim"):
        yield from read(self, slice_)
        return
    (notes / f"{os.getpid()}.parent").write_text(str(os.getppid()))
    try:
        (batch, *_) = read(self, slice_)
        while True:
            yield batch
            time.sleep(0.02)
    finally:
        (notes / f"ended-{os.getpid()}").touch()

HudiSliceReader.open = slow
"""
"""A sidecar that reads endlessly, where the folder of notes says so: a task of it ends by being killed alone."""


def run_with_slow_reads(folder: Path, program: str, *arguments: object) -> list[str]:
    """What a program prints whose sidecars are slow; `notes` is the folder in which they write what they do."""
    (folder / "slow_reads.py").write_text(SLOW_READS)
    notes = folder / "notes"
    notes.mkdir()
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PREAMBLE) + textwrap.dedent(program), str(notes), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "NOTES": str(notes)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    return [line for line in done.stdout.splitlines() if line.startswith(("ROWS", "SAID", "KEYS"))]


PREAMBLE = """
    import os, signal, sys, threading, time
    from pathlib import Path
    import headwater
    from pyspark.sql import SparkSession

    def session(master):
        builder = SparkSession.builder.master(master)
        for key, value in {
            "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "600m",
            "spark.executor.memory": "512m", "spark.headwater.read.reader": "merge",
            "spark.headwater.sidecar.import": "slow_reads", "spark.sql.files.openCostInBytes": "256m",
        }.items():
            builder = builder.config(key, value)
        made = headwater.configure(builder).getOrCreate()
        made.sparkContext.setLogLevel("OFF")
        return made

    def wait_for(what, seconds=60):
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.05)

    notes, table = Path(sys.argv[1]), sys.argv[2]
"""


def test_task_that_is_killed_ends_its_request_at_once(copy: Path, tmp_path: Path) -> None:
    """The request is cancelled, not left to run; the process lives on and takes the next one."""
    program = """
        spark = session("local[1]")
        (notes / "endless").touch()
        def collect():
            spark.sparkContext.setJobGroup("endless", "", interruptOnCancel=True)
            try:
                spark.read.format("headwater").load(table).collect()
                print("SAID nothing")
            except Exception as error:
                print("SAID", "cancelled" if "cancel" in str(error).lower() else error)
        running = threading.Thread(target=collect)
        running.start()
        wait_for(lambda: list(notes.glob("*.parent")))
        spark.sparkContext.cancelJobGroup("endless")
        wait_for(lambda: list(notes.glob("ended-*")), 20)
        running.join()
        (process,) = [int(file.stem) for file in notes.glob("*.parent")]
        (notes / "endless").unlink()
        print("ROWS", len(spark.read.format("headwater").load(table).collect()))
        os.kill(process, 0)  # an error where it is gone
        spark.stop()
    """
    expected = headwater.open(copy).scan().count()
    assert run_with_slow_reads(tmp_path, program, copy) == ["SAID cancelled", f"ROWS {expected}"]


def test_rows_are_right_after_an_executor_was_lost(tmp_path: Path) -> None:
    """Killed in the middle of a task; the task is tried again elsewhere, and no row comes twice."""
    table = Path(shutil.copytree(several_slices().path(), tmp_path / "table"))
    program = """
        import shutil, pyspark
        spark = session("local-cluster[2,1,1024]")
        work = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
        try:
            (notes / "once").touch()
            (notes / "endless").touch()
            def kill():
                wait_for(lambda: any(file.read_text() for file in notes.glob("*.parent")))
                (parent,) = [int(file.read_text()) for file in notes.glob("*.parent")]
                os.kill(parent, signal.SIGKILL)
                print("SAID killed")
            killing = threading.Thread(target=kill)
            killing.start()
            rows = spark.read.format("headwater").load(table).select("_hoodie_record_key").collect()
            killing.join()
            print("ROWS", len(rows))
            print("KEYS", sorted(row[0] for row in rows))
            spark.stop()
        finally:
            shutil.rmtree(work, ignore_errors=True)
    """
    keys = headwater.open(table).scan(columns=["_hoodie_record_key"]).to_arrow().column(0).to_pylist()
    found = run_with_slow_reads(tmp_path, program, table)
    assert found == ["SAID killed", f"ROWS {len(keys)}", f"KEYS {sorted(keys)}"]


def several_slices() -> FixtureTable:
    for table in tables("generated"):
        if table.kind == "MOR" and len(headwater.open(table.path()).scan().plan().tasks) >= 3:
            return table
    raise AssertionError("no such table")


def test_sidecars_die_with_a_killed_jvm(copy: Path) -> None:
    """kill -9 of the JVM leaves no process behind."""
    program = f"""
        import os, sys
        import headwater
        from pyspark.sql import SparkSession
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = headwater.configure(builder.config("spark.driver.memory", "512m")).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        assert spark.read.format("headwater").load({str(copy)!r}).collect()
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
