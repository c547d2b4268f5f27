"""Running the tasks of a write: a Spark job whose rows are reports, and no attempt of it left behind.

When a job is over, attempts that lost (speculation, a failed stage) may still run for a moment and make files. They are
waited for before the driver looks at the markers, so that it removes what they made.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headwater import errors
from headwater.errors import HeadwaterError, SparkSetupError
from headwater.hudi.write.transaction import Transaction
from headwater.spark.write.frames import context_of, settings, write_settings
from headwater.spark.write.reports import Reports, read_reports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GROUP = "spark.jobGroup.id"
_DESCRIPTION = "spark.job.description"
_LONGEST = 60.0
_OURS = re.compile(r"^(?:headwater\.errors\.)(\w+): (.*)$", re.MULTILINE)


def run_tasks(write: Transaction, reports: DataFrame, what: str) -> Reports:
    """Run the tasks; the files of the attempts that won."""
    write.leave_marking_to_tasks()
    session = reports.sparkSession
    with settings(session, write_settings()), _alone(session, f"headwater: {what} {write.instant}"):
        rows = reports.collect()
    return read_reports(rows)


@contextmanager
def told_as_ours() -> Iterator[None]:
    """Errors of ours that a task raised, as what they were; Spark wraps them into its own."""
    try:
        yield
    except HeadwaterError:
        raise
    except Exception as error:
        found = _OURS.findall(str(error))
        kind = getattr(errors, found[-1][0], None) if found else None
        if isinstance(kind, type) and issubclass(kind, HeadwaterError):
            raise kind(found[-1][1].strip()) from error
        if "No module named 'headwater'" in str(error):
            raise SparkSetupError(
                "the Python of the executors has no Headwater; install it there, or name the interpreter that has it "
                'with spark.conf.set("spark.headwater.python", …) or headwater.configure(python=…)'
            ) from error
        raise


@contextmanager
def _alone(session: SparkSession, what: str) -> Iterator[None]:
    """The jobs in the block as a group; it is left when none of their tasks runs any more."""
    context = context_of(session)
    if context is None:
        yield
        return
    before = {name: context.getLocalProperty(name) for name in (_GROUP, _DESCRIPTION)}
    group = str(uuid.uuid4())
    context.setLocalProperty(_GROUP, group)
    context.setLocalProperty(_DESCRIPTION, what)
    try:
        yield
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)
        _wait_for_tasks(context, group)


def _wait_for_tasks(context: Any, group: str) -> None:
    tracker = context.statusTracker()
    stages = {
        stage
        for job in tracker.getJobIdsForGroup(group)
        if (info := tracker.getJobInfo(job)) is not None
        for stage in info.stageIds
    }
    until = time.monotonic() + _LONGEST
    while any((info := tracker.getStageInfo(stage)) is not None and info.numActiveTasks > 0 for stage in stages):
        if time.monotonic() > until:
            raise HeadwaterError(
                f"tasks of a write still run {_LONGEST:.0f} s after its job has ended; the write is given up: look at "
                "the executors, and write again"
            )
        time.sleep(0.05)
