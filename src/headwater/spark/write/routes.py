"""Assignment through Spark: from counts of rows to the works of a write, and from a row to its work and its task.

The plan is made on the driver, of counts: so many rows of this slice, so many new ones in that partition. Each row then
finds its work by its slice or, where it is new, by its key's hash, which spreads a partition's rows over its groups by
their shares. One shuffle brings the works to tasks of about the same weight.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headwater.hudi.merge.fold import Rows
from headwater.hudi.table import HudiTable
from headwater.hudi.write.assignment import Assigner, GroupWork, How, new_bucket_file_id
from headwater.hudi.write.options import IndexKind, WriteOptions
from headwater.hudi.write.tagging import UNKNOWN, Tags
from headwater.spark.write.keys import KEY, ORDER, PARTITION
from headwater.spark.write.places import BUCKET, SLICE, Tagged
from headwater.spec.model import FileGroupId

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WORK = "__headwater_work"
LEAVING = "__headwater_leaving"
"""Whether the row's record is written to another group, and deleted here."""
_SPOT = "__headwater_spot"
_TASK_BYTES = 64 * 1024 * 1024
# With so many rows for each bucket, hardly one is left empty.
_EVEN = 64


@dataclass(frozen=True)
class Counts:
    """How many rows go where; of slices by their number, of new rows by partition (and bucket)."""

    stored: Mapping[int, int]
    new: Mapping[tuple[str, int], int]
    rows: int
    """All rows, exactly; the others may be estimates."""

    @classmethod
    def of(cls, tagged: Tagged) -> Counts:
        """Count a frame; this runs the tagging, unless there is nothing to tag and hashes spread many rows evenly."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

        if tagged.buckets is not None and not tagged.slices:
            paths = {row[0] or "": int(row[1]) for row in tagged.frame.groupBy(PARTITION).count().collect()}
            if all(count >= tagged.buckets * _EVEN for count in paths.values()):
                each = {path: -(-count // tagged.buckets) for path, count in paths.items()}
                new = {(path, bucket): count for path, count in each.items() for bucket in range(tagged.buckets)}
                return cls({}, new, sum(paths.values()))
        bucket = F.col(BUCKET) if tagged.buckets is not None else F.lit(UNKNOWN)
        where = (
            F.when(F.col(SLICE).isNull(), F.col(PARTITION)).alias("p"),
            F.when(F.col(SLICE).isNull(), bucket).alias("b"),
        )
        rows = tagged.frame.groupBy(SLICE, *where).count().collect()
        stored = {int(row[0]): int(row[3]) for row in rows if row[0] is not None}
        new = {(row[1] or "", int(row[2])): int(row[3]) for row in rows if row[0] is None}
        return cls(stored, new, sum(stored.values()) + sum(new.values()))


@dataclass(frozen=True)
class Routes:
    """The works of a write, and the way to them."""

    works: tuple[GroupWork, ...]
    """Without rows: those come to the task."""
    of_slice: Mapping[int, int]
    """Slice → work."""
    of_new: Mapping[tuple[str, int], tuple[tuple[int, int], ...]]
    """Partition and bucket → works, each with the number of new rows that it takes."""
    tasks: int
    task_of_work: tuple[int, ...]

    @classmethod
    def planned(
        cls,
        table: HudiTable,
        options: WriteOptions,
        index: IndexKind,
        tagged: Tagged,
        counts: Counts,
        row_bytes: float,
        cores: int,
        *,
        creates: bool = False,
    ) -> Routes:
        """Stored records stay in their group; new ones fill up small files, then make groups of the target size.

        With `creates`, new buckets begin as base files in merge-on-read tables as well.
        """
        assigner = Assigner(table, options, index, row_bytes)
        slices = sorted(counts.stored)
        tags = Tags(np.arange(len(slices)), np.array(slices, np.int64), np.full(len(slices), UNKNOWN), tagged.slices)
        hashed = tagged.buckets is not None
        rows = _NewRows({} if hashed else {path: count for (path, _), count in counts.new.items()}, len(slices))
        plain = Assigner(table, options, IndexKind.SIMPLE, row_bytes) if hashed else assigner
        assigned = plain.assign(rows, tags, np.zeros(len(slices), bool), rows.inserts)  # type: ignore[arg-type]
        works = [
            *assigned,
            *(_bucket_work(table, path, bucket, creates) for path, bucket in sorted(counts.new) if hashed),
        ]
        of_group = {work.group: number for number, work in enumerate(works)}
        of_slice = {number: of_group[tagged.slices[number].group] for number in slices}
        of_new: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for number, work in enumerate(works):
            if hashed and number >= len(assigned):
                place = sorted(counts.new)[number - len(assigned)]
                of_new[place] = [(number, counts.new[place])]
            elif len(work.inserts):
                of_new.setdefault((work.group.partition, UNKNOWN), []).append((number, len(work.inserts)))
        weights = np.zeros(len(works))
        for number, count in counts.stored.items():
            weights[of_slice[number]] += count * row_bytes
        for shares in of_new.values():
            for number, count in shares:
                weights[number] += count * row_bytes
        for number, work in enumerate(works):
            if work.how is How.MERGE and work.slice is not None and work.slice.base_file is not None:
                weights[number] += work.slice.base_file.size or 0
        tasks = max(min(len(works), max(2 * cores, int(weights.sum() // _TASK_BYTES))), 1)
        kept = tuple(GroupWork(work.group, work.how, work.slice) for work in works)
        places = {place: tuple(shares) for place, shares in of_new.items()}
        return cls(kept, of_slice, places, tasks, tuple(_balanced(weights, tasks)))

    def shuffled(self, tagged: Tagged, *, by_key: bool = True) -> DataFrame:
        """The rows with the number of their work, at the task that does it, by work, and by record key if so asked."""
        routed = self._routed(tagged)
        spots = _spots(self.tasks)
        rows = [(work, int(spots[task])) for work, task in enumerate(self.task_of_work)]
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

        ways = tagged.frame.sparkSession.createDataFrame(rows, f"w int, {_SPOT} int")
        placed = routed.join(F.broadcast(ways), F.col(WORK) == F.col("w"), "inner").drop("w", PARTITION, BUCKET)
        order = (WORK, KEY, ORDER) if by_key else (WORK,)
        ordered = placed.repartition(self.tasks, F.col(_SPOT)).sortWithinPartitions(*order)
        return ordered.drop(_SPOT, ORDER)

    def _routed(self, tagged: Tagged) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

        session = tagged.frame.sparkSession
        rows: list[Any] = []
        for (path, bucket), shares in self.of_new.items():
            ends = np.cumsum([count for _, count in shares]).tolist()
            rows.append((path, bucket, ends, [number for number, _ in shares]))
        new = session.createDataFrame(rows, "np string, nb int, ends array<long>, works array<int>")
        frame = tagged.frame.withColumn("sw", F.lit(None).cast("int"))
        if self.of_slice:
            stored = session.createDataFrame([(s, w) for s, w in self.of_slice.items()], "s int, sw int")
            frame = tagged.frame.join(F.broadcast(stored), F.col(SLICE) == F.col("s"), "left")
        hashed: Column = F.col(BUCKET) if tagged.buckets is not None else F.lit(UNKNOWN)
        same = F.col(SLICE).isNull() & (F.col(PARTITION) == F.col("np")) & (hashed == F.col("nb"))
        frame = frame.join(F.broadcast(new), same, "left")
        # Which of the shares the key's hash falls into.
        share = F.expr(f"size(filter(ends, e -> e <= pmod(xxhash64(`{KEY}`), ends[size(ends) - 1])))")
        work = F.when(F.col(SLICE).isNotNull(), F.col("sw")).otherwise(F.element_at(F.col("works"), share + 1))
        return frame.withColumn(WORK, work).drop("s", "sw", "np", "nb", "ends", "works")


class _NewRows:
    """Stands for a batch of which only the partitions are known."""

    def __init__(self, counts: Mapping[str, int], first: int) -> None:
        self._counts = counts
        self._first = first

    @cached_property
    def partition_codes(self) -> tuple[Rows, list[str]]:
        paths = sorted(self._counts)
        codes = np.repeat(np.arange(len(paths)), [self._counts[path] for path in paths])
        return np.concatenate([np.zeros(self._first, np.int64), codes]), paths

    @property
    def inserts(self) -> Rows:
        return np.arange(self._first, len(self.partition_codes[0]))


def _bucket_work(table: HudiTable, path: str, bucket: int, creates: bool) -> GroupWork:
    how = How.APPEND if table.config.is_merge_on_read and not creates else How.CREATE
    return GroupWork(FileGroupId(path, new_bucket_file_id(bucket)), how)


def _balanced(weights: npt.NDArray[np.float64], tasks: int) -> list[int]:
    """A task for each work: the heaviest first, always to the task that has least.

    >>> _balanced(np.array([5.0, 1.0, 4.0]), 2)
    [0, 1, 1]
    """
    loads = [(0.0, task) for task in range(tasks)]
    found = [0] * len(weights)
    for work in np.argsort(-weights, kind="stable").tolist():
        load, task = heapq.heappop(loads)
        found[work] = task
        heapq.heappush(loads, (load + float(weights[work]) + 1, task))
    return found


def _spots(tasks: int) -> npt.NDArray[np.int32]:
    """For each task a number that Spark's hash partitioning sends to it, and no other work's rows with it."""
    found = np.full(tasks, -1, np.int32)
    start = 0
    while (found < 0).any():
        numbers = np.arange(start, start + 16 * tasks, dtype=np.int32)
        place = np.mod(murmur3(numbers).astype(np.int64), tasks)
        # the first of each wins, whatever came before stays
        for at in np.unique(place).tolist():
            if found[at] < 0:
                found[at] = numbers[np.argmax(place == at)]
        start += 16 * tasks
    return found


def murmur3(numbers: npt.NDArray[np.int32], seed: int = 42) -> npt.NDArray[np.int32]:
    """Spark's hash of an integer column.

    >>> murmur3(np.array([1, 2], np.int32)).tolist()
    [-559580957, 1765031574]
    """
    with np.errstate(over="ignore"):
        k = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
        k = (k << np.uint32(15)) | (k >> np.uint32(17))
        h = np.uint32(seed) ^ (k * np.uint32(0x1B873593))
        h = (h << np.uint32(13)) | (h >> np.uint32(19))
        h = h * np.uint32(5) + np.uint32(0xE6546B64)
        h = h ^ np.uint32(4)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        mixed: npt.NDArray[np.uint32] = h ^ (h >> np.uint32(16))
    return mixed.view(np.int32)
