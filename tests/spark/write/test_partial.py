"""Partial updates by executors, where logs hold whole rows only."""

from __future__ import annotations

from pathlib import Path

from tests.spark.write.frames import batch, content, make, on_executors


def test_partial_updates_of_version_6_are_whole_rows_in_the_log(tmp_path: Path) -> None:
    with on_executors():
        table = make(tmp_path / "t", batch(0, 9, tag="kept"), kind="mor", version=6)
        table.bulk_insert(batch(0, 9, tag="kept"))
        result = table.upsert(batch(0, 9, 3, ts=9).select("id", "ts", "city"), partial=True)
    assert all(file.is_log and b"kept" in (tmp_path / "t" / file.path).read_bytes() for file in result.files)
    updated = content(table, ["id", "ts", "v"]).slice(0, 4).to_pylist()
    assert [(row["id"], row["ts"], row["v"]) for row in updated] == [
        ("k000000", 9, "kept"),
        ("k000001", 1, "kept"),
        ("k000002", 2, "kept"),
        ("k000003", 12, "kept"),
    ]
