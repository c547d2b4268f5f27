"""A commit to the metadata table: file groups as a writer sees them, log files, and the files of its own timeline.

The metadata table's commit has the instant of the data table's, and completes first. A block counts once the data
table's instant has completed: a crash between the two leaves a commit that nobody sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptFile
from headwater.hudi.file_names import parse_base_file, parse_log_file
from headwater.hudi.hfile import HFileWriter
from headwater.hudi.log import BlockType, scan_blocks
from headwater.hudi.log.deletes import write_deletes
from headwater.hudi.log.format import Header, write_block
from headwater.hudi.metadata_table.layout import DATA_BLOCK_SIZE, Entries
from headwater.hudi.metadata_table.reader import FOLDER, MetadataTable
from headwater.hudi.metadata_table.record_schema import record_schema
from headwater.hudi.properties import TableConfig, load_config
from headwater.hudi.timeline import HudiTimeline, load_timeline
from headwater.hudi.timeline.instants import COMPACTION, DELTA_COMMIT
from headwater.hudi.view import Horizon, ListedFile, build_groups
from headwater.hudi.write.clock import next_time
from headwater.hudi.write.commit_metadata import completed_bytes
from headwater.hudi.write.model import WrittenFile
from headwater.hudi.write.parquet_sink import reported
from headwater.spec.model import FileSlice, InstantState
from headwater.storage import FileEntry, Storage

TOKEN = "0-1-1"
_BLOCK_SIZE = 1 << 16


@dataclass(frozen=True)
class MetadataWriter:
    """The metadata table of a data table, opened to write one commit. Its listings are read once."""

    metadata: MetadataTable
    _listings: dict[str, list[FileEntry]] = field(default_factory=dict, repr=False)
    _slices: dict[str, list[FileSlice]] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, storage: Storage, config: TableConfig) -> MetadataWriter:
        """Both timelines as they are now."""
        data = load_timeline(storage, config)
        own = storage.child(FOLDER)
        own_config = load_config(own)
        return cls(MetadataTable(own, own_config, load_timeline(own, own_config), data))

    @property
    def storage(self) -> Storage:
        return self.metadata.storage

    @property
    def config(self) -> TableConfig:
        return self.metadata.config

    @property
    def timeline(self) -> HudiTimeline:
        return self.metadata.timeline

    @property
    def version(self) -> int:
        return self.config.version

    @property
    def in_utc(self) -> bool:
        """Instants are the data table's, and so is their zone."""
        return self.metadata.data.config.timeline_in_utc

    def now(self) -> str:
        """A time later than all that both timelines know."""
        known = [text for i in self.timeline.instants for text in (i.requested_at[:17], (i.completed_at or "")[:17])]
        return next_time(self.metadata.data, *known)

    @cached_property
    def _planned(self) -> dict[tuple[str, str], str]:
        """(partition, file id) → instant of the pending compaction that will make its next base file."""
        found: dict[tuple[str, str], str] = {}
        for instant in self.timeline.pending(COMPACTION):
            for operation in self.timeline.read(instant, InstantState.REQUESTED).get("operations") or ():
                found[operation["partitionPath"], operation["fileId"]] = instant.requested_at
        return found

    def listing(self, partition: str) -> list[FileEntry]:
        if partition not in self._listings:
            self._listings[partition] = [entry for entry in self.storage.list(partition) if not entry.is_directory]
        return self._listings[partition]

    def slices(self, partition: str) -> list[FileSlice]:
        """The newest slice of each file group of a partition, in the order that keys are hashed to."""
        if partition in self._slices:
            return self._slices[partition]
        files = [ListedFile(entry.name, entry.size) for entry in self.listing(partition)]
        built = build_groups(partition, files, Horizon(self.timeline))
        found = [slice_ for group in built if (slice_ := group.latest()) is not None]
        self._slices[partition] = found
        if not found:
            raise CorruptFile(
                f"{self.storage.describe(partition)}: has no file groups, and the table's properties call the index "
                "ready; rebuild the metadata table"
            )
        return found

    def next_log_name(self, slice_: FileSlice, instant: str) -> tuple[str, int]:
        """The name of a new log file and its version.

        Before version 8 a log is named after its slice, or after the compaction that is to make the next one.
        """
        group = slice_.group
        base = instant
        if self.version < 8:
            base = self._planned.get((group.partition, group.file_id), slice_.base_instant)
        taken = [
            log.version
            for entry in self.listing(group.partition)
            if (log := parse_log_file(entry.name)) is not None and log.file_id == group.file_id and log.instant == base
        ]
        version = max(taken, default=0) + 1
        return f".{group.file_id}_{base}.log.{version}_{TOKEN}", version

    def write_log(self, slice_: FileSlice, instant: str, entries: Entries) -> WrittenFile:
        """A log file with these sorted records. A crash leaves none or all of it, and it does not count."""
        group = slice_.group
        name, version = self.next_log_name(slice_, instant)
        data = log_bytes(group.partition, instant, entries, self.version)
        self.storage.create(f"{group.partition}/{name}", data)
        gone = int(pc.sum(pc.equal(pc.binary_length(entries.values), 0)).as_py() or 0)
        return WrittenFile(
            partition=group.partition,
            file_id=group.file_id,
            name=name,
            size=len(data),
            rows=len(entries),
            updated=len(entries) - gone,
            deleted=gone,
            previous_instant=slice_.base_instant,
            base_file=slice_.base_file.name if slice_.base_file is not None else None,
            is_log=True,
            log_version=version,
            earlier_logs=tuple(ref.name for ref in slice_.delta_files),
        )

    def write_base(
        self, partition: str, file_id: str, instant: str, parts: Iterable[Entries], schema: str
    ) -> WrittenFile:
        """A base file of these records, sorted and none of them gone; a crash leaves a part of it, which nobody reads.

        No more is in memory than one part and a block.
        """
        name = f"{file_id}_{TOKEN}_{instant}.hfile"
        path = f"{partition}/{name}"
        with reported(self.storage.describe(path)), self.storage.open_output(path) as sink:
            block_size = DATA_BLOCK_SIZE.get(partition, _BLOCK_SIZE)
            writer = HFileWriter(block_size=block_size, like_hbase=self.version < 9, sink=sink.write)
            for part in parts:
                writer.append_columns(part.keys, part.values)
            writer.add_info(b"schema", schema.encode())
            if (ends := writer.key_range) is not None:
                writer.add_info(b"minRecordKey", ends[0])
                writer.add_info(b"maxRecordKey", ends[1])
            writer.finish()
        return WrittenFile(
            partition=partition,
            file_id=file_id,
            name=name,
            size=writer.size,
            rows=writer.entry_count,
            inserted=writer.entry_count,
        )

    def begin(self, instant: str, action: str = DELTA_COMMIT, plan: bytes = b"") -> None:
        """Write that a commit has begun; a crash leaves it pending, and the next writer undoes it."""
        for state, content in (("requested", plan), ("inflight", b"")):
            self.storage.replace(f"{self.config.timeline_folder}/{instant}.{action}.{state}", content)

    def complete(
        self, instant: str, written: Sequence[WrittenFile], *, action: str = DELTA_COMMIT, operation: str
    ) -> None:
        """Write that a commit has completed, in one step."""
        content = completed_bytes(
            self.config,
            instant,
            action,
            operation,
            written,
            replaced={},
            schema=record_schema(self.version, meta_fields=False),
            extra={},
        )
        self.finish(instant, action, content)

    def finish(self, instant: str, action: str, content: bytes) -> None:
        """Create the completed file of an action."""
        name = f"{instant}.{action}" if self.config.layout < 2 else f"{instant}_{self._completion(instant)}.{action}"
        self.storage.create(f"{self.config.timeline_folder}/{name}", content)

    def _completion(self, instant: str) -> str:
        known = [text for i in self.timeline.instants for text in (i.requested_at[:17], (i.completed_at or "")[:17])]
        return next_time(self.metadata.data, *known, instant[:17])


