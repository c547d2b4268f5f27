"""A write of many rows, from the keyed frame to the commit: tag, count, plan, shuffle, write.

The lock is held throughout, so that what was tagged is what is written to. Until the commit no reader sees any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.errors import WriteRefused
from headwater.hudi.table import HudiTable
from headwater.hudi.write.execution import Job, begin_job, complete_job
from headwater.hudi.write.incoming import Shape
from headwater.hudi.write.options import IndexKind
from headwater.hudi.write.result import WriteResult
from headwater.hudi.write.row_size import row_bytes
from headwater.spark.write import reports
from headwater.spark.write.frames import collected, cores_of, mapped
from headwater.spark.write.groups import GroupTask
from headwater.spark.write.moving import combined, moved
from headwater.spark.write.places import Tagged, Tagger
from headwater.spark.write.routes import Counts, Routes
from headwater.spark.write.running import run_tasks, told_as_ours

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SAMPLE = 20_000


@dataclass(frozen=True)
class Pipeline:
    """One write of a frame whose rows have keys and partitions (`keys.with_keys`)."""

    shape: Shape
    job: Job
    combine: bool
    """Whether one row of a record is taken; else each is written."""
    unique: bool = False
    """Whether rows of the same record are refused."""
    deletes: bool = False
    """Whether the rows are keys of records to delete."""
    creates: bool = False
    """Whether nothing but new base files is written."""
    replaced: Callable[[HudiTable, set[str]], Mapping[str, Sequence[str]]] | None = None
    """Given the partitions written to, the file groups that go."""
    at_hand: bool = False
    """Whether the frame is files, or kept already: it gives the same rows again for little."""

    def run(
        self,
        table: HudiTable,
        keyed: DataFrame,
        tagger: Callable[[HudiTable], Tagger | None],
        narrow: Callable[[HudiTable, Tagged], Tagged] = lambda state, tagged: tagged,
    ) -> WriteResult:
        """Commit the rows. `tagger` is None where no record is looked for; `narrow` may leave tagged rows out."""
        watch = self.job.watch
        with told_as_ours(), begin_job(table, self.job) as write:
            state = write.table
            chosen = tagger(state)
            is_global = chosen is not None and chosen.index.is_global and not self.deletes
            if is_global:
                keyed = combined(keyed, self.shape, refuse=self.unique)
            with ExitStack() as kept:
                with watch.phase("tag"):
                    if chosen is not None and chosen.index is not IndexKind.BUCKET:
                        keyed = _kept(kept, keyed)  # looked at twice
                    tagged = narrow(state, chosen.tag(keyed) if chosen is not None else not_looked_for(keyed))
                    if is_global and chosen is not None and self.job.options.moves_with(chosen.index):
                        found = _kept(kept, tagged.frame)
                        tagged = moved(Tagged(found, tagged.slices, tagged.buckets), self.shape, state)
                    # Hashing again rows that are at hand costs less than keeping all of their columns.
                    if not self.at_hand or chosen is None or chosen.index is not IndexKind.BUCKET:
                        tagged = Tagged(_kept(kept, tagged.frame), tagged.slices, tagged.buckets)
                    counts = Counts.of(tagged)
                with watch.phase("plan"):
                    if not counts.stored and not counts.new and self.replaced is None:
                        return self.job.nothing()
                    index = chosen.index if chosen is not None else IndexKind.SIMPLE
                    size = self._row_bytes(keyed) if counts.new else 1.0
                    cores = cores_of(keyed.sparkSession)
                    routes = Routes.planned(
                        state, self.job.options, index, tagged, counts, size, cores, creates=self.creates
                    )
                with watch.phase("write"):
                    task = GroupTask(
                        self.job.target(write), self.shape, routes.works, self.combine, self.unique, self.deletes
                    )
                    by_key = self.combine or self.unique or not self.creates
                    rows = routes.shuffled(tagged, by_key=by_key)
                    told = run_tasks(write, mapped(rows, task, reports.SCHEMA), self.job.name)
            self._refuse_lost_rows(state, counts, told.rows)
            touched = {one.file.partition for one in told.written}
            gone = {} if self.replaced is None else self.replaced(state, touched)
            if not told.written and not gone:
                return self.job.nothing()
            return complete_job(write, self.job, told.written, gone)

    def _row_bytes(self, keyed: DataFrame) -> float:
        from headwater.spark.write.keys import KEY, ORDER, PARTITION

        rows = collected(keyed.limit(_SAMPLE).drop(KEY, ORDER, PARTITION))
        return row_bytes(rows, None, self.job.options.codec)

    def _refuse_lost_rows(self, state: HudiTable, counts: Counts, came: int) -> None:
        if came != counts.rows:
            raise WriteRefused(
                f"{state.storage.uri}: {counts.rows:,} rows were counted and {came:,} came to be written; the frame "
                "gives other rows each time it is computed: write it to files first, and those to the table"
            )


def _kept(kept: ExitStack, frame: DataFrame) -> DataFrame:
    """The frame, computed once while the stack lasts."""
    found = frame.persist()
    kept.callback(found.unpersist)
    return found


def not_looked_for(keyed: DataFrame) -> Tagged:
    """A frame all of whose rows are new."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    from headwater.spark.write.places import POSITION, SLICE

    frame = keyed.withColumn(SLICE, F.lit(None).cast("int")).withColumn(POSITION, F.lit(None).cast("long"))
    return Tagged(frame, ())
