"""The sidecar process, spoken to as a JVM does: frames over pipes, no JVM."""

from __future__ import annotations

import base64
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures import suites
from tests.unit.spark.client import Sidecar, SidecarError

import headwater
from headwater.demo import demo_table
from headwater.spark.sidecar.frames import BrokenFrames, Kind, read_frame, write_frame
from headwater.spark.sidecar.merging import OtherVersion, SliceScan
from headwater.spark.types import arrow_schema, to_spark


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    with Sidecar() as process:
        yield process


@pytest.fixture(scope="module")
def trips() -> Path:
    return Path(demo_table("trips"))


# Frames


@given(st.lists(st.tuples(st.sampled_from(list(Kind)), st.binary(max_size=100))))
def test_frames_round_trip(frames: list[tuple[Kind, bytes]]) -> None:
    stream = io.BytesIO()
    for kind, payload in frames:
        write_frame(stream, kind, payload)
    stream.seek(0)
    assert [read_frame(stream) for _ in frames] == frames
    assert read_frame(stream) is None


def test_a_frame_that_is_cut_short_is_the_end() -> None:
    stream = io.BytesIO()
    write_frame(stream, Kind.QUERY, b"{}")
    assert read_frame(io.BytesIO(stream.getvalue()[:-1])) is None


def test_bytes_of_another_protocol_are_refused() -> None:
    with pytest.raises(BrokenFrames, match="another protocol"):
        read_frame(io.BytesIO(b"GET / HTTP/1.1"))


# The process


def test_it_greets_with_its_versions(sidecar: Sidecar) -> None:
    assert sidecar.hello["protocol"] == 2
    assert sidecar.hello["headwater"] == headwater.__version__
    assert sidecar.hello["pid"] == sidecar.process.pid
    assert sidecar.ask("ping") == {}


def test_it_exits_at_once_when_stdin_ends() -> None:
    process = Sidecar()
    assert process.process.stdin is not None
    process.process.stdin.close()
    assert process.process.wait(2) == 0


def test_it_exits_when_stdin_ends_while_it_works(trips: Path) -> None:
    with Sidecar() as process:
        opened = process.open(trips)
        for _ in range(20):
            process.send("plan", handle=opened["handle"], read_schema=opened["schema"])
        assert process.process.stdin is not None
        process.process.stdin.close()
        assert process.process.wait(2) == 0


def test_an_interrupt_of_the_shell_is_not_its_business() -> None:
    with Sidecar() as process:
        os.kill(process.process.pid, signal.SIGINT)
        time.sleep(0.05)
        assert process.ask("ping") == {}