def log_bytes(partition: str, instant: str, entries: Entries, version: int) -> bytes:
    """The bytes of a log file: a block of what came, and one of the keys of what went."""
    schema = record_schema(version)
    headers: Mapping[int, str] = {Header.SCHEMA: schema, Header.INSTANT_TIME: instant}
    there = pc.greater(pc.binary_length(entries.values), 0)
    parts: list[bytes] = []
    kept = entries if pc.all(there).as_py() else Entries(entries.keys.filter(there), entries.values.filter(there))
    if len(kept):
        writer = HFileWriter(block_size=DATA_BLOCK_SIZE.get(partition, _BLOCK_SIZE), like_hbase=version < 9)
        writer.append_columns(kept.keys, kept.values)
        writer.add_info(b"schema", schema.encode())
        parts.append(write_block(BlockType.HFILE_DATA, headers, writer.finish()))
    if len(kept) < len(entries):
        gone = entries.keys.filter(pc.invert(there)).cast(pa.string()).to_pylist()
        parts.append(write_block(BlockType.DELETE, headers, write_deletes((key, partition, None) for key in gone)))
    return b"".join(parts)


def undo(writer: MetadataWriter, instant: str) -> bool:
    """Take a commit back, completed or not; whether it could: what a compaction has taken up cannot be taken back.

    The completed file goes first: a crash leaves a pending commit, which nobody reads and the next writer undoes.
    """
    timeline, storage = writer.timeline, writer.storage
    found = [i for i in timeline.instants if i.requested_at == instant and i.action == DELTA_COMMIT]
    if not found:
        return True
    done = next((i.completed_at for i in found if i.is_completed), None)
    limit = done if done is not None and writer.version >= 8 else instant
    if done is not None and any(i.action == "commit" and i.requested_at >= limit for i in timeline.completed()):
        return False
    names = [file for i in found for file in timeline.files[i].values()]
    for file in names:
        if file.completed_at is not None:
            storage.delete(file.path)
    for partition in folders(storage):
        for entry in writer.listing(partition):
            _undo_file(writer, partition, entry, instant)
    for state in ("inflight", "requested"):
        storage.delete(f"{writer.config.timeline_folder}/{instant}.{DELTA_COMMIT}.{state}")
    return True


