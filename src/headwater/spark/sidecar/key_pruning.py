"""Slices that cannot hold the record keys of a filter, by the bloom filters in the footers of their base files.

Without Spark a slice's reader looks at the footer itself. Spark's own Parquet reader knows nothing of it, so planning
does.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.hudi.base_file import open_base_file
from headwater.hudi.footer_index import holds_none
from headwater.hudi.key_filter import wanted_keys
from headwater.hudi.slice_reader import HudiSliceReader
from headwater.plan import PlanStep, ScanPlan, ScanTask
from headwater.spec.model import FileSlice

# More files than these, or more keys, are not worth the driver's time: each footer is a read of its own.
MOST_FOOTERS = 128
_MOST_KEYS = 100
_THREADS = 8


def few_keys(reader: HudiSliceReader) -> list[str] | None:
    """The record keys that a read asks for, where these are few."""
    keys = None if reader.filter is None else wanted_keys(reader.filter, reader.context.config)
    return keys if keys is not None and len(keys) <= _MOST_KEYS else None


def without_keys(plan: ScanPlan, reader: HudiSliceReader) -> ScanPlan:
    """The plan without slices whose footers rule all wanted keys out; slices with logs stay, as logs hold keys too."""
    keys = few_keys(reader)
    if keys is None:
        return plan
    alone = [task for task in plan.tasks if isinstance(task.slice, FileSlice) and _is_base_alone(task.slice)]
    if not 1 < len(alone) <= MOST_FOOTERS:
        return plan
    texts = pa.array(keys, pa.string())

    def is_ruled_out(task: ScanTask) -> bool:
        assert isinstance(task.slice, FileSlice)
        assert task.slice.base_file is not None
        try:
            return holds_none(open_base_file(reader.context.storage, task.slice.base_file.path), texts)
        except HeadwaterError:
            return False  # whoever reads it tells what is wrong with it

    with ThreadPoolExecutor(min(_THREADS, len(alone))) as pool:
        gone = {id(task) for task, ruled_out in zip(alone, pool.map(is_ruled_out, alone), strict=True) if ruled_out}
    kept = tuple(task for task in plan.tasks if id(task) not in gone)
    step = PlanStep("prune by bloom filters of footers", len(plan.tasks), len(kept), "slices")
    return replace(plan, tasks=kept, steps=(*plan.steps, step))


def _is_base_alone(slice_: FileSlice) -> bool:
    base = slice_.base_file
    return base is not None and not slice_.delta_files and base.name.lower().endswith(".parquet")
