"""The whole record index, file group by file group: never more of it in memory than a block and a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.metadata_table.columns import LOCATIONS, record_locations
from headwater.hudi.metadata_table.reader import RECORD_INDEX, MetadataTable


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


def _newest(parts: list[pa.Table]) -> pa.Table:
    """The last record of each key."""
    whole = pa.concat_tables([LOCATIONS.empty_table(), *parts]).combine_chunks()
    order = pa.array(range(whole.num_rows), pa.int64())
    last = whole.append_column("order", order).group_by("key").aggregate([("order", "max")])
    return whole.take(last.column("order_max"))


def _count(rows: pa.Table, found: Counter[tuple[str, str]]) -> None:
    """Deleted records have no place."""
    placed = rows.filter(rows.column("file_id").is_valid())
    counts = placed.group_by(["partition", "file_id"]).aggregate([([], "count_all")])
    for row in counts.to_pylist():
        found[row["partition"] or "", row["file_id"]] += row["count_all"]
