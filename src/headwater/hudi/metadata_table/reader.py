"""Reading a table's metadata table: look-ups that open only the file groups and blocks that hold the keys (facts 8)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptFile, MissingFile
from headwater.hudi.cleaned import restored, taken_since
from headwater.hudi.hfile import BytesSource, HFileReader, StorageSource
from headwater.hudi.index import hashing
from headwater.hudi.keys import unescape
from headwater.hudi.log import BlockType, LogBlock, read_delete_block, scan_blocks, select_blocks
from headwater.hudi.metadata_table.merging import live, merge
from headwater.hudi.metadata_table.records import (
    ALL_PARTITIONS_KEY,
    BloomEntry,
    ColumnStats,
    FileListing,
    Payload,
    RecordLocation,
    SecondaryEntry,
    Tombstone,
    decode_records,
)
from headwater.hudi.properties import META_FOLDER, TableConfig, load_config
from headwater.hudi.timeline import HudiTimeline, load_timeline
from headwater.hudi.timeline.instants import DELTA_COMMIT, LOG_COMPACTION, WRITE_ACTIONS
from headwater.hudi.view import Horizon, ListedFile, build_groups
from headwater.spec.model import FileSlice, Instant
from headwater.storage import Storage

FOLDER = f"{META_FOLDER}/metadata"
FILES, COLUMN_STATS, PARTITION_STATS = "files", "column_stats", "partition_stats"
BLOOM_FILTERS, RECORD_INDEX = "bloom_filters", "record_index"

# What the times of the first instants begin with: as many zeros as a time without milliseconds has digits.
_NO_COMMIT = "0" * 14
# A log file of more bytes is not read whole. A bulk insert leaves the places of all its records in a few of these.
_LARGE = 1024 * 1024

_Entries = Iterable[tuple[bytes, bytes]]
_Select = Callable[[HFileReader], _Entries]
_Columns: TypeAlias = tuple[pa.Array, pa.Array, "str | bytes"]
"""Keys, values and the schema of the values."""


@dataclass(frozen=True)
class MetadataTable:
    """The metadata table of a data table, as far as the data table's timeline lets it count."""

    storage: Storage
    config: TableConfig
    timeline: HudiTimeline
    data: HudiTimeline
    """The timeline of the data table: what is pending there does not count here."""
    _groups: dict[str, list[_FileGroup]] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, data: HudiTimeline, *, as_known: bool = True) -> MetadataTable | None:
        """None where the table has none, or has one that its properties do not call ready.

        It is given as the data table's timeline knows it, unless that is what is to be checked.
        """
        if FILES not in data.config.metadata_partitions or data.storage.find(FOLDER) is None:
            return None
        storage = data.storage.child(FOLDER)
        config = load_config(storage)
        timeline = load_timeline(storage, config)
        return cls(storage, config, _as_known(timeline, data) if as_known else timeline, data)

    @cached_property
    def is_current(self) -> bool:
        """Whether it knows the data table's newest write; a writer that left it out makes it useless."""
        for instant in reversed(self.data.commits):
            if self.timeline.is_committed(instant.requested_at) or self._was_made_after(instant):
                return True
            if self.data.metadata(instant).write_stats or self.data.metadata(instant).replaced:
                return False
        return True

    def _was_made_after(self, write: Instant) -> bool:
        """Whether it was made, or made anew, of the files of a table that had this write already.

        Its first instants then have times of their own, and none has that of the write. One that has the writes before
        it, but not this one, was not made after it, whatever the files' times say.
        """
        mine = [i for i in self.timeline.completed() if i.action in WRITE_ACTIONS]
        made = [i for i in mine if i.requested_at.startswith(_NO_COMMIT)]
        if not made or write.completed_at is None:
            return False
        earlier = any(i.requested_at <= write.requested_at for i in mine if i not in made)
        return not earlier and all((i.completed_at or "") > write.completed_at for i in made)

    @cached_property
    def definitions(self) -> dict[str, dict[str, Any]]:
        """Index name → how it is defined; empty before version 8."""
        path = (
            self.data.config.properties.get("hoodie.table.index.defs.path") or f"{META_FOLDER}/.index_defs/index.json"
        )
        if self.data.storage.find(path) is None:
            return {}
        try:
            found = json.loads(self.data.storage.read_bytes(path).decode("utf-8"))
            return {str(name): _definition(item) for name, item in (found.get("indexDefinitions") or {}).items()}
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise CorruptFile(
                f"{self.data.storage.describe(path)}: is no list of index definitions ({error}); rebuild the metadata "
                "table, or open the table with metadata=False"
            ) from error

    @property
    def index_is_partitioned(self) -> bool:
        """Whether each partition of the data table has file groups of its own in the record index (Hudi 1.1 on).

        Such an index knows one place for each key and partition; a key may stand in several partitions.
        """
        options = self.definitions.get(RECORD_INDEX, {}).get("indexOptions")
        return isinstance(options, dict) and str(options.get("isPartitioned", "false")).lower() == "true"

    def has(self, partition: str) -> bool:
        """Whether an index is complete and may be used."""
        return partition in self.data.config.metadata_partitions

    def has_files(self, partition: str) -> bool:
        """Whether an index is there still: one that was dropped since the table was opened would know no key at all."""
        return self.has(partition) and bool(self._all_groups(partition))

    def partitions(self) -> list[str]:
        """Every partition of the data table, sorted; the empty path for a table without partitions."""
        found = self.lookup(FILES, [ALL_PARTITIONS_KEY]).get(ALL_PARTITIONS_KEY)
        listed = found.present if isinstance(found, FileListing) else {}
        return sorted("" if path == "." else path for path in listed)

    def files(self, partition: str) -> list[ListedFile]:
        """The files of one partition."""
        return self.files_of([partition])[partition]

    def files_of(self, partitions: Sequence[str]) -> dict[str, list[ListedFile]]:
        """The files of several partitions at once."""
        found = self.lookup(FILES, [partition or "." for partition in partitions])
        listed: dict[str, list[ListedFile]] = {}
        for partition in partitions:
            entry = found.get(partition or ".")
            present = entry.present if isinstance(entry, FileListing) else {}
            listed[partition] = [ListedFile(name, size) for name, size in present.items()]
        return listed

    def column_stats(
        self, columns: Sequence[str], files: Iterable[tuple[str, str]], *, index: str = COLUMN_STATS
    ) -> dict[tuple[str, str, str], ColumnStats]:
        """(partition, file name, column) → statistics, for the files that have them."""
        wanted = {
            hashing.column_stats_key(column, partition, file): (partition, file, column)
            for partition, file in files
            for column in columns
        }
        found = self.lookup(index, list(wanted))
        return {wanted[key]: payload for key, payload in found.items() if isinstance(payload, ColumnStats)}

    def partition_stats(
        self, columns: Sequence[str], partitions: Sequence[str], *, index: str = PARTITION_STATS
    ) -> dict[tuple[str, str], ColumnStats]:
        """(partition, column) → statistics of all its rows; with `index`, those that an expression index keeps."""
        of_expression = index != PARTITION_STATS
        wanted = {
            hashing.partition_stats_key(column, partition, of_expression_index=of_expression): (partition, column)
            for partition in partitions
            for column in columns
        }
        found = self.lookup(index, list(wanted))
        return {wanted[key]: payload for key, payload in found.items() if isinstance(payload, ColumnStats)}

    def blooms(self, files: Iterable[tuple[str, str]]) -> dict[tuple[str, str], BloomEntry]:
        """(partition, file name) → bloom filter of its record keys."""
        wanted = {hashing.bloom_filter_key(partition, file): (partition, file) for partition, file in files}
        found = self.lookup(BLOOM_FILTERS, list(wanted))
        return {wanted[key]: payload for key, payload in found.items() if isinstance(payload, BloomEntry)}

    def locations(
        self, keys: Sequence[str], partitions: Collection[str] | None = None
    ) -> list[tuple[str, RecordLocation]]:
        """Record keys and where they are; keys that are not in the table are left out.

        `partitions` are those that count, where only some do; an index that is kept by partition is not asked for
        others.
        """
        if self.index_is_partitioned:
            chosen = self._groups_by_data_partition
            parts = [groups for partition, groups in chosen.items() if partitions is None or partition in partitions]
        else:
            parts = [self._all_groups(RECORD_INDEX)]
        return [
            (key, payload)
            for groups in parts
            for key, payload in self._lookup(groups, keys).items()
            if isinstance(payload, RecordLocation) and (partitions is None or payload.partition in partitions)
        ]

    @cached_property
    def _groups_by_data_partition(self) -> dict[str, list[_FileGroup]]:
        """Partition of the data table → its file groups of the record index, in the order that keys are hashed to."""
        found: dict[str, list[_FileGroup]] = {}
        for group in self._all_groups(RECORD_INDEX):
            # record-index-PARTITION-NUMBER-0: the partition has its own hyphens escaped.
            parts = group.slice.group.file_id.split("-")
            if len(parts) < 5:
                raise CorruptFile(
                    f"{self.storage.describe(RECORD_INDEX)}: the index is said to be kept by partition, and file group "
                    f"{group.slice.group.file_id} names none; rebuild the metadata table, or open the table with "
                    "metadata=False"
                )
            found.setdefault(unescape("-".join(parts[2:-2])), []).append(group)
        return found

    def secondary_keys(self, index: str, values: Sequence[str | None]) -> list[str]:
        """The record keys whose indexed column has one of these values."""
        prefixes = [hashing.secondary_prefix(value).encode() for value in values]
        found = self._merged(self._all_groups(index), lambda reader: reader.scan_prefix(prefixes), prefixes)
        return [payload.record_key for payload in found.values() if isinstance(payload, SecondaryEntry)]

    def lookup(self, partition: str, keys: Sequence[str]) -> dict[str, Payload]:
        """The live records with these keys."""
        return self._lookup(self._all_groups(partition), keys)

    def _lookup(self, groups: Sequence[_FileGroup], keys: Sequence[str]) -> dict[str, Payload]:
        if not groups or not keys:
            return {}
        by_group: dict[int, list[str]] = {}
        for key in keys:
            by_group.setdefault(hashing.file_group_index(key, len(groups)), []).append(key)
        found: dict[str, Payload] = {}
        for index, chosen in by_group.items():
            wanted = sorted({key.encode() for key in chosen})
            found.update(self._merged([groups[index]], _getter(wanted), wanted, exact=True))
        return found

    def scan(self, partition: str) -> dict[str, Payload]:
        """Every live record of a partition of the metadata table."""
        return self._merged(self._all_groups(partition), lambda reader: reader.scan(), None)

    def _merged(
        self, groups: Sequence[_FileGroup], select: _Select, wanted: list[bytes] | None, *, exact: bool = False
    ) -> dict[str, Payload]:
        found: dict[str, Payload] = {}
        for group in groups:
            for key, payload in group.records(select, wanted, exact=exact):
                found[key] = merge(found.get(key), payload)
        return {key: kept for key, payload in found.items() if (kept := live(payload)) is not None}

    def file_groups(self, partition: str) -> Sequence[_FileGroup]:
        """The file groups of a partition of the metadata table, to be read as columns."""
        return self._all_groups(partition)

    def group(self, slice_: FileSlice) -> _FileGroup:
        """A slice of the metadata table, to be read as columns."""
        return _FileGroup(self, slice_)

    def _all_groups(self, partition: str) -> list[_FileGroup]:
        """The file groups of a partition, in the order that keys are hashed to."""
        groups = self._groups.get(partition)
        if groups is None:
            entries = self.storage.list(partition)
            files = [ListedFile(entry.name, entry.size) for entry in entries if not entry.is_directory]
            slices = self._newest(partition, files)
            taken = taken_since(self.timeline, {partition: files}).get(partition)
            if (whole := restored(files, taken)) and self._newest(partition, whole) != slices:
                raise MissingFile(
                    f"{self.storage.describe(partition)}: files of the metadata table were cleaned since the table was "
                    "opened; open it again"
                )
            if not slices and partition == FILES:
                raise MissingFile(
                    f"{self.storage.describe(partition)}: the metadata table was dropped since the table was opened; "
                    "open it again"
                )
            groups = [_FileGroup(self, slice_) for slice_ in slices]
            self._groups[partition] = groups
        return groups

    def _newest(self, partition: str, files: Sequence[ListedFile]) -> list[FileSlice]:
        built = build_groups(partition, files, Horizon(self.timeline))
        return [slice_ for group in built if (slice_ := group.latest()) is not None]

    def counts(self, instant: str) -> bool:
        """Whether a block of the metadata table counts.

        The metadata table commits before the data table does: what is still pending there has not happened.
        """
        return self.timeline.is_committed(instant) and not self.data.is_pending(instant[:17])


