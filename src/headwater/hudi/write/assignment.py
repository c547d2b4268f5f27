"""Assignment: which file group each record of a batch is written to, and how.

Stored records stay in their group. New ones fill up small files first, then make new groups of the target size; with a
bucket index the hash decides. The plan is a value: nothing is written here.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from headwater.errors import WriteRefused
from headwater.hudi.index.bucket import bucket_of_file_id
from headwater.hudi.merge.fold import Flags, Rows
from headwater.hudi.table import HudiTable
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.options import IndexKind, WriteOptions
from headwater.hudi.write.pending import groups_in_pending_clustering, groups_in_pending_compaction
from headwater.hudi.write.row_size import rows_in
from headwater.hudi.write.tagging import Tags, bucket_count, buckets_of, latest_slices
from headwater.spec.model import FileGroupId, FileSlice

_NONE = np.zeros(0, np.int64)
# A new file may be this much over the target before it becomes two.
_SLACK = 1.1


class How(Enum):
    """What is done to a file group; the names are those of Hudi's markers."""

    CREATE = "CREATE"
    """A new base file of a new group."""
    MERGE = "MERGE"
    """A new base file that takes the place of the group's last one."""
    APPEND = "APPEND"
    """A log file."""


@dataclass(frozen=True)
class GroupWork:
    """What is to be written to one file group."""

    group: FileGroupId
    how: How
    slice: FileSlice | None = None
    """What the group holds now; None for a new one."""
    rows: Rows = field(default_factory=lambda: _NONE)
    """Rows of the batch whose records are stored in the group, or may be (buckets)."""
    positions: Rows = field(default_factory=lambda: _NONE)
    """Their rows in the base file; −1 where that is not known."""
    leaving: Flags = field(default_factory=lambda: np.zeros(0, bool))
    """Which of `rows` are written to another group: here their record is deleted."""
    inserts: Rows = field(default_factory=lambda: _NONE)
    """Rows of the batch that are new."""

    @property
    def count(self) -> int:
        return len(self.rows) + len(self.inserts)


def new_file_id() -> str:
    return f"{uuid.uuid4()}-0"


def new_bucket_file_id(bucket: int) -> str:
    """The file id of a new bucket: its number, then anything.

    >>> new_bucket_file_id(7)[:9]
    '00000007-'
    """
    return f"{bucket:08d}{str(uuid.uuid4())[8:]}-0"


