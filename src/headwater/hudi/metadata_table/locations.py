"""The whole record index, file group by file group: never more of it in memory than a block and a log."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.index import hashing
from headwater.hudi.metadata_table.columns import LOCATIONS, record_locations
from headwater.hudi.metadata_table.reader import RECORD_INDEX, MetadataTable

_FEW = 5000
"""Fewer keys than this are found sooner without threads."""


def count_locations(metadata: MetadataTable) -> Iterator[tuple[int, int, Counter[tuple[str, str]]]]:
    """How many records live where: (partition, file group) → their number, for each file group of the index.

    Each comes with how many file groups of the index are done, and how many there are.
    """
    groups = metadata.file_groups(RECORD_INDEX)
    for done, group in enumerate(groups, 1):
        found: Counter[tuple[str, str]] = Counter()
        log = _newest([record_locations(*part) for part in group.log_columns()])
        changed = log.column("key").combine_chunks()
        _count(log, found)
        for part in group.base_columns():
            block = record_locations(*part)
            _count(block.filter(pc.invert(pc.is_in(block.column("key"), value_set=changed))), found)
        yield done, len(groups), found


def locate(metadata: MetadataTable, keys: pa.Array) -> pa.Table:
    """Where records with these keys are, as `LOCATIONS`; keys that are not in the table are left out.

    As `MetadataTable.locations` of an index that is not kept by partition, without a step per key.
    """
    distinct = keys.cast(pa.string()).unique().drop_null()
    groups = metadata.file_groups(RECORD_INDEX)
    if not len(distinct) or not groups:
        return LOCATIONS.empty_table()
    numbers = hashing.file_group_indexes(distinct, len(groups))
    jobs = [(groups[n], distinct.filter(pa.array(numbers == n))) for n in np.unique(numbers).tolist()]

    def found(job: tuple[Any, pa.Array]) -> pa.Table:
        group, wanted = job
        newest = _newest([record_locations(*part) for part in group.columns_of(wanted)])
        return newest.filter(newest.column("file_id").is_valid())

    if len(distinct) < _FEW:
        return pa.concat_tables([found(job) for job in jobs])
    with ThreadPoolExecutor(min(len(jobs), os.cpu_count() or 1)) as pool:
        return pa.concat_tables(list(pool.map(found, jobs)))


def _newest(parts: list[pa.Table]) -> pa.Table:
    """The last record of each key."""
    whole = pa.concat_tables([LOCATIONS.empty_table(), *parts]).combine_chunks()
    if int(pc.count_distinct(whole.column("key")).as_py()) == whole.num_rows:
        return whole
    order = pa.array(np.arange(whole.num_rows))
    last = whole.append_column("order", order).group_by("key").aggregate([("order", "max")])
    return whole.take(last.column("order_max"))


def _count(rows: pa.Table, found: Counter[tuple[str, str]]) -> None:
    """Deleted records have no place."""
    placed = rows.filter(rows.column("file_id").is_valid())
    counts = placed.group_by(["partition", "file_id"]).aggregate([([], "count_all")])
    for row in counts.to_pylist():
        found[row["partition"] or "", row["file_id"]] += row["count_all"]
