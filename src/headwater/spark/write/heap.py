"""The heap of the driver's JVM, once rows were brought through it to Python.

Spark collects a frame as batches that all lie in the heap until they are handed over. What was taken for them would
stay while the driver writes, which takes memory of its own: the two together, and not one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.spark.write.frames import context_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Less than this is not worth a collection; and one takes the longer the more is alive, which is then left alone.
_WORTH = 16 * 1024 * 1024
_MOST_ALIVE = 512 * 1024 * 1024
_alive: dict[str, int] = {}
"""By application, what was left the last time."""


def clear_heap(session: SparkSession, brought: int) -> None:
    """Have the JVM let go of so many bytes that it has handed over; a tenth of a second where little else is alive."""
    context = context_of(session)
    if context is None or brought < _WORTH or _alive.get(context.applicationId, 0) > _MOST_ALIVE:
        return
    jvm: Any = context._jvm
    jvm.java.lang.System.gc()
    heap = jvm.java.lang.Runtime.getRuntime()
    _alive[context.applicationId] = int(heap.totalMemory()) - int(heap.freeMemory())
