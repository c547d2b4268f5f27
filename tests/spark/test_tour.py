"""The tour through Spark shows the rows, what was pushed down, and ratios."""

from __future__ import annotations

import subprocess
import sys


def test_tour_shows_rows_plan_and_ratios() -> None:
    # A process of its own: the tour stops its session, which would be that of the other tests.
    done = subprocess.run(
        [sys.executable, "-m", "headwater.spark.tour"], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "11 rows, as without Spark" in done.stdout
    assert "12 rows, as without Spark" in done.stdout
    assert "fully pushed: [city IS NOT NULL, city = 'sf']" in done.stdout
    for query in ("full scan", "sum by city", "count", "one city"):
        assert f"  {query:<14}" in done.stdout
