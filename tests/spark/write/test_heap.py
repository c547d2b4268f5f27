"""The driver's JVM lets go of rows that were brought to Python before they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.session import spark

from headwater.spark.write import heap, save

LARGE = 100_000


def test_the_heap_is_collected_once_many_rows_were_brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_alive", {})
    rows = spark().range(LARGE).selectExpr("id", "1 AS ts", "repeat(md5(CAST(id AS string)), 8) AS note")
    result = save(rows, tmp_path / "t", "append", {"key": "id", "ordering": "ts", "operation": "upsert"})
    assert result is not None
    assert result.inserted == LARGE
    assert heap._alive[spark().sparkContext.applicationId] > 0


def test_it_is_left_alone_for_few_rows_and_where_much_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    application = spark().sparkContext.applicationId
    monkeypatch.setattr(heap, "_alive", {})
    heap.clear_heap(spark(), 1024)
    assert not heap._alive
    much = heap._MOST_ALIVE + 1
    monkeypatch.setattr(heap, "_alive", {application: much})
    heap.clear_heap(spark(), 2**30)
    assert heap._alive == {application: much}
