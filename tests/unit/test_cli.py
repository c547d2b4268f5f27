"""The `headwater` command: what it prints, what programs get from it, and how it ends."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import headwater
from headwater.cli.app import app
from headwater.demo import demo_table
from headwater.picture import picture
from headwater.spec.model import ChangeSlice

TRIPS = ("20261115073146372", "20261115073152107", "20261115073157687", "20261115073201626", "20261115073206395")


def run(*args: str, **env: str) -> Result:
    return CliRunner().invoke(app, list(args), env={"COLUMNS": "100", "NO_COLOR": "1", **env})


def as_json(*args: str) -> object:
    result = run(*args, "--output", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def rows_of(*args: str) -> list[dict[str, object]]:
    result = run("read", *args, "--format", "json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def process(*args: str, **options: object) -> subprocess.Popen[bytes]:
    """The real command."""
    command = [sys.executable, "-c", "from headwater.cli import main; main()", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload,no-any-return]


# What it tells


def test_describe_tells_kind_keys_size_and_pending_work() -> None:
    found = as_json("describe", "demo:trips")
    assert isinstance(found, dict)
    assert (found["type"], found["version"], found["record_key"]) == ("MERGE_ON_READ", 9, ["id"])
    assert found["pending"] == ["20261115073200297.compaction.requested"]
    assert (found["partitions"], found["slices"], found["files"]) == (3, 4, 10)
    text = run("describe", "demo:trips").stdout
    assert "MERGE_ON_READ" in text
    assert "1.7 MB" in text


def test_history_is_a_list_for_programs() -> None:
    found = as_json("history", "demo:trips")
    assert isinstance(found, list)
    assert [row["requested_at"] for row in found if row["state"] == "completed"] == list(TRIPS)


def test_history_draws_pending_actions_hollow_within_80_columns() -> None:
    text = run("history", "demo:trips", COLUMNS="80").stdout
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].count("◆") == 1 + 5
    assert "△" in lines[2]
    assert TRIPS[0] in text


def test_history_shows_the_newest_so_many() -> None:
    found = as_json("history", "demo:legacy", "--limit", "2")
    assert isinstance(found, list)
    assert [row["action"] for row in found] == ["deltacommit", "commit"]


def test_schema_tells_roles() -> None:
    found = as_json("schema", "demo:stats")
    assert isinstance(found, list)
    roles = {column["name"]: column["roles"] for column in found}
    assert roles["id"] == ["key"]
    assert roles["city"] == ["partition"]
    assert roles["ts"] == ["ordering"]
    assert roles["_hoodie_record_key"] == ["meta"]
    assert "decimal128(12, 3)" in run("schema", "demo:stats").stdout


def test_files_lists_logs_under_their_base_file() -> None:
    found = as_json("files", "demo:trips", "--partition", "city=sf")
    assert isinstance(found, list)
    assert [row["kind"] for row in found] == ["base", "log", "log"]
    assert run("files", "demo:trips").stdout.count(".log.") == 6


def test_explain_tells_what_was_skipped() -> None:
    found = as_json("explain", "demo:trips", "--filter", "city = 'sf'")
    assert isinstance(found, dict)
    assert found["steps"][0] == {"name": "prune partitions", "total": 3, "kept": 1, "unit": "partitions", "note": ""}
    assert len(found["slices"]) == 1
    assert "1 of 3 partitions" in run("explain", "demo:trips", "--filter", "city = 'sf'").stdout


def test_explain_tells_the_passes_in_the_order_they_run() -> None:
    text = run("explain", "demo:stats", "--filter", "id > 20").stdout
    assert re.findall(r"^  (\w[\w ]+): (.*)$", text, re.MULTILINE) == [
        ("prune partitions", "4 of 4 partitions"),
        ("prune by partition statistics", "1 of 4 partitions (on id)"),
        ("list slices", "1 of 1 slice (by the metadata table)"),
        ("prune by column statistics", "1 of 1 slice (on id)"),
    ]
    assert re.search(r"^  read +1 slice, [\d.]+ KB$", text, re.MULTILINE)


def test_explain_of_changes_names_the_commits() -> None:
    found = as_json("explain", "demo:orders", "--changes", "--since", "20261115073236363")
    assert isinstance(found, dict)
    assert (found["mode"], found["commits"]) == ("cdc", ["20261115073239382"])


def test_explain_of_changes_tells_the_bytes_of_each_file_once() -> None:
    plan = headwater.open(demo_table("orders")).changes().plan()
    changes = [task.slice for task in plan.tasks if isinstance(task.slice, ChangeSlice)]
    assert changes
    for change in changes:
        parts = [part for part in (change.before, change.after) if part is not None]
        files = {path for part in parts for path in part.paths} | {file.path for file in change.change_files}
        sizes = [entry.stat().st_size for path in files if (entry := Path(demo_table("orders")) / path)]
        assert change.size == sum(sizes) > 0
    assert plan.bytes == sum(change.size for change in changes)
    assert f"{plan.reads}, " in str(plan)
    assert [(step.kept, step.total) for step in plan.steps] == [(3, 3), (len(changes), len(changes))]
    assert ", 0 B" not in str(plan)


# Reading


def test_read_shows_a_table_without_meta_columns() -> None:
    text = run("read", "demo:trips").stdout
    assert "_hoodie" not in text
    assert "n31_3" in text
    assert "11 rows" in text
    assert "_hoodie_rec" in run("read", "demo:trips", "--meta").stdout


def test_read_lists_columns_where_the_table_is_too_narrow() -> None:
    lines = run("read", "demo:stats", "--limit", "1", COLUMNS="40").stdout.splitlines()
    assert lines[0] == "row 1"
    assert lines[1].split() == ["id", "30"]


def test_read_stops_at_the_limit() -> None:
    assert len(rows_of("demo:trips", "--limit", "3")) == 3
    assert rows_of("demo:trips", "--limit", "0") == []
    assert "3 rows" in run("read", "demo:trips", "--limit", "3").stdout


def test_read_json_is_one_object_a_line_with_every_column() -> None:
    rows = rows_of("demo:stats")
    assert len(rows) == 13
    by_id = {row["id"]: row for row in rows}
    assert by_id[30]["amt"] == "30.001"
    assert by_id[30]["day"] == "2024-01-03"
    assert by_id[30]["at"] == "2024-01-01T06:00:00.000030+00:00"
    assert by_id[8]["note"] is None
    assert by_id[6]["price"] == "-Infinity"
    assert "_hoodie_commit_time" in by_id[30]
    assert "_hoodie_commit_time" not in rows_of("demo:stats", "--no-meta")[0]


def test_output_json_is_format_json() -> None:
    assert run("read", "demo:trips", "--output", "json").stdout == run("read", "demo:trips", "--format", "json").stdout


def test_filter_and_columns() -> None:
    found = rows_of("demo:trips", "--filter", "city = 'sf' AND price > 15", "--columns", "id, price")
    assert found == [{"id": 12, "price": 18.0}]


def test_as_of_reads_the_past() -> None:
    assert len(rows_of("demo:trips", "--as-of", TRIPS[0])) == 12


def test_read_optimized_leaves_logs_out() -> None:
    by_id = {row["id"]: row["name"] for row in rows_of("demo:trips", "--mode", "read_optimized")}
    assert by_id[1] == "n1_0"


def test_since_and_until_read_what_changed() -> None:
    assert {row["id"] for row in rows_of("demo:trips", "--since", TRIPS[2])} == {2, 5, 31}
    assert {row["id"] for row in rows_of("demo:trips", "--since", TRIPS[1], "--until", TRIPS[2])} == {1, 4}


def test_cleaned_range_is_an_error_unless_what_is_left_will_do() -> None:
    cleaned = ("demo:legacy", "--until", "20261115082939352")
    for told in ((), ("--if-cleaned", "raise")):
        result = run("read", *cleaned, *told)
        assert result.exit_code == 2
        assert "the earliest instant that can still be read is 20261115082951661" in result.stderr
    # What no commit changed since then is in newer files.
    left = [row for row in rows_of("demo:legacy") if row["_hoodie_commit_time"] == "20261115082939352"]
    assert rows_of(*cleaned, "--if-cleaned", "best_effort") == left != []


def test_changes_carry_the_rows_before_and_after() -> None:
    found = rows_of("demo:orders", "--changes", "--since", "20261115073233098", "--until", "20261115073236363")
    assert sorted((change["op"], change["before"]["id"]) for change in found) == [("d", 2), ("d", 4)]  # type: ignore[index]
    assert all(change["after"] is None for change in found)


def test_rows_are_the_same_without_the_metadata_table() -> None:
    assert rows_of("demo:stats", "--no-metadata") == rows_of("demo:stats")


def test_csv_round_trip(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    assert run("read", "demo:trips", "--out", str(out)).exit_code == 0
    expected = headwater.open(demo_table("trips")).scan().to_arrow()
    assert (
        pacsv.read_csv(out).select(["id", "price", "city"]).to_pylist()
        == expected.select(["id", "price", "city"]).to_pylist()
    )
    text = run("read", "demo:trips", "--format", "csv", "--columns", "id,name", "--filter", "id = 8").stdout
    assert text == '"id","name"\n8,"n8_0"\n'


def test_csv_writes_nested_values_as_json() -> None:
    result = run("read", "demo:orders", "--changes", "--since", "20261115073236363", "--format", "csv")
    rows = pacsv.read_csv(io.BytesIO(result.stdout_bytes)).to_pylist()
    assert {json.loads(row["after"])["name"] for row in rows} == {"n1_3", "n2_3"}


def test_parquet_round_trip(tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    result = run("read", "demo:stats", "--out", str(out))
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "13 rows written" in result.stderr
    written, expected = pq.read_table(out), headwater.open(demo_table("stats")).scan().to_arrow()
    assert written.schema.equals(expected.schema)
    assert repr(written.to_pylist()) == repr(expected.to_pylist()), "as text, because NaN equals nothing"
    assert os.listdir(tmp_path) == ["rows.parquet"]


def test_failed_write_leaves_no_file(tmp_path: Path) -> None:
    table = Path(shutil.copytree(demo_table("trips"), tmp_path / "trips"))
    for base in table.glob("city=sf/*.parquet"):
        base.write_bytes(base.read_bytes()[:-200])
    (tmp_path / "out").mkdir()
    result = run("read", str(table), "--out", str(tmp_path / "out" / "rows.json"))
    assert result.exit_code == 2
    assert os.listdir(tmp_path / "out") == []


def test_lookup_gives_the_rows_of_keys() -> None:
    result = run("lookup", "demo:trips", "4", "31", "99", "--output", "json")
    assert result.exit_code == 0, result.output
    assert {json.loads(line)["name"] for line in result.stdout.splitlines()} == {"n4_2", "n31_3"}
    assert "n4_2" in run("lookup", "demo:trips", "4").stdout


# How it ends


def damaged(into: Path) -> Path:
    table = Path(shutil.copytree(demo_table("trips"), into / "trips"))
    next(table.glob("city=sf/*.parquet")).unlink()
    return table


def test_verify_of_a_whole_table_exits_with_0() -> None:
    assert as_json("verify", "demo:stats")["ok"] is True  # type: ignore[index,call-overload]
    assert run("verify", "demo:stats", "--deep").stdout.startswith("fine ")


def test_verify_of_a_damaged_table_exits_with_1(tmp_path: Path) -> None:
    table = damaged(tmp_path)
    result = run("verify", str(table))
    assert result.exit_code == 1
    assert result.stdout.startswith("damaged (1 errors, 0 warnings)")
    assert "→ restore the file" in result.stdout
    found = run("verify", str(table), "--output", "json")
    assert found.exit_code == 1
    (finding,) = json.loads(found.stdout)["findings"]
    assert (finding["severity"], finding["what"][:22]) == ("error", "the file is not there;")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("describe", "/no/such/table"), "no Hudi table here: there is no such folder"),
        (("describe", "demo:nothing"), "no demo table 'nothing'; there are: trips, orders, stats, legacy"),
        (("read", "demo:trips", "--columns", "nope"), "no column 'nope'; the table has:"),
        (("read", "demo:trips", "--filter", "price >"), "price >"),
        (("read", "demo:trips", "--as-of", "yesterday"), "'yesterday' is no point in time"),
        (("read", "demo:trips", "--as-of", "2020-01-01"), "nothing was committed by"),
        (("read", "demo:trips", "--out", "/no/such/folder/rows.csv"), "cannot be written"),
        (("read", "demo:trips", "--out", "rows.xlsx"), "does not tell the format"),
        (("files", "demo:trips", "--partition", "x"), "no partition 'x'"),
        (("schema", "demo:trips", "--as-of", "2020-01-01"), "nothing was committed by"),
    ],
)
def test_errors_are_one_line_on_stderr_and_exit_code_2(args: tuple[str, ...], said: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_brackets_in_an_error_are_not_markup() -> None:
    assert "[red]x[/red]" in run("describe", "/no/[red]x[/red]").stderr


def test_debug_shows_the_traceback() -> None:
    result = run("describe", "/no/such/table", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "TableNotFound" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("read",),
        ("nothing",),
        ("read", "demo:trips", "--limit", "-1"),
        ("read", "demo:trips", "--mode", "other"),
        ("read", "demo:trips", "--as-of", TRIPS[0], "--since", TRIPS[1]),
        ("read", "demo:trips", "--mode", "snapshot", "--changes"),
        ("read", "demo:orders", "--changes", "--columns", "id"),
        ("read", "demo:trips", "--format", "table", "--out", "x"),
        ("read", "demo:legacy", "--if-cleaned", "best_effort"),
        ("read", "demo:orders", "--changes", "--if-cleaned", "best_effort"),
        ("read", "demo:legacy", "--since", "20261115082939352", "--if-cleaned", "guess"),
    ],
)
def test_wrong_calls_exit_with_2(args: tuple[str, ...]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_rollback_undoes_the_newest_write_and_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    table = headwater.create(folder, schema=pa.schema([("id", pa.string())]), key="id")
    first = table.insert([{"id": "a"}]).instant
    second = table.insert([{"id": "b"}]).instant
    assert first is not None
    assert second is not None
    refused = run("rollback", str(folder), first.requested_at)
    assert refused.exit_code == 2
    assert "is not the newest write" in refused.stderr
    done = run("rollback", str(folder), second.requested_at, "--output", "json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["undone"] == second.requested_at
    assert headwater.open(folder).scan(columns=["id"]).to_arrow().to_pylist() == [{"id": "a"}]
    assert "no longer counts" in run("rollback", str(folder), first.requested_at).stdout


def test_version() -> None:
    assert run("--version").stdout == f"headwater {headwater.__version__}\n"


@pytest.mark.parametrize(
    "command", ["describe", "history", "schema", "files", "read", "explain", "lookup", "verify", "rollback"]
)
def test_every_command_has_help_with_an_example(command: str) -> None:
    text = re.sub(r"\s+", " ", run(command, "--help").stdout)
    assert f"Example: headwater {command} demo:" in text
    assert "--no-metadata" in text
    assert "--output" in text


def test_real_command_exits_with_its_code_and_speaks_plain_text_into_a_pipe(tmp_path: Path) -> None:
    done = process("verify", str(damaged(tmp_path)))
    out, err = done.communicate(timeout=60)
    assert done.returncode == 1
    assert out.startswith(b"damaged")
    assert b"\x1b" not in out + err


def test_parquet_into_a_pipe() -> None:
    done = process("read", "demo:trips", "--format", "parquet")
    out, _ = done.communicate(timeout=60)
    assert done.returncode == 0
    assert pq.read_table(pa.BufferReader(out)).num_rows == 11


def test_closed_pipe_is_silent() -> None:
    done = process("read", "demo:stats", "--format", "json")
    assert done.stdout is not None
    assert done.stderr is not None
    done.stdout.close()
    assert (done.stderr.read(), done.wait(60)) == (b"", 141)


def test_interrupt_exits_with_130() -> None:
    # A shell in the background hands down that interrupts are to be ignored.
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    done = process("read", "demo:stats", "--format", "json", **heard)
    assert done.stdout is not None
    assert done.stderr is not None
    fcntl.fcntl(done.stdout, 1031, 4096)  # F_SETPIPE_SZ: less than the output, so that the command waits for us
    select.select([done.stdout], [], [], 60)
    done.send_signal(signal.SIGINT)
    assert (done.stderr.read(), done.wait(60)) == (b"interrupted\n", 130)
    done.stdout.close()


# The picture


def history(*times: str, action: str = "commit") -> pa.Table:
    schema = headwater.open(demo_table("trips")).inspect.history().schema
    rows = [{"requested_at": t, "action": action, "state": "completed", "archived": False} for t in times]
    return pa.Table.from_pylist(rows, schema=schema)


def test_picture_of_nothing() -> None:
    assert picture(history()).plain == "no action yet"


def test_picture_of_one_action() -> None:
    assert picture(history("20260101000000000"), width=40).plain.count("●") == 2


def test_actions_that_share_a_column_are_counted() -> None:
    times = [f"20260101{hour:02}{minute:02}00000" for hour in range(24) for minute in range(0, 60, 10)]
    lines = picture(history(*times), width=60).plain.splitlines()
    assert max(map(len, lines)) <= 60
    assert set(lines[1].split()[-1]) <= set("23456789")


def test_actions_far_apart_in_time_keep_apart_from_their_neighbours() -> None:
    lines = picture(history("20260101000000000", "20260101000001000", "20260301000000000"), width=60).plain.splitlines()
    assert lines[1].count("●") == 1 + 3
    assert "01-01 00:00" in lines[-1]


def test_instants_that_are_no_times_stand_in_order() -> None:
    assert picture(history("001", "002"), width=40).plain.splitlines()[1].count("●") == 1 + 2


def test_picture_in_letters() -> None:
    text = picture(headwater.open(demo_table("trips")).inspect.history(), width=60, plain=True).plain
    assert text.isascii()
    assert "p" in text.splitlines()[2].split()[-1]


def test_terminal_that_knows_ascii_only_gets_letters() -> None:
    result = CliRunner(charset="ascii").invoke(app, ["history", "demo:legacy"])
    assert result.exit_code == 0
    assert "D delta commit" in result.stdout
    assert CliRunner(charset="ascii").invoke(app, ["explain", "demo:stats"]).exit_code == 0