def _as_known(timeline: HudiTimeline, data: HudiTimeline) -> HudiTimeline:
    """The timeline of a metadata table less what was written to it since that of the data table was loaded.

    An index tells where rows are now: those of the state that is read may have been elsewhere.
    """
    newest = max((max(i.requested_at, i.completed_at or "") for i in data.instants), default="9")

    def is_late(instant: Instant) -> bool:
        """Whether it is a write that came with one to the data table; services have times of their own."""
        if instant.action != DELTA_COMMIT or any(f.action == LOG_COMPACTION for f in timeline.files[instant].values()):
            return False
        # Old tables have times without milliseconds; the metadata table adds digits of its own.
        return instant.requested_at[:17] > newest.ljust(17, "9")

    first = min((instant.requested_at for instant in timeline.instants if is_late(instant)), default=None)
    if first is None:
        return timeline
    return replace(timeline, instants=tuple(i for i in timeline.instants if i.requested_at < first))


@dataclass(frozen=True)
class _FileGroup:
    """The newest slice of one file group: an HFile and log files of HFile blocks. Each is opened once."""

    table: MetadataTable
    slice: FileSlice

    @cached_property
    def _base(self) -> HFileReader | None:
        ref = self.slice.base_file
        if ref is None:
            return None
        source = StorageSource(self.table.storage, ref.path)
        return HFileReader(source, self.table.storage.describe(ref.path))

    @cached_property
    def _blocks(self) -> list[LogBlock]:
        blocks = [
            block
            for ref in self.slice.delta_files
            for block in scan_blocks(self.table.storage, ref.path, lazy=(ref.size or 0) > _LARGE)
        ]
        for block in blocks:
            if block.type is BlockType.CORRUPT:
                # What it listed is unknown: a reader that passed over it would leave rows out, or bring old ones back.
                raise CorruptFile(
                    f"{block.file}: the {block.length} bytes at byte {block.offset} are no log block; rebuild the "
                    "metadata table, or open the table with metadata=False"
                )
        return select_blocks(blocks, is_valid_instant=self.table.counts)

    @cached_property
    def _readers(self) -> dict[int, HFileReader]:
        return {
            index: HFileReader(self._source(block), block.describe())
            for index, block in enumerate(self._blocks)
            if block.type is BlockType.HFILE_DATA
        }

    def _source(self, block: LogBlock) -> BytesSource | StorageSource:
        """A block's content: in memory, or where it lies if that is more than a look-up should read."""
        if block.content_length > _LARGE:
            paths = [ref.path for ref in self.slice.delta_files if self.table.storage.describe(ref.path) == block.file]
            return StorageSource(self.table.storage, paths[0], part=(block.content_offset, block.content_length))
        return BytesSource(block.content())

    def base_schemas(self) -> list[str | bytes]:
        """The schema of the base file's records, where there is one."""
        if self._base is None or not self._base.entry_count:
            return []
        return [self._schema(self._base.file_info.get(b"schema"), self._base.name)]

    def base_columns(self) -> Iterator[_Columns]:
        """Keys and values of the base file, block by block."""
        if self._base is not None and self._base.entry_count:
            schema = self._schema(self._base.file_info.get(b"schema"), self._base.name)
            for keys, values in self._base.scan_columns():
                yield keys, values, schema

    def log_columns(self) -> Iterator[_Columns]:
        """Keys and values of the log blocks, oldest first; a deleted key has an empty value."""
        for index, block in enumerate(self._blocks):
            if block.type is BlockType.DELETE:
                keys = pa.array(read_delete_block(block).key.to_pylist(), pa.binary())
                yield keys, pa.array([b""] * len(keys), pa.binary()), ""
            elif block.type is BlockType.HFILE_DATA:
                schema = self._schema(block.schema, block.describe())
                for keys, values in self._readers[index].scan_columns():
                    yield keys, values, schema

    def columns_of(self, keys: pa.Array) -> Iterator[_Columns]:
        """As `base_columns` and `log_columns`, oldest first, of the records with these keys only."""
        if self._base is not None and self._base.entry_count:
            schema = self._schema(self._base.file_info.get(b"schema"), self._base.name)
            for found, values in self._base.get_columns(keys):
                yield found, values, schema
        for index, block in enumerate(self._blocks):
            if block.type is BlockType.DELETE:
                gone = pa.array(read_delete_block(block).key.to_pylist(), pa.binary())
                gone = gone.filter(pc.is_in(gone, value_set=keys.cast(pa.binary())))
                if len(gone):
                    yield gone, pa.array([b""] * len(gone), pa.binary()), ""
            elif block.type is BlockType.HFILE_DATA:
                schema = self._schema(block.schema, block.describe())
                for found, values in self._readers[index].get_columns(keys):
                    yield found, values, schema

    def _schema(self, schema: str | bytes | None, where: str) -> str | bytes:
        if schema is None:
            raise CorruptFile(f"{where}: has no schema; rebuild the metadata table")
        return schema

    def records(self, select: _Select, wanted: list[bytes] | None, *, exact: bool) -> Iterator[tuple[str, Payload]]:
        """Versions of the chosen records, oldest first."""
        if self._base is not None and self._base.entry_count:
            schema = self._schema(self._base.file_info.get(b"schema"), self._base.name)
            yield from decode_records(select(self._base), schema, name=self._base.name)
        for index, block in enumerate(self._blocks):
            if block.type is BlockType.DELETE:
                yield from _deleted(block, wanted, exact=exact)
            elif block.type is BlockType.HFILE_DATA:
                schema = self._schema(block.schema, block.describe())
                yield from decode_records(select(self._readers[index]), schema, name=block.describe())


def _definition(item: Any) -> dict[str, Any]:
    found = dict(item)
    if not isinstance(found.get("sourceFields") or [], list) or not isinstance(found.get("indexOptions") or {}, dict):
        raise ValueError(f"a definition has other fields or options than a list and a map: {str(found)[:200]}")
    return found


def _getter(wanted: list[bytes]) -> _Select:
    return lambda reader: reader.get_many(wanted)


def _deleted(block: LogBlock, wanted: list[bytes] | None, *, exact: bool) -> Iterator[tuple[str, Payload]]:
    prefixes = None if wanted is None else tuple(wanted)
    for key in read_delete_block(block).key.to_pylist():
        data = str(key).encode()
        if prefixes is None or (data in prefixes if exact else data.startswith(prefixes)):
            yield str(key), Tombstone()
