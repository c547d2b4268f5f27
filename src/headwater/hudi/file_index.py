"""Which slices hold the rows of a query. Implements `spec.FileIndex`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from headwater.errors import InstantNotFound, MissingFile
from headwater.hudi.changes_plan import plan_changes
from headwater.hudi.cleaned import restored, taken_by_versions, taken_since
from headwater.hudi.keys import describe_partition
from headwater.hudi.listing import Listing
from headwater.hudi.metadata_table.reader import MetadataTable
from headwater.hudi.pruning import SlicePruner
from headwater.hudi.schema import TableSchema
from headwater.hudi.timeline import HudiTimeline
from headwater.hudi.view import Horizon, ListedFile, build_groups
from headwater.plan import PlanStep
from headwater.spec.expressions import (
    And,
    Expression,
    Match,
    bind,
    columns,
    conjunction,
    evaluate,
    evaluate_partition,
)
from headwater.spec.model import (
    FileGroup,
    FileSlice,
    Instant,
    PartitionChanges,
    PartitionDescriptor,
    PartitionIncrementalSnapshot,
    PartitionSnapshot,
)


@dataclass
class PruningReport:
    """What listing left out, and why; filled while it runs."""

    partitions_total: int = 0
    partitions_kept: int = 0
    slices_total: int = 0
    steps: list[PlanStep] = field(default_factory=list)


class KnownSlices:
    """What an open table has found out about its partitions, for the next question: it has one state, so that holds.

    No more than `most` slices are held.
    """

    def __init__(self, most: int = 200_000) -> None:
        self._left = most
        self._slices: dict[tuple[str | None, bool], dict[str, tuple[FileSlice, ...]]] = {}
        self._descriptors: dict[pa.Schema, dict[str, PartitionDescriptor]] = {}

    def at(self, end: Instant | None, base_files_only: bool) -> Mapping[str, tuple[FileSlice, ...]]:
        """Partition → its newest slices at an instant, of the partitions that are known."""
        return self._slices.get((None if end is None else end.requested_at, base_files_only), {})

    def learn(self, end: Instant | None, base_files_only: bool, found: Mapping[str, tuple[FileSlice, ...]]) -> None:
        kept = self._slices.setdefault((None if end is None else end.requested_at, base_files_only), {})
        for partition, slices in found.items():
            self._left -= len(slices) + 1
            if self._left < 0:
                return
            kept[partition] = slices

    def descriptors(self, schema: pa.Schema) -> dict[str, PartitionDescriptor]:
        """Partition → its values, as they are with a schema."""
        if schema not in self._descriptors:
            self._descriptors = {schema: {}}
        return self._descriptors[schema]


@dataclass(frozen=True)
class HudiFileIndex:
    """Lists by the metadata table or by folders, whichever `listing` is."""

    timeline: HudiTimeline
    listing: Listing
    schema: TableSchema
    metadata: MetadataTable | None = None
    """Prunes by its indexes where given."""
    base_files_only: bool = False
    """A read-optimized view: the newest base file of each group, without its logs."""
    despite_cleaning: bool = False
    """Where files of a range are gone: answer from those that are left, as Hudi 1.x does. Rows may then be missing,
    which is why it must be asked for."""
    only: frozenset[str] | None = None
    """The partitions to look at, where an engine has chosen them by what no expression of ours says."""
    report: PruningReport = field(default_factory=PruningReport, compare=False)
    known: KnownSlices = field(default_factory=KnownSlices, repr=False, compare=False)

    def list_files_at(
        self, instant: Instant | None = None, filters: Expression | None = None
    ) -> list[PartitionSnapshot]:
        latest = self.timeline.find_latest_completed_action_at(None if instant is None else instant.requested_at)
        return [
            PartitionSnapshot(found.partition, latest, found.slices)
            for found in self.list_files_between(None, instant, filters)
        ]

    def list_files_between(
        self, start: Instant | None, end: Instant | None, filters: Expression | None = None
    ) -> list[PartitionIncrementalSnapshot]:
        if start is None:
            return self._snapshot(end, filters)
        return self._increment(self.instants_between(start, end), end, filters)

    def list_changes_between(
        self, start: Instant | None, end: Instant | None, filters: Expression | None = None
    ) -> list[PartitionChanges]:
        instants = self.instants_between(start, end)
        bound = None if filters is None else bind(filters, self.schema.arrow)
        found: list[PartitionChanges] = []
        for partition, changes in plan_changes(self.timeline, self.listing, instants).items():
            descriptor = self._descriptor(partition)
            self.report.partitions_total += 1
            if (self.only is None or partition in self.only) and _matches(descriptor, bound):
                self.report.partitions_kept += 1
                self.report.slices_total += len(changes)
                found.append(PartitionChanges(descriptor, tuple(instants), tuple(changes)))
        return found

    def instants_between(self, start: Instant | None, end: Instant | None) -> list[Instant]:
        """The writes of a range: by completion from version 8 on, by request before (facts 12.3)."""
        if self.timeline.config.version >= 8:
            return list(self.timeline.completed_between(_completion(start), _completion(end)))
        return list(
            self.timeline.requested_between(
                None if start is None else start.requested_at, None if end is None else end.requested_at
            )
        )

    def groups(self, partition: str, end: Instant | None = None) -> list[FileGroup]:
        """All committed versions of a partition's file groups."""
        return build_groups(partition, self.listing.files(partition), self._at(end))

    def _at(self, end: Instant | None) -> Horizon:
        return Horizon(self.timeline, None if end is None else end.requested_at)

    def _snapshot(self, end: Instant | None, filters: Expression | None) -> list[PartitionIncrementalSnapshot]:
        if end is not None and not self.despite_cleaning:
            self._check_retained(end)
        horizon = self._at(end)
        instants = tuple(i for i in self.timeline.commits if horizon.reaches(i.requested_at))
        bound = None if filters is None else bind(filters, self.schema.arrow)
        pruner = self._pruner(newest=end is None)
        descriptors = self._partitions(self.listing.partitions(), bound)
        if bound is not None and pruner is not None:
            descriptors = pruner.partitions(descriptors, bound)
        found = self._newest_slices([descriptor.path for descriptor in descriptors], end, horizon)
        self.report.slices_total += sum(map(len, found.values()))
        if bound is not None and pruner is not None:
            kept: dict[str, list[FileSlice]] = {}
            for slice_ in pruner.slices([slice_ for slices in found.values() for slice_ in slices], bound):
                kept.setdefault(slice_.group.partition, []).append(slice_)
            found = {partition: tuple(slices) for partition, slices in kept.items()}
            self.report.steps += pruner.steps
        return [
            PartitionIncrementalSnapshot(descriptor, instants, found[descriptor.path])
            for descriptor in descriptors
            if found.get(descriptor.path)
        ]

    def _newest_slices(
        self, partitions: Sequence[str], end: Instant | None, horizon: Horizon
    ) -> dict[str, tuple[FileSlice, ...]]:
        """Partition → its newest slices at an instant; those that are not known yet are listed."""
        known = self.known.at(end, self.base_files_only)
        listed = self.listing.files_of([partition for partition in partitions if partition not in known])
        since = taken_since(self.timeline, listed)
        by_versions = listed and end is not None and not self.despite_cleaning
        taken = taken_by_versions(self.timeline) if by_versions else {}
        made: dict[str, tuple[FileSlice, ...]] = {}
        for partition, files in listed.items():
            slices = self._latest(build_groups(partition, files, horizon))
            if self._lacks(partition, files, since.get(partition), slices, horizon):
                raise MissingFile(
                    f"{self.timeline.storage.uri}: files of partition {partition!r} were cleaned since the table was "
                    "opened; open it again"
                )
            if self._lacks(partition, files, taken.get(partition), slices, horizon):
                raise InstantNotFound(
                    f"{self.timeline.storage.uri}: files of partition {partition!r} that the table had at "
                    f"{'' if end is None else end.requested_at} were cleaned; read a later instant"
                )
            if end is not None and self.timeline.config.version < 8:
                # A log file of 0.x takes the blocks of several commits.
                slices = [replace(slice_, as_of=end.requested_at) for slice_ in slices]
            made[partition] = tuple(slices)
        found = {partition: known[partition] if partition in known else made[partition] for partition in partitions}
        self.known.learn(end, self.base_files_only, made)
        return found

    def _lacks(
        self,
        partition: str,
        files: Sequence[ListedFile],
        taken: Collection[str] | None,
        slices: Sequence[FileSlice],
        horizon: Horizon,
    ) -> bool:
        """Whether the slices would be others if the cleaner had taken no files."""
        whole = restored(files, taken)
        if not whole:
            return False
        expected = self._latest(build_groups(partition, whole, horizon))
        return [slice_.paths for slice_ in expected] != [slice_.paths for slice_ in slices]

    def _pruner(self, *, newest: bool) -> SlicePruner | None:
        if self.metadata is None:
            return None
        return SlicePruner(self.timeline.config, self.schema, self.metadata, newest and not self.base_files_only)

    def _increment(
        self, instants: Sequence[Instant], end: Instant | None, filters: Expression | None
    ) -> list[PartitionIncrementalSnapshot]:
        """Slices made of the files that the range wrote, and of nothing else (facts 15.2)."""
        chosen = frozenset(i.requested_at for i in instants)
        if not chosen:
            return []
        if any(i.requested_at in self.timeline.archived_times for i in instants if i not in self.timeline.files):
            return self._increment_by_snapshot(instants, chosen, end, filters)
        written: dict[str, dict[str, ListedFile]] = {}
        for instant in instants:
            for stat in self.timeline.metadata(instant).write_stats:
                if stat.path:
                    files = written.setdefault(stat.partition, {})
                    files[stat.name] = ListedFile(stat.name, stat.size or None)
        horizon = self._until(end)
        found = []
        bound = None if filters is None else bind(filters, self.schema.arrow)
        descriptors = self._partitions(sorted(written), bound)
        listed = self.listing.files_of([descriptor.path for descriptor in descriptors])
        for descriptor in descriptors:
            present = {file.name for file in listed[descriptor.path]}
            groups = build_groups(descriptor.path, written[descriptor.path].values(), horizon)
            slices = tuple(replace(slice_, instants=chosen) for slice_ in self._latest(groups))
            self.report.slices_total += len(slices)
            gone = [path for slice_ in slices for path in slice_.paths if path.rsplit("/", 1)[-1] not in present]
            if gone:
                return self._increment_by_snapshot(instants, chosen, end, filters)
            if slices:
                found.append(PartitionIncrementalSnapshot(descriptor, tuple(instants), slices))
        return found

    def _until(self, end: Instant | None) -> Horizon:
        if end is None:
            return Horizon(self.timeline)
        if self.timeline.config.version >= 8:
            return Horizon(self.timeline, completed_by=_completion(end))
        return Horizon(self.timeline, requested_by=end.requested_at)

    def _increment_by_snapshot(
        self,
        instants: Sequence[Instant],
        chosen: frozenset[str],
        end: Instant | None,
        filters: Expression | None,
    ) -> list[PartitionIncrementalSnapshot]:
        """Where files of the range are gone: the table at the range's end, less the rows of other instants."""
        last = instants[-1] if end is None or end not in self.timeline.files else end
        is_archived = end is not None and end not in self.timeline.files
        if (
            self.despite_cleaning
            and self._is_cleaned(last)
            and not (is_archived and self.timeline.config.is_merge_on_read)
        ):
            # Hudi's choice: the newest slices, whose rows of the range are those that never changed since. Of ranges
            # that end in the archive it gives nothing of merge-on-read tables.
            last = self.timeline.commits[-1]
        return [
            replace(
                found,
                timeline=tuple(instants),
                slices=tuple(replace(slice_, instants=chosen) for slice_ in found.slices),
            )
            for found in self._snapshot(last, filters)
        ]

    def _latest(self, groups: Iterable[FileGroup]) -> list[FileSlice]:
        if self.base_files_only:
            slices = [with_base[-1] for g in groups if (with_base := [s for s in g.slices if s.base_file is not None])]
            slices = [replace(slice_, delta_files=()) for slice_ in slices]
        else:
            slices = [latest for group in groups if (latest := group.latest()) is not None]
        return slices

    def _descriptor(self, partition: str) -> PartitionDescriptor:
        return describe_partition(self.timeline.config, partition, self.schema.arrow)

    def _partitions(self, paths: Sequence[str], bound: Expression | None) -> list[PartitionDescriptor]:
        known = self.known.descriptors(self.schema.arrow)
        for path in paths:
            if path not in known:
                known[path] = self._descriptor(path)
        found = [known[path] for path in paths if self.only is None or path in self.only]
        kept = found if bound is None else self._matching(found, bound)
        self.report.partitions_total += len(paths)
        self.report.partitions_kept += len(kept)
        return kept

    def _matching(self, found: list[PartitionDescriptor], bound: Expression) -> list[PartitionDescriptor]:
        """Partitions that may hold a match. What concerns partition columns alone is checked for all at once."""
        known = set(found[0].columns).intersection(*(descriptor.columns for descriptor in found)) if found else set()
        parts = bound.operands if isinstance(bound, And) else (bound,)
        certain = [part for part in parts if columns(part) and columns(part) <= known]
        if certain and len(found) > 1:
            values = [descriptor.as_mapping() for descriptor in found]
            table = pa.table(
                {
                    name: pa.array([v[name] for v in values], self.schema.arrow.field(name).type)
                    for name in sorted(known)
                }
            )
            matches = evaluate(conjunction(certain), table).to_pylist()
            found = [descriptor for descriptor, match in zip(found, matches, strict=True) if match]
            parts = tuple(part for part in parts if part not in certain)
        fields = set(self.timeline.config.partition_fields)
        # What names no column is the same for all: false, or unknown as `x <> NULL` is.
        open_ones = [part for part in parts if not columns(part) or columns(part) & fields]
        return [d for d in found if _matches(d, conjunction(open_ones))] if open_ones else found

    @cached_property
    def earliest_retained(self) -> str | None:
        """The oldest instant whose files the cleaner kept; None where nothing was cleaned."""
        cleans = [i for i in self.timeline.completed() if i.action == "clean"]
        for clean in reversed(cleans):
            record = self.timeline.read(clean)
            if record.get("earliestCommitToRetain"):
                return str(record["earliestCommitToRetain"])
        return None

    def _is_cleaned(self, instant: Instant) -> bool:
        """Whether the cleaner took files that the table consisted of at an instant."""
        earliest, latest = self.earliest_retained, self.timeline.find_latest_completed_action_at()
        if earliest is None or latest is None:
            return False
        return instant.requested_at < earliest and instant.requested_at < latest.requested_at

    def _check_retained(self, end: Instant) -> None:
        if self._is_cleaned(end):
            raise InstantNotFound(
                f"{self.timeline.storage.uri}: files of instant {end.requested_at} were cleaned; the earliest instant "
                f"that can still be read is {self.earliest_retained}"
            )


def _completion(instant: Instant | None) -> str | None:
    return None if instant is None else instant.completed_at or instant.requested_at


def _matches(descriptor: PartitionDescriptor, bound: Expression | None) -> bool:
    return bound is None or evaluate_partition(bound, descriptor.as_mapping()) is not Match.NO