def folders(storage: Storage) -> list[str]:
    """The partitions of the metadata table that are on disk."""
    return [entry.path for entry in storage.list("") if entry.is_directory and not entry.name.startswith(".")]


def _undo_file(writer: MetadataWriter, partition: str, entry: FileEntry, instant: str) -> None:
    base, log = parse_base_file(entry.name), parse_log_file(entry.name)
    path = f"{partition}/{entry.name}"
    if base is not None:
        if base.instant == instant:
            writer.storage.delete(path)
        return
    if log is None:
        return
    if writer.version >= 8:
        if log.instant == instant:
            writer.storage.delete(path)
        return
    times = {block.instant_time for block in scan_blocks(writer.storage, path) if block.type is not BlockType.CORRUPT}
    if times == {instant}:
        writer.storage.delete(path)
    elif instant in times:
        # Hudi appends to log files where the filesystem can: only a command takes one block of many back.
        headers: Mapping[int, str] = {
            Header.INSTANT_TIME: instant,
            Header.TARGET_INSTANT_TIME: instant,
            Header.COMMAND_BLOCK_TYPE: "0",
        }
        taken = [
            other.version
            for item in writer.listing(partition)
            if (other := parse_log_file(item.name)) is not None
            and (other.file_id, other.instant) == (log.file_id, log.instant)
        ]
        name = f".{log.file_id}_{log.instant}.log.{max(taken) + 1}_1-0-1"
        writer.storage.replace(f"{partition}/{name}", write_block(BlockType.COMMAND, headers))


def pending_commits(writer: MetadataWriter) -> Iterable[str]:
    """Commits of the metadata table that a crash has left unfinished."""
    return [i.requested_at for i in writer.timeline.pending(DELTA_COMMIT)]