def test_what_is_printed_goes_to_stderr(tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text("print('hello from a module')\nimport os\nos.system('echo and from a child')\n")
    process = Sidecar({"HEADWATER_IMPORT": "chatty", "PYTHONPATH": str(tmp_path)})
    assert process.ask("ping") == {}
    assert process.process.stdin is not None
    process.process.stdin.close()
    process.process.wait(5)
    assert process.process.stderr is not None
    said = process.process.stderr.read().decode()
    assert "hello from a module" in said
    assert "and from a child" in said


def test_nonsense_on_stdin_ends_the_process_with_a_reason() -> None:
    process = Sidecar()
    assert process.process.stdin is not None
    process.process.stdin.write(b"nonsense")
    process.process.stdin.close()
    assert process.process.wait(2) == 2
    assert process.process.stderr is not None
    assert b"another protocol" in process.process.stderr.read()


def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-m', 'headwater.spark.sidecar'],\n"
        "                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "p.stdout.read(1)\nprint(p.pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _is_running(child):
        time.sleep(0.02)
    assert not _is_running(child)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# Requests


def test_open_tells_the_table(sidecar: Sidecar, trips: Path) -> None:
    opened = sidecar.open(trips)
    table = headwater.open(trips)
    assert opened["name"] == table.name
    assert [field["name"] for field in opened["schema"]["fields"]] == table.schema.names
    assert opened["properties"]["hoodie.table.name"] == table.name
    assert opened["version_text"] == table.hudi.timeline.commits[-1].requested_at


@pytest.mark.parametrize(
    ("path", "options", "kind", "message"),
    [
        ("/no/such/table", {}, "TableNotFound", "/no/such/table"),
        ("{trips}", {"as-of": "19700101000000000"}, "InstantNotFound", "nothing was committed"),
        ("{trips}", {"splitt-size": "1m"}, "InvalidArgument", "split-size"),
        ("{trips}", {"mode": "sideways"}, "InvalidArgument", "read_optimized"),
    ],
)
def test_errors_keep_their_type_and_message(
    sidecar: Sidecar, trips: Path, path: str, options: dict[str, str], kind: str, message: str
) -> None:
    with pytest.raises(SidecarError) as caught:
        sidecar.ask("open", path=path.format(trips=trips), options=options, session={})
    assert caught.value.type == kind
    assert message in caught.value.message
    assert "Traceback" in caught.value.trace
    assert sidecar.ask("ping") == {}


def test_an_unknown_request_is_refused_with_the_known_ones(sidecar: Sidecar) -> None:
    with pytest.raises(SidecarError, match=r"no request 'fly'.*merge"):
        sidecar.ask("fly")


def test_a_handle_that_was_released_is_unknown(sidecar: Sidecar, trips: Path) -> None:
    opened = sidecar.open(trips)
    sidecar.ask("release", handle=opened["handle"])
    with pytest.raises(SidecarError) as caught:
        sidecar.ask("push", handle=opened["handle"], predicates=[])
    assert caught.value.type == "UnknownHandle"


def test_a_scan_must_be_sent_first(sidecar: Sidecar) -> None:
    with pytest.raises(SidecarError) as caught:
        sidecar.stream("read", scan_id="nobody", payload="")
    assert caught.value.type == "UnknownScan"


def test_a_scan_of_another_release_is_refused(sidecar: Sidecar, trips: Path) -> None:
    opened = sidecar.open(trips)
    plan = sidecar.plan(opened)
    blob = base64.b64decode(plan["scan"])
    with pytest.raises(SidecarError) as caught:
        sidecar.ask("scan", scan_id="old", blobs=[b"0.0.9" + blob[blob.index(b"\n") :]])
    assert caught.value.type == "OtherVersion"
    with pytest.raises(OtherVersion, match="same release"):
        SliceScan.from_bytes(blob, "9.9.9")


def test_folders_are_tables_or_namespaces(sidecar: Sidecar, trips: Path, tmp_path: Path) -> None:
    shutil.copytree(trips, tmp_path / "sales" / "trips")
    (tmp_path / "sales" / "archive").mkdir()
    (tmp_path / "sales" / ".hidden").mkdir()
    (tmp_path / "empty").mkdir()
    assert sidecar.ask("list", path=str(tmp_path)) == {"tables": [], "namespaces": ["empty", "sales"]}
    assert sidecar.ask("list", path=f"file:{tmp_path}/sales") == {"tables": ["trips"], "namespaces": ["archive"]}
    assert sidecar.ask("list", path=str(tmp_path / "empty")) == {"tables": [], "namespaces": []}
    with pytest.raises(SidecarError) as caught:
        sidecar.ask("list", path=str(tmp_path / "nowhere"))
    assert caught.value.type == "NamespaceNotFound"


def test_a_path_in_hadoops_spelling_is_opened(sidecar: Sidecar, trips: Path) -> None:
    assert sidecar.open(f"file:{trips}")["name"] == sidecar.open(f"file://{trips}")["name"]


def test_a_plan_has_a_task_for_each_slice(sidecar: Sidecar, trips: Path) -> None:
    opened = sidecar.open(trips)
    plan = sidecar.plan(opened)
    own = headwater.open(trips).scan().plan()
    assert len(plan["tasks"]) == len(own.tasks)
    assert 0 < plan["statistics"]["bytes"] <= own.bytes
    assert plan["metrics"]["slices_read"] == len(own.tasks)
    assert len(base64.b64decode(plan["scan"])) < 16_000
    for task in plan["tasks"]:
        assert (trips / task["path"]).stat().st_size == task["size"]
        assert task["how"] in ("parquet", "positional", "stream")


def test_reading_by_merge_streams_every_task(sidecar: Sidecar, trips: Path) -> None:
    opened = sidecar.open(trips)
    plan = sidecar.plan(opened, reader="merge")
    assert {task["how"] for task in plan["tasks"]} == {"stream"}
    assert {task["why"] for task in plan["tasks"]} == {"reader=merge"}


def test_a_scan_may_have_options_of_its_own(sidecar: Sidecar, trips: Path) -> None:
    opened = sidecar.open(trips)
    assert sidecar.plan(opened)["split_size"] is None
    assert sidecar.plan(opened, options={"split-size": "1m"})["split_size"] == 2**20
    assert {task["how"] for task in sidecar.plan(opened, options={"reader": "merge"})["tasks"]} == {"stream"}
    mor = sidecar.open(next(t for t in suites.tables("generated") if t.kind == "MOR" and _with_logs(t.path())).path())
    optimized = sidecar.plan(mor, options={"mode": "read_optimized", "metadata": "false"})["tasks"]
    assert {task["how"] for task in optimized} == {"parquet"}
    with pytest.raises(SidecarError, match="split-size"):
        sidecar.plan(opened, options={"splitsizes": "1m"})


def test_a_limit_ends_the_tasks_where_rows_are_known(sidecar: Sidecar) -> None:
    cow = next(t for t in suites.tables("generated") if t.kind == "COW" and len(_plan_of(t.path()).tasks) > 1)
    opened = sidecar.open(cow.path())
    assert len(sidecar.plan(opened, limit=1)["tasks"]) == 1
    assert len(sidecar.plan(opened, limit=10**9)["tasks"]) == len(_plan_of(cow.path()).tasks)
    column = next(f["name"] for f in opened["schema"]["fields"] if f["name"] not in opened["partition_columns"])
    unsure = {"op": "IS_NOT_NULL", "args": [{"col": [column]}]}
    for predicate in (unsure, None):
        kept = sidecar.plan(opened, limit=1, predicates=[predicate])["tasks"]
        assert len(kept) == len(_plan_of(cow.path()).tasks)


def _plan_of(path: Path) -> Any:
    return headwater.open(path).scan().plan()


def test_a_request_that_is_cancelled_ends_early(tmp_path: Path) -> None:
    with Sidecar() as process:
        opened = process.open(_big_table(tmp_path))
        plan = process.plan(opened)
        process.send("read", scan_id=plan["scan_id"], **plan["tasks"][0]["slice"])
        kind, _ = process.receive()
        assert kind is Kind.DATA
        process.cancel()
        began = time.monotonic()
        found = process.collect()
        assert time.monotonic() - began < 1
        assert found.end["cancelled"] is True
        assert found.end["metrics"]["rows"] < 3_000_000
        assert process.ask("ping") == {}
        # A cancel that comes too late does not hit the next request.
        process.cancel()
        again = process.stream("read", scan_id=plan["scan_id"], **plan["tasks"][0]["slice"])
        assert again.end["cancelled"] is False
        assert again.rows is not None
        assert again.rows.num_rows == 3_000_000


def _big_table(folder: Path) -> Path:
    """A table whose base file is more than a pipe holds: that of a small one, with many rows in its place."""
    small = next(t for t in suites.tables("generated") if t.kind == "COW" and "part" not in t.name)
    target = folder / "big"
    shutil.copytree(small.path(), target)
    (task,) = _plan_of(target).tasks[:1]
    file = target / task.slice.paths[0]
    rows = pq.read_table(file)
    many = rows.slice(0, 1).take(pa.array([0] * 3_000_000))
    pq.write_table(many, file)
    shutil.rmtree(target / ".hoodie" / "metadata", ignore_errors=True)
    return target


def test_metadata_columns_come_last(sidecar: Sidecar) -> None:
    path = next(
        t.path()
        for t in suites.tables("generated")
        if t.kind == "MOR" and headwater.open(t.path()).hudi.config.partition_fields and _with_logs(t.path())
    )
    opened = sidecar.open(path)
    columns = ["_file", "_pos", "_partition"]
    plan = sidecar.plan(opened, metadata_columns=columns)
    task = next(task for task in plan["tasks"] if task["how"] == "positional")
    arguments = {"scan_id": plan["scan_id"], **task["slice"]}
    merged = sidecar.stream("merge", **arguments, rows=True)
    assert merged.rows is not None
    assert merged.rows.column_names[-3:] == columns
    assert merged.rows.column("_pos").null_count == merged.rows.num_rows
    read = sidecar.stream("read", **arguments)
    assert read.rows is not None
    assert set(read.rows.column("_file").to_pylist()) == {task["path"]}
    positions = [p for p in read.rows.column("_pos").to_pylist() if p is not None]
    assert merged.dropped is not None
    assert not set(positions) & set(merged.dropped)
    assert len(positions) + merged.rows.num_rows == read.rows.num_rows
    values = plan["partitions"][task["partition"]]["values"]
    for row in read.rows.column("_partition").to_pylist():
        assert row == {name: values.get(name) for name in opened["partition_columns"]}


def test_executors_see_the_state_that_was_planned(tmp_path: Path) -> None:
    """The table's own metadata may change or be gone once a plan is made: only data files are read."""
    source = next(t for t in suites.tables("generated") if t.kind == "MOR" and _with_logs(t.path()))
    path = shutil.copytree(source.path(), tmp_path / "t")
    with Sidecar() as driver, Sidecar() as executor:
        opened = driver.open(path)
        plan = driver.plan(opened)
        expected = headwater.open(path).scan().to_arrow()
        shutil.rmtree(path / ".hoodie")
        executor.ask("scan", scan_id=plan["scan_id"], blobs=[base64.b64decode(plan["scan"])])
        found = [executor.stream("read", scan_id=plan["scan_id"], **task["slice"]).rows for task in plan["tasks"]]
        assert sum(rows.num_rows for rows in found if rows is not None) == expected.num_rows
        task = next(task for task in plan["tasks"] if task["how"] == "positional")
        assert executor.stream("merge", scan_id=plan["scan_id"], **task["slice"], rows=False).rows is None


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    source = next(t for t in suites.tables("generated") if t.kind == "MOR" and _with_logs(t.path()))
    path = shutil.copytree(source.path(), tmp_path / "t")
    with Sidecar() as process:
        plan = process.plan(process.open(path))
        task = next(task for task in plan["tasks"] if task["how"] == "positional")
        for file in (path / task["path"]).parent.glob(".*.log.*"):
            file.unlink()
        for op in ("read", "merge"):
            with pytest.raises(SidecarError, match=r"\.log\.") as caught:
                process.stream(op, scan_id=plan["scan_id"], **task["slice"])
            assert caught.value.type == "MissingFile"
        assert process.ask("ping") == {}


def test_a_scan_on_a_filesystem_of_fsspec_can_be_sent(trips: Path) -> None:
    import fsspec

    table = headwater.open(str(trips), filesystem=fsspec.filesystem("file"))
    planned, reader = table.scan().prepare()
    scan = SliceScan(reader, arrow_schema(to_spark(table.schema)))
    again = SliceScan.from_bytes(scan.to_bytes("1"), "1")
    rows = [part.num_rows for task in planned.tasks for part in again.read(task.slice)]  # type: ignore[arg-type]
    assert sum(rows) == table.scan().count()


def test_a_mergers_module_is_imported_first(tmp_path: Path) -> None:
    (tmp_path / "mergers.py").write_text("import headwater\nheadwater.register_merger('com.example.Own', object())\n")
    with Sidecar({"HEADWATER_IMPORT": "mergers", "PYTHONPATH": str(tmp_path)}) as process:
        assert process.ask("ping") == {}


def _with_logs(path: Path) -> bool:
    return any(task.slice.base_file is not None and task.slice.delta_files for task in _plan_of(path).tasks)
