"""Whether a frame is small enough to be brought to the driver and written by it.

A small change then costs one Spark job that collects it; all else is what a write without Spark costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.pipeline import parse_memory
from headwater.spark.write.frames import collected, estimated_bytes, is_local
from headwater.spark.write.heap import clear_heap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DRIVER_LIMIT = "spark.headwater.write.driver-limit"
_LIMIT = 256 * 1024 * 1024
# Spark's statistics of a file are of its bytes on disk; in memory its rows are several times that.
_SURELY = 8
_SAMPLE = 1_000
_COSTLY = ("Join", "Aggregate", "Window", "Sort", "Repartition", "Generate", "Python", "Map", "Expand", "Sample", "RDD")


@contextmanager
def brought(frame: DataFrame, *, rewrites: bool) -> Iterator[tuple[pa.Table | None, DataFrame]]:
    """The rows, where they are few; None where they are many, and a frame that has them in either case.

    With `rewrites`, a few rows may change many large files: where the executors are other machines, that is for them.

    A frame that costs something to compute is kept (in memory, then on disk) while the block lasts: it is looked at
    more than once, and must have the same rows each time.
    """
    if rewrites and not is_local(frame.sparkSession):
        yield None, frame
        return
    limit = _limit(frame)
    size = estimated_bytes(frame)
    if size is not None and size * _SURELY <= limit:
        yield _brought(frame), frame
        return
    plain = is_plain(frame)
    kept = frame if plain else frame.persist()
    try:
        few = kept.count() * _row_width(kept) <= limit
        yield (_brought(kept) if few else None), kept
    finally:
        if not plain:
            kept.unpersist()


def _brought(frame: DataFrame) -> pa.Table:
    rows = collected(frame)
    clear_heap(frame.sparkSession, rows.nbytes)
    return rows


def _limit(frame: DataFrame) -> int:
    given = frame.sparkSession.conf.get(DRIVER_LIMIT, None)
    if given is None:
        return _LIMIT
    return int(given) if given.isdigit() else parse_memory(given)


def is_plain(frame: DataFrame) -> bool:
    """Whether the frame is files, filtered and projected: reading them again is cheap and gives the same rows."""
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()
        return bool(plan.deterministic()) and not any(word in plan.toString() for word in _COSTLY)
    except (AttributeError, TypeError):
        return False


def _row_width(frame: DataFrame) -> float:
    rows = collected(frame.limit(_SAMPLE))
    return rows.nbytes / rows.num_rows if rows.num_rows else 1.0
