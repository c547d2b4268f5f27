"""Which changes a range of commits made, and how each is to be read (facts 12.4–12.6, 15.8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.errors import InstantNotFound
from headwater.hudi.file_names import parse_base_file
from headwater.hudi.listing import Listing
from headwater.hudi.timeline import CommitMetadata, HudiTimeline, WriteStat
from headwater.hudi.view import Horizon, build_groups
from headwater.spec.model import ChangeKind, ChangeSlice, FileGroupId, FileRef, FileSlice, Instant


def plan_changes(timeline: HudiTimeline, listing: Listing, instants: Sequence[Instant]) -> dict[str, list[ChangeSlice]]:
    """Partition → its changes in the order they were made. Compaction and clustering change nothing."""
    found: dict[str, list[ChangeSlice]] = {}
    for instant in instants:
        if instant not in timeline.files and instant.requested_at in timeline.archived_times:
            raise InstantNotFound(
                f"{timeline.storage.uri}: changes of instant {instant.requested_at} are archived and cannot be told; "
                f"start at {timeline.start} or later"
            )
        if timeline.is_rewrite(instant):
            continue
        plan = _CommitChanges(timeline, listing, instant)
        for change in plan.changes():
            found.setdefault(change.group.partition, []).append(change)
    return found


class _CommitChanges:
    """The changes of one commit."""

    def __init__(self, timeline: HudiTimeline, listing: Listing, instant: Instant) -> None:
        self._timeline = timeline
        self._listing = listing
        self._instant = instant
        self._metadata: CommitMetadata = timeline.metadata(instant)
        self._slices: dict[tuple[str, bool], dict[str, FileSlice]] = {}

    def changes(self) -> Iterator[ChangeSlice]:
        by_group: dict[FileGroupId, list[WriteStat]] = {}
        for stat in self._metadata.write_stats:
            if stat.path:
                by_group.setdefault(FileGroupId(stat.partition, stat.file_id), []).append(stat)
        for group, stats in by_group.items():
            yield self._written(group, stats)
        for partition, ids in self._metadata.replaced.items():
            for file_id in ids:
                group = FileGroupId(partition, file_id)
                before = self._slice(group, before=True)
                if before is None:
                    raise self._cleaned(f"{partition}/{file_id}".lstrip("/"))
                yield ChangeSlice(group, self._instant, ChangeKind.DELETED, before=before)

    def _written(self, group: FileGroupId, stats: list[WriteStat]) -> ChangeSlice:
        logged = tuple(FileRef(path, size) for stat in stats for path, size in stat.cdc_files)
        before, after = self._slice(group, before=True), self._slice(group, before=False)
        if logged:
            return ChangeSlice(group, self._instant, ChangeKind.LOGGED, logged, before, after)
        present = {file.name for file in self._listing.files(group.partition)}
        for stat in stats:
            if stat.name not in present or (before is None and self._rewrites(stat)):
                raise self._cleaned(stat.path)
        only = stats[0]
        if len(stats) == 1 and parse_base_file(only.name) is not None:
            if self._metadata.operation.startswith("DELETE") and only.num_writes == 0 and only.num_deletes:
                return ChangeSlice(group, self._instant, ChangeKind.DELETED, before=before)
            if only.num_updates == 0 and only.num_deletes == 0 and before is None:
                return ChangeSlice(group, self._instant, ChangeKind.INSERTED, after=after)
        return ChangeSlice(group, self._instant, ChangeKind.MERGED, before=before, after=after)

    def _rewrites(self, stat: WriteStat) -> bool:
        """Whether the file is a base file that took rows of an earlier one. New groups may count deletes too."""
        deletes = self._metadata.operation.startswith("DELETE") and stat.num_deletes > 0
        taken = stat.num_updates > 0 or stat.num_writes > stat.num_inserts or deletes
        return taken and parse_base_file(stat.name) is not None

    def _cleaned(self, what: str) -> InstantNotFound:
        return InstantNotFound(
            f"{self._timeline.storage.uri}: changes of instant {self._instant.requested_at} cannot be told: files of "
            f"{what} were cleaned; start at that instant or later"
        )

    def _slice(self, group: FileGroupId, *, before: bool) -> FileSlice | None:
        key = (group.partition, before)
        if key not in self._slices:
            files = self._listing.files(group.partition)
            groups = build_groups(group.partition, files, self._horizon(before=before))
            self._slices[key] = {g.id.file_id: g.slices[-1] for g in groups}
        return self._slices[key].get(group.file_id)

    def _horizon(self, *, before: bool) -> Horizon:
        if self._timeline.config.version >= 8:
            bound = self._instant.completed_at or self._instant.requested_at
            return Horizon(self._timeline, completed_by=bound, exclusive=before)
        return Horizon(self._timeline, requested_by=self._instant.requested_at, exclusive=before)
