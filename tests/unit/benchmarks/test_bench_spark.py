"""The pure parts of the Spark benchmark: its rows, its tables without Spark, its verdicts and its report."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benchmarks.spark import __main__ as benchmark
from benchmarks.spark import document, generated, queries, real, report, results, session, states
from benchmarks.spark.noise import Clocks, busy_elsewhere, our_work
from benchmarks.spark.queries import FALLBACK, HEADWATER, HUDI, ICEBERG, MERGE, PARQUET, STABLE, Bar, Query
from benchmarks.spark.session_job import joins
from benchmarks.spark.tables import Tables
from benchmarks.tables import plain, rows

import headwater

TOTAL = 4_000
CHUNKS = rows.chunks(TOTAL, plain.ROWS_PER_FILE)


def final(rows_of: Any) -> pa.Table:
    return pa.concat_tables(rows_of(chunk, TOTAL) for chunk in CHUNKS).sort_by("id")


def read(table: Path, columns: list[str]) -> pa.Table:
    return headwater.open(str(table)).scan(columns=columns).to_arrow().select(columns).sort_by("id")


def test_five_commits_update_two_percent_each_and_delete_one() -> None:
    whole = rows.Chunk(0, 0, 0, 200_000)
    commit = states.updated_in(whole)
    for number in range(states.ROUNDS):
        assert (commit == number).mean() == pytest.approx(0.02, rel=0.1)
    assert states.is_deleted(whole).mean() == pytest.approx(0.01, rel=0.1)


def test_a_deletion_is_ordered_after_every_update_of_its_row() -> None:
    for chunk in CHUNKS:
        deleted, _ = states.deleted_rows(chunk, TOTAL)
        for number in range(states.ROUNDS):
            updated, _ = states.round_rows(chunk, TOTAL, number)
            both = deleted.join(updated, "id", right_suffix="_u", join_type="inner")
            assert pc.all(pc.greater(both["ts"], both["ts_u"])).as_py() in (True, None)


def test_ts_still_ascends_after_the_five_updates() -> None:
    for chunk in CHUNKS:
        ts = states.five_rows(chunk, TOTAL)["ts"].to_pylist()
        assert ts == sorted(ts)


@pytest.mark.parametrize("logs", ["avro", "parquet"])
def test_generated_table_of_five_commits_holds_the_final_rows(tmp_path: Path, logs: generated.Logs) -> None:
    generated.write_five(tmp_path, TOTAL, logs)
    assert read(tmp_path, rows.COLUMNS).equals(final(states.five_rows))


@pytest.mark.parametrize("evolves", [True, False])
def test_generated_evolved_tables_hold_the_final_rows(tmp_path: Path, evolves: bool) -> None:
    names = states.EVOLVED_SCHEMA.names
    generated.write_evolved_cow(tmp_path / "cow", TOTAL, evolves=evolves)
    generated.write_evolved_mor(tmp_path / "mor", TOTAL, evolves=evolves)
    assert read(tmp_path / "cow", names).equals(final(states.evolved_cow_rows))
    assert read(tmp_path / "mor", names).equals(final(states.evolved_mor_rows))


def test_generated_dimension_has_a_row_for_each_name(tmp_path: Path) -> None:
    generated.write_dimension(tmp_path)
    assert read(tmp_path, states.DIMENSION.names).equals(states.dimension_rows().sort_by("id"))


def test_hudi_writes_every_table_that_a_query_reads(tmp_path: Path) -> None:
    written = {Path(step["path"]).relative_to(tmp_path).as_posix() for step in real.steps(tmp_path, TOTAL)}
    shared = {"cow", "mor_avro", "mor_parquet"}
    for query in queries.queries(TOTAL):
        for table in {query.table, query.stable} - {"", "many_10k"} - shared:
            assert f"hudi-{TOTAL}/{table}" in written
        assert query.plain == "many_10k" or f"spark-plain-{TOTAL}/{query.plain}" in written


def test_query_names_are_unique_and_the_baseline_is_always_asked() -> None:
    asked = queries.queries(TOTAL)
    assert len({query.name for query in asked}) == len(asked)
    for query in queries.chosen(asked, [], [HEADWATER], peers=True):
        assert query.systems[0] == PARQUET
        assert set(query.systems) <= {PARQUET, HEADWATER}


def test_chosen_queries_follow_names_and_systems() -> None:
    asked = queries.queries(TOTAL)
    only = queries.chosen(asked, ["cow_full", "plan_"], [], peers=True)
    assert [query.name for query in only] == ["cow_full", "plan_one", "plan_all"]
    assert all(query.systems[-1] == HUDI for query in only)


def test_every_bar_is_held_against_a_system_that_takes_part_or_a_peer() -> None:
    for query in queries.queries(TOTAL):
        assert {bar.against for bar in query.bars} <= {*query.systems, HUDI, ICEBERG}


def test_the_bars_of_the_issue() -> None:
    by_name = {query.name: [str(bar) for bar in query.bars] for query in queries.queries(TOTAL)}
    assert by_name["cow_full"] == ["≤ 1.05×", "≤ 1× hudi"]
    assert by_name["mor_avro_full"] == ["≤ 1.4×", "≤ 1.12× (Iceberg)", "≤ 1× iceberg", "≤ 0.2× hudi"]
    assert by_name["mor_parquet_aggregate"] == ["≤ 1.2×", "≤ 1.12× (Iceberg)", "≤ 1× iceberg", "≤ 0.2× hudi"]
    assert by_name["mor_avro_aggregate"] == by_name["mor_parquet_aggregate"]
    assert by_name["cow_count"] == ["≤ 0.5×", "≤ 1× hudi"]
    assert by_name["mor_avro_range"] == ["≤ 1.2×", "≤ 1× iceberg", "≤ 0.2× hudi"]
    assert by_name["evolved_mor_aggregate"] == ["≤ 1.1× headwater, stable", "≤ 0.2× hudi"]


def test_the_looked_up_key_is_in_every_state() -> None:
    key = queries.point_key(TOTAL)
    assert key in final(states.five_rows)["id"].to_pylist()


def test_each_system_reads_its_own_table(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "plain", tmp_path / "hudi", tmp_path / "m", tmp_path / "mp", "generated", "", None)
    (query,) = queries.chosen(queries.queries(TOTAL), ["evolved_mor_scan"], [], peers=False)
    (join,) = queries.chosen(queries.queries(TOTAL), ["mor5_avro_broadcast"], [], peers=False)
    assert session.paths(query, PARQUET, tables) == {"t": f"{tmp_path}/plain/evolved_mor"}
    assert session.paths(query, STABLE, tables) == {"t": f"{tmp_path}/hudi/stable_mor"}
    assert session.paths(join, HEADWATER, tables)["dimension"] == f"{tmp_path}/hudi/dimension"
    assert session.paths(join, PARQUET, tables) == {
        "t": f"{tmp_path}/plain/five",
        "dimension": f"{tmp_path}/plain/dimension",
    }


def test_iceberg_is_asked_where_a_bar_is_held_against_it(tmp_path: Path) -> None:
    tables = Tables(tmp_path, tmp_path, tmp_path, tmp_path, "hudi", "", tmp_path / "hudi.jar", tmp_path / "iceberg")
    asked = {query.name: query for query in queries.chosen(queries.queries(TOTAL), [], [], peers=True)}
    beside = {name for name, query in asked.items() if ICEBERG in query.systems}
    assert {"mor_avro_full", "mor_parquet_aggregate", "mor_parquet_point"} <= beside
    assert all(name.startswith(("mor_avro_", "mor_parquet_")) for name in beside)
    assert all("{dimension}" not in asked[name].sql for name in beside)
    assert session.paths(asked["mor_avro_full"], ICEBERG, tables) == {"t": f"{tmp_path}/iceberg"}
    assert all(ICEBERG not in query.systems for query in queries.chosen(queries.queries(TOTAL), [], [], peers=False))


def test_every_table_has_a_session_of_its_own(tmp_path: Path) -> None:
    found = Tables(tmp_path, tmp_path, tmp_path, tmp_path, "generated", "", None)
    given = Namespace(rows=TOTAL, only=["cow_", "mor_avro_"], systems=[], peers=None)
    planned = [group for _, _, group in benchmark._sessions(given, found, print)]
    assert [{query.table for query in group} for group in planned] == [
        {"cow"}, {"mor_avro"}, {"evolved_cow"}, {"cow"}, {"mor_avro"}
    ]  # fmt: skip
    asked = queries.chosen(queries.queries(TOTAL), given.only, [], peers=False)
    assert [query.name for group in planned[:3] for query in group] == [query.name for query in asked]
    assert all(FALLBACK not in query.systems for group in planned[:3] for query in group)
    apart = [query for group in planned[3:] for query in group]
    assert {query.name for query in apart} == {query.name for query in asked if FALLBACK in query.systems}
    assert all(query.systems == (PARQUET, FALLBACK) for query in apart)


def told(seconds: list[float], answer: Any = ((1,),), **more: Any) -> dict[str, Any]:
    return {"seconds": seconds, "answer": [list(row) for row in answer] if answer else None, "error": None} | more


def measured(bar: Bar, busy: float = 0.0, **systems: dict[str, Any]) -> results.Result:
    names = {"parquet": PARQUET, "ours": HEADWATER, "hudi": HUDI, "iceberg": ICEBERG}
    given = {names[name]: said for name, said in systems.items()}
    query = Query("q", "q", "cow", "base", "", "collect", "answer", systems=tuple(given), bars=(bar,))
    return results.result(query, {"query": "q", "busy": [busy, busy + 1], "systems": given})


def verdict(result: results.Result) -> str:
    (check,) = result.checks
    return check.verdict


def test_verdicts_are_of_the_best_turns() -> None:
    result = measured(Bar(1.1), parquet=told([1.0, 1.02, 5.0]), ours=told([1.09, 1.1]))
    assert result.ratio(HEADWATER) == pytest.approx(1.09)
    assert verdict(result) == "met"
    assert verdict(measured(Bar(1.05), parquet=told([1.0, 1.0]), ours=told([1.09, 1.1]))) == "missed"
    assert verdict(measured(Bar(0.2, HUDI), parquet=told([1.0]), ours=told([1.0]), hudi=told([6.0]))) == "met"


def test_what_noise_spoiled_is_asked_once_more() -> None:
    first = measured(Bar(1.1), parquet=told([1.0, 1.4]), ours=told([1.2, 1.2]))
    assert first.spoiled
    better = measured(Bar(1.1), parquet=told([1.2, 1.2]), ours=told([1.2, 1.2]))
    worse = measured(Bar(1.1), parquet=told([1.0, 1.0]), ours=told([1.3, 1.3]))
    loud = measured(Bar(1.1), parquet=told([1.0, 1.4]), ours=told([1.0, 1.0]))
    assert verdict(first.asked_again(better)) == "met"
    assert verdict(first.asked_again(worse)) == "missed"
    assert first.asked_again(loud) is first
    found = [first]
    benchmark._put_in_place(found, worse)
    benchmark._put_in_place(found, better)
    assert [verdict(result) for result in found] == ["missed"]


def test_figures_of_two_sessions_are_compared_as_multiples_of_their_baselines() -> None:
    ours = measured(Bar(1.0, ICEBERG), parquet=told([1.0, 1.0]), ours=told([1.3, 1.3]))
    theirs = measured(Bar(1.0, ICEBERG), parquet=told([2.0, 2.0]), iceberg=told([2.8, 2.8]))
    assert not ours.checks
    both = ours.with_others(theirs)
    assert both.figures[PARQUET] == ours.figures[PARQUET]
    assert both.ratio(ICEBERG) == pytest.approx(1.4)
    assert both.ratio(HEADWATER, ICEBERG) == pytest.approx(1.3 / 1.4)
    assert verdict(both) == "met"
    slower = measured(Bar(1.0, ICEBERG), parquet=told([1.0, 1.0]), ours=told([1.5, 1.5])).with_others(theirs)
    assert verdict(slower) == "missed"


def test_a_fast_wrong_answer_meets_no_bar() -> None:
    wrong = measured(Bar(1.1), parquet=told([1.0, 1.0]), ours=told([0.1, 0.1], answer=((2,),)))
    assert verdict(wrong) == "wrong answer"
    assert wrong.ratio(HEADWATER) is None


def test_a_failure_has_no_figure() -> None:
    failed = measured(Bar(1.1), parquet=told([1.0, 1.0]), ours=told([], answer=None, error="boom"))
    assert verdict(failed) == "no figure"
    assert report.problems([failed]) == ["headwater: boom (q)"]


def test_a_figure_near_its_bar_counts_only_on_a_quiet_machine() -> None:
    assert verdict(measured(Bar(1.1), busy=0.5, parquet=told([1.0, 1.0]), ours=told([1.0, 1.0]))) == "noisy"
    assert verdict(measured(Bar(1.1), parquet=told([1.0, 1.4]), ours=told([1.0, 1.0]))) == "noisy"
    assert verdict(measured(Bar(1.1), busy=0.5, parquet=told([1.0, 1.0]), ours=told([9.0, 9.0]))) == "missed"
    assert verdict(measured(Bar(1.1), busy=1.5, parquet=told([1.0, 1.0]), ours=told([9.0, 9.0]))) == "noisy"
    assert verdict(measured(Bar(0.5), busy=0.5, parquet=told([1.0, 1.0]), ours=told([0.1, 0.1]))) == "met"


def test_bars_against_absent_systems_have_no_verdict() -> None:
    assert measured(Bar(0.2, HUDI), parquet=told([1.0]), ours=told([1.0])).checks == []


def test_answers_agree_up_to_the_order_of_sums() -> None:
    assert results.agree([["a", 1, 0.1 + 0.2]], [["a", 1, 0.3]])
    assert not results.agree([["a", 1, 0.3001]], [["a", 1, 0.3]])
    assert not results.agree([[1]], [[1], [1]])
    assert not results.agree([[1]], [["1"]])
    assert not results.agree(None, [[1]])


def test_joins_tell_what_was_planned_and_what_ran() -> None:
    plan = "AdaptiveSparkPlan\n+- == Final Plan ==\n BroadcastHashJoin [a]\n+- == Initial Plan ==\n SortMergeJoin [a]"
    assert joins(plan) == ["SortMergeJoin", "BroadcastHashJoin"]
    assert joins("+- BroadcastHashJoin [x]") == ["BroadcastHashJoin"]


def test_json_reads_back_as_it_was_written(tmp_path: Path) -> None:
    query = next(q for q in queries.queries(TOTAL) if q.name == "cow_full")
    said = {name: told([1.0, 1.1], joins=["SortMergeJoin"]) for name in (PARQUET, HEADWATER, MERGE, FALLBACK)}
    asked = replace(query, systems=tuple(said))
    one = results.result(asked, {"query": "cow_full", "busy": [0.1], "systems": said})
    path = tmp_path / "spark.json"
    results.write_json(path, {"4.3.0": [one]}, {"rows": TOTAL, "tables_note": "generated", "rounds": 2})
    sessions, facts = results.read_json(path, queries.queries(TOTAL))
    (again,) = sessions["4.3.0"]
    assert again.figures == one.figures
    text = document.render(sessions, facts)
    assert "| COW: full scan | 1.00 | **1.00×** | 1.00× | 1.00× | ≤ 1.05× | met |" in text
    assert "`make bench-spark` repeats it" in text


def test_the_page_says_how_to_repeat_the_half_with_peers() -> None:
    query = replace(queries.queries(TOTAL)[0], systems=(PARQUET, HEADWATER, HUDI))
    said = {name: told([1.0]) for name in query.systems}
    one = results.result(query, {"query": query.name, "busy": [], "systems": said})
    machine = {"cores": 2, "memory_gib": 4, "commit": "abc"}
    facts = {"rows": TOTAL, "tables_note": "", "machine": machine, "rounds": 1, "made_at": "2026-01-01"}
    assert "`PEERS=1 make bench-spark` repeats it" in document.render({"3.5.9": [one]}, facts)


def test_the_page_says_of_each_spark_when_it_was_measured() -> None:
    query = queries.queries(TOTAL)[0]
    one = results.result(query, {"query": query.name, "busy": [], "systems": {PARQUET: told([1.0])}})
    machine = {"cores": 2, "memory_gib": 4, "commit": "abc"}
    facts = {"rows": TOTAL, "tables_note": "", "machine": machine, "rounds": 1, "made_at": "2026-01-01T10:00:00"}
    facts["runs"] = {"3.5.9": {"made_at": "2026-02-03T10:00:00", "commit": "def"}}
    text = document.render({"4.3.0": [one], "3.5.9": [one]}, facts)
    assert "### Spark 4.3.0\n\nMeasured on 2026-01-01, commit abc.\n" in text
    assert "### Spark 3.5.9\n\nMeasured on 2026-02-03, commit def.\n" in text


def test_a_later_run_of_some_queries_is_told_beside_the_earlier_one() -> None:
    first = {"made_at": "2026-01-01T10:00:00", "commit": "abc"}
    second = {"made_at": "2026-02-03T10:00:00", "commit": "def"}
    both = results.with_later(first, second, ["one", "two"])
    assert document._measured(both) == "Measured on 2026-01-01, commit abc; on 2026-02-03, commit def: one, two."
    third = results.with_later(both, {"made_at": "2026-03-04T10:00:00", "commit": "fed"}, ["one"])
    assert document._measured(third).endswith("; on 2026-02-03, commit def: two; on 2026-03-04, commit fed: one.")
    assert results.with_later(third, second, ["one", "two"])["later"] == [second | {"queries": ["one", "two"]}]


def test_a_bar_that_plain_parquet_misses_too_is_told() -> None:
    near = measured(Bar(0.2, HUDI), parquet=told([1.0]), ours=told([0.95]), hudi=told([4.0]))
    far = measured(Bar(0.2, HUDI), parquet=told([1.0]), ours=told([1.5]), hudi=told([6.0]))
    own = measured(Bar(0.9), parquet=told([1.0]), ours=told([1.5]))
    assert [verdict(one) for one in (near, far, own)] == ["missed"] * 3
    assert report.out_of_reach([near, far, own]) == ["missed by plain Parquet too: q (0.25× hudi)"]
    assert report.out_of_reach([far, own]) == []


def test_the_page_keeps_what_others_wrote(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# Benchmarks\n\nFirst.\n")
    document.write(page, f"{document.BEGIN}\nold\n{document.END}\n")
    page.write_text(page.read_text() + "\n## After\n")
    document.write(page, f"{document.BEGIN}\nnew\n{document.END}\n")
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("# Benchmarks\n\nFirst.\n\n" + document.BEGIN)
    assert text.endswith(f"new\n{document.END}\n\n## After\n")


@pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="the system has no /proc")
def test_our_own_work_is_not_others() -> None:
    before = Clocks.now()
    sum(i * i for i in range(2_000_000))
    after = Clocks.now()
    assert before is not None
    assert after is not None
    assert after.ours > before.ours
    assert busy_elsewhere(before, after) is not None


def test_work_of_others_is_what_is_left() -> None:
    assert busy_elsewhere(Clocks(0.0, 10.0, 5.0), Clocks(2.0, 14.0, 6.0)) == pytest.approx(1.5)
    assert busy_elsewhere(None, Clocks(2.0, 14.0, 6.0)) is None


def test_work_is_unknown_where_one_of_our_processes_ended() -> None:
    before = Clocks(0.0, 10.0, 5.0, frozenset({1, 2}))
    assert our_work(before, Clocks(2.0, 14.0, 6.0, frozenset({1, 2, 3}))) == pytest.approx(1.0)
    assert our_work(before, Clocks(2.0, 14.0, 3.0, frozenset({1}))) is None
    assert busy_elsewhere(before, Clocks(2.0, 14.0, 3.0, frozenset({1}))) is None