@dataclass(frozen=True)
class Assigner:
    """Makes the plan of a write on one state of a table."""

    table: HudiTable
    options: WriteOptions
    index: IndexKind
    row_bytes: float
    """What a row takes in a base file."""

    def assign(self, batch: Batch, tags: Tags, leaving: Flags, inserts: Rows) -> list[GroupWork]:
        """The work of each group: stored records where they are, then the new ones."""
        stored = self._stored(tags, leaving)
        if self.index is IndexKind.BUCKET:
            return [*self._buckets(batch, inserts, stored), *stored.values()]
        small = self._into_small_files(batch, inserts, stored)
        return [*stored.values(), *small]

    def create(self, batch: Batch, rows: Rows) -> list[GroupWork]:
        """New groups alone: nothing that is there is touched."""
        if self.index is IndexKind.BUCKET:
            return self._buckets(batch, rows, {}, only_new=True)
        codes, paths = batch.partition_codes
        works: list[GroupWork] = []
        for number in np.unique(codes[rows]).tolist():
            works += self._new_groups(paths[number], rows[codes[rows] == number])
        return works

    def _stored(self, tags: Tags, leaving: Flags) -> dict[FileGroupId, GroupWork]:
        order = np.argsort(tags.slice, kind="stable")
        bounds = np.searchsorted(tags.slice[order], np.arange(len(tags.slices) + 1))
        clustering = groups_in_pending_clustering(self.table.timeline)
        works: dict[FileGroupId, GroupWork] = {}
        for number, slice_ in enumerate(tags.slices):
            chosen = order[bounds[number] : bounds[number + 1]]
            if not len(chosen):
                continue
            if slice_.group in clustering:
                raise WriteRefused(
                    f"{self.table.storage.uri}: file group {slice_.group} waits for clustering "
                    f"{clustering[slice_.group]}, which would lose this update; run or cancel the clustering first"
                )
            how = How.APPEND if self.table.config.is_merge_on_read else How.MERGE
            works[slice_.group] = GroupWork(
                slice_.group, how, slice_, tags.row[chosen], tags.position[chosen], leaving[chosen]
            )
        return works

    def _into_small_files(self, batch: Batch, inserts: Rows, stored: dict[FileGroupId, GroupWork]) -> list[GroupWork]:
        """Fills groups of `stored` up in place; gives the work of all other groups."""
        codes, paths = batch.partition_codes
        numbers = np.unique(codes[inserts]).tolist()
        candidates = self._small_files([paths[number] for number in numbers]) if numbers else {}
        works: list[GroupWork] = []
        for number in numbers:
            path, left = paths[number], inserts[codes[inserts] == number]
            for slice_ in candidates.get(path, ()):
                room = self._room(slice_)
                if not len(left) or room <= 0:
                    break
                taken, left = left[:room], left[room:]
                known = stored.get(slice_.group) or GroupWork(slice_.group, How.MERGE, slice_)
                work = GroupWork(known.group, How.MERGE, slice_, known.rows, known.positions, known.leaving, taken)
                if slice_.group in stored:
                    stored[slice_.group] = work
                else:
                    works.append(work)
            works += self._new_groups(path, left)
        return works

    def _room(self, slice_: FileSlice) -> int:
        size = slice_.base_file.size if slice_.base_file is not None else None
        return int((self.options.target_file_size - (size or 0)) / self.row_bytes)

    def _small_files(self, paths: Sequence[str]) -> Mapping[str, list[FileSlice]]:
        """Partition → slices that new rows are added to, the smallest first.

        Of a merge-on-read table the base file would be rewritten: that is done only to groups without logs, and only to
        a few at a time.
        """
        if self.options.small_file_limit <= 0 or not self.table.timeline.commits:
            return {}
        merge_on_read = self.table.config.is_merge_on_read
        busy = set(groups_in_pending_clustering(self.table.timeline))
        busy |= groups_in_pending_compaction(self.table.timeline).keys() if merge_on_read else set()
        found: dict[str, list[FileSlice]] = {}
        for slice_ in latest_slices(self.table, paths):
            base = slice_.base_file
            if base is None or base.size is None or slice_.group in busy or (merge_on_read and slice_.delta_files):
                continue
            if base.size < self.options.small_file_limit:
                found.setdefault(slice_.group.partition, []).append(slice_)
        most = self.options.small_files_in_merge_on_read if merge_on_read else None
        return {
            path: sorted(slices, key=lambda s: (s.base_file.size if s.base_file else 0) or 0)[:most]
            for path, slices in found.items()
        }

    def _new_groups(self, path: str, rows: Rows) -> list[GroupWork]:
        if not len(rows):
            return []
        files = max(1, -(-int(len(rows) / _SLACK) // rows_in(self.options.target_file_size, self.row_bytes)))
        return [
            GroupWork(FileGroupId(path, new_file_id()), How.CREATE, inserts=part)
            for part in np.array_split(rows, files)
        ]

    def _buckets(
        self, batch: Batch, rows: Rows, stored: dict[FileGroupId, GroupWork], *, only_new: bool = False
    ) -> list[GroupWork]:
        """Rows whose bucket has no file group yet. Of a merge-on-read table they go to a log at once, as in Hudi."""
        if not len(rows):
            return []
        count = bucket_count(self.table, self.options)
        codes, paths = batch.partition_codes
        place = codes[rows] * count + buckets_of(batch, self.table, count, self.options)[rows]
        merge_on_read = self.table.config.is_merge_on_read
        known = {} if only_new else self._known_buckets(sorted({paths[code] for code in codes[rows].tolist()}))
        works = []
        for number in np.unique(place).tolist():
            path, bucket = paths[number // count], number % count
            slice_, chosen = known.get((path, bucket)), rows[place == number]
            if slice_ is None:
                group = FileGroupId(path, new_bucket_file_id(bucket))
                works.append(
                    GroupWork(group, How.APPEND if merge_on_read and not only_new else How.CREATE, inserts=chosen)
                )
                continue
            # A record that comes from another partition, to a bucket that is there.
            how = How.APPEND if merge_on_read else How.MERGE
            work = replace(stored.pop(slice_.group, GroupWork(slice_.group, how, slice_)), inserts=chosen)
            works.append(work)
        return works

    def _known_buckets(self, paths: Sequence[str]) -> dict[tuple[str, int | None], FileSlice]:
        if not self.table.timeline.commits:
            return {}
        slices = latest_slices(self.table, paths)
        return {(s.group.partition, bucket_of_file_id(s.group.file_id)): s for s in slices}
