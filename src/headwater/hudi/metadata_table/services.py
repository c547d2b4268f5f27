"""Keeping the metadata table fast: logs put into base files, and slices that nobody reads any more removed.

Both are actions of the metadata table's own timeline. A crash leaves a pending compaction or clean, which the next
writer ends; readers see the old slices until a compaction has completed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.hudi.file_names import parse_base_file
from headwater.hudi.metadata_table.commits import MetadataWriter, folders
from headwater.hudi.metadata_table.folding import folded, widest
from headwater.hudi.metadata_table.plans import clean_metadata, clean_plan, compaction_plan
from headwater.hudi.metadata_table.reader import RECORD_INDEX
from headwater.hudi.metadata_table.record_schema import record_schema
from headwater.hudi.timeline.instants import CLEAN, COMMIT, COMPACTION, DELTA_COMMIT
from headwater.hudi.view import Horizon, ListedFile, build_groups
from headwater.hudi.write.commit_metadata import completed_bytes
from headwater.hudi.write.model import WrittenFile
from headwater.spec.model import FileGroupId, FileRef, FileSlice, Instant, InstantState

_COMMITS_TILL_COMPACTION = 10
_SLICES_KEPT = 2
_EMPTY_LOG = 100
"""What makes a file group known without a record in it has fewer bytes."""
_LARGE_PARTITION_SHARE = 0.2
_LARGE_PARTITION_LOGS = 30


def maintain(writer: MetadataWriter, instant: str, *, every: int = _COMMITS_TILL_COMPACTION) -> bool:
    """Compact and clean where it is due, before the commit of `instant`; whether anything was done."""
    compactions, cleans = writer.timeline.pending(COMPACTION), writer.timeline.pending(CLEAN)
    for left in compactions:
        _compact(writer, left.requested_at, _planned(writer, left))
    for left in cleans:
        _delete(writer, left.requested_at, _planned_deletions(writer, left))
    if compactions or cleans:
        return True
    if not _is_due(writer, instant, every):
        return False
    slices = [slice_ for name in writer.metadata.data.config.metadata_partitions for slice_ in _worth(writer, name)]
    if not slices:
        return False
    # Before version 8, a service's time is made of that of the last commit.
    time = writer.now() if writer.version >= 8 else f"{_commits(writer)[-1].requested_at}001"
    writer.begin(time, COMPACTION, compaction_plan(slices))
    _compact(writer, time, slices)
    _clean(MetadataWriter.open(writer.metadata.data.storage, writer.metadata.data.config))
    return True


def _commits(writer: MetadataWriter) -> list[Instant]:
    return [i for i in writer.timeline.completed() if i.action == DELTA_COMMIT]


def _is_due(writer: MetadataWriter, instant: str, every: int) -> bool:
    commits = _commits(writer)
    compactions = [i.requested_at for i in writer.timeline.completed() if i.action == COMMIT]
    last = max(compactions, default="")
    since = [i for i in commits if (i.completed_at or "" if writer.version >= 8 else i.requested_at) > last]
    if len(since) < every:
        return False
    data = writer.metadata.data
    others = {i.requested_at for i in data.instants if not i.is_completed} - {instant}
    # What is not certain yet must stay in logs, from which it can be taken back.
    if any(data.is_pending(i.requested_at[:17]) for i in commits):
        return False
    return writer.version >= 8 or not any(time < commits[-1].requested_at for time in others)


def _worth(writer: MetadataWriter, partition: str) -> list[FileSlice]:
    """The slices whose logs are worth a new base file: a large base file waits until there is enough to change."""
    found = []
    for slice_ in writer.slices(partition):
        logs = [ref for ref in slice_.delta_files if (ref.size or 0) > _EMPTY_LOG]
        base = (slice_.base_file.size or 0) if slice_.base_file is not None else 0
        enough = partition != RECORD_INDEX or len(logs) >= _LARGE_PARTITION_LOGS
        if logs and (enough or sum(ref.size or 0 for ref in logs) >= _LARGE_PARTITION_SHARE * base):
            found.append(slice_)
    return found


def _planned(writer: MetadataWriter, compaction: Instant) -> list[FileSlice]:
    """The slices of a plan that somebody wrote and did not end."""
    slices: list[FileSlice] = []
    sizes = {}
    for operation in writer.timeline.read(compaction, InstantState.REQUESTED).get("operations") or ():
        partition = operation["partitionPath"]
        if partition not in sizes:
            sizes[partition] = {entry.name: entry.size for entry in writer.listing(partition)}

        def ref(name: str, partition: str = partition) -> FileRef:
            name = name.rsplit("/", 1)[-1]
            return FileRef(f"{partition}/{name}", sizes[partition].get(name))

        base = operation["dataFilePath"]
        slices.append(
            FileSlice(
                FileGroupId(partition, operation["fileId"]),
                operation["baseInstantTime"],
                ref(base) if base else None,
                tuple(ref(name) for name in operation["deltaFilePaths"] or ()),
            )
        )
    return slices


def _compact(writer: MetadataWriter, instant: str, slices: Sequence[FileSlice]) -> None:
    written: list[WrittenFile] = []
    for slice_ in slices:
        group = slice_.group
        for entry in writer.listing(group.partition):
            # What an earlier try left would stand beside the new file under the same instant.
            base = parse_base_file(entry.name)
            if base is not None and (base.file_id, base.instant) == (group.file_id, instant):
                writer.storage.delete(f"{group.partition}/{entry.name}")
        found = writer.metadata.group(slice_)
        logs = list(found.log_columns())
        schema = widest([schema for *_, schema in logs if schema] + found.base_schemas(), writer.version)
        parts = folded(group.partition, found.base_columns(), logs, schema)
        written.append(writer.write_base(group.partition, group.file_id, instant, parts, schema))
    content = completed_bytes(
        writer.config,
        instant,
        COMMIT,
        "COMPACT",
        written,
        replaced={},
        # Hudi writes with the schema of the newest commit, and gives it the meta columns itself.
        schema=record_schema(writer.version, meta_fields=False),
        extra={},
    )
    writer.finish(instant, COMMIT, content)


def _clean(writer: MetadataWriter) -> None:
    """Remove the files of all but the newest slices of each file group."""
    gone: dict[str, list[str]] = {}
    retained = ""
    for partition in folders(writer.storage):
        files = [ListedFile(entry.name, entry.size) for entry in writer.listing(partition)]
        for group in build_groups(partition, files, Horizon(writer.timeline)):
            kept = group.slices[-_SLICES_KEPT:]
            retained = max(retained, kept[0].base_instant)
            for slice_ in group.slices[:-_SLICES_KEPT]:
                gone.setdefault(partition, []).extend(path.rsplit("/", 1)[-1] for path in slice_.paths)
    if not gone:
        return
    newest = _commits(writer)[-1].requested_at
    instant = writer.now() if writer.version >= 8 else f"{newest}002"
    writer.begin(instant, CLEAN, clean_plan(gone, retained=retained, root=writer.storage.root))
    _delete(writer, instant, gone, retained)


def _planned_deletions(writer: MetadataWriter, clean: Instant) -> dict[str, list[str]]:
    """The files of a clean that somebody planned and did not end."""
    plan = writer.timeline.read(clean, InstantState.REQUESTED)
    found = plan.get("filePathsToBeDeletedPerPartition") or {}
    return {partition: [file["filePath"].rsplit("/", 1)[-1] for file in files] for partition, files in found.items()}


def _delete(writer: MetadataWriter, instant: str, gone: Mapping[str, Sequence[str]], retained: str = "") -> None:
    for partition, names in gone.items():
        for name in names:
            writer.storage.delete(f"{partition}/{name}")
    writer.finish(instant, CLEAN, clean_metadata(gone, instant=instant, retained=retained))
