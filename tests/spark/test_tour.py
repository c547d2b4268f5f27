"""The demo through Spark: a table's life, and a shipped table's rows and plan."""

from __future__ import annotations

import subprocess
import sys


def test_the_story_is_told_to_its_end() -> None:
    # A process of its own: the story stops its session, which would be that of the other tests.
    done = subprocess.run(
        [sys.executable, "-m", "headwater.spark.story"], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for told in (
        "400,000 rows inserted",
        "0 rows inserted, 40,000 updated, 0 deleted",
        "1 row inserted, 1 updated, 0 deleted",
        "0 rows inserted, 0 updated, 7,593 deleted",
        "|lima|133333|",
        "|400000|",
        "|392408|",
        "{'op': 'd', 'count_all': 7593}",
        "4 done",
        "11 rows, as without Spark",
        "12 rows, as without Spark",
        "fully pushed: [city IS NOT NULL, city = 'sf']",
    ):
        assert told in done.stdout, told
    for query in ("sum by city", "count", "one city", "one key"):
        assert f"  {query:<14}" in done.stdout
