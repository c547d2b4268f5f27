"""Making the metadata table, or an index in it, of the files of a table that may have many commits already (facts 8.1).

An index is used once the table's properties name it: a crash before that leaves folders that nobody reads, and that the
next making of the index removes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from headwater.errors import InvalidArgument
from headwater.hudi.file_names import PARTITION_MARKER
from headwater.hudi.log import BlockType
from headwater.hudi.log.deletes import write_deletes
from headwater.hudi.log.format import Header, write_block
from headwater.hudi.metadata_table import present_state
from headwater.hudi.metadata_table.commits import MetadataWriter
from headwater.hudi.metadata_table.dropping import drop_metadata, set_partitions, update_definitions
from headwater.hudi.metadata_table.layout import WRITABLE, Entries, by_group, file_group_count, file_id
from headwater.hudi.metadata_table.moves import entries_by_group
from headwater.hudi.metadata_table.reader import COLUMN_STATS, FILES, FOLDER, PARTITION_STATS, RECORD_INDEX
from headwater.hudi.metadata_table.record_schema import record_schema
from headwater.hudi.metadata_table.statistics import kept_columns
from headwater.hudi.properties import META_FOLDER, PROPERTIES_FILE, TableConfig, load_config
from headwater.hudi.schema import META_SCHEMA
from headwater.hudi.table import HudiTable
from headwater.hudi.write.model import WrittenFile
from headwater.hudi.write.properties_file import render_java_properties, render_table_properties
from headwater.storage import Storage

_MOST_COLUMNS = 32
_NEWEST_VERSION = 9
_META_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
_NO_COMMIT = "0" * 14
_FOLDERS = (".aux/.bootstrap/.partitions", ".aux/.bootstrap/.fileids", ".schema", ".temp")


def create_metadata(
    table: HudiTable, indexes: Sequence[str] = (FILES,), *, columns: Sequence[str] | None = None
) -> None:
    """Make the metadata table where there is none, and those of these indexes that it does not have.

    The table's lock is held and nothing is being written. `columns` are those that get statistics; where none are
    given, the first 32 whose values have an order. Before version 8 all columns have statistics.
    """
    _check(table, indexes)
    storage, config = table.storage, load_config(table.storage)
    ready = [name for name in config.metadata_partitions if storage.find(FOLDER) is not None]
    wanted = [name for name in WRITABLE if (name in indexes or name == FILES) and name not in ready]
    if FILES in wanted:
        ready = []
        storage.delete_folder(FOLDER)
        _make_table(storage, config)
    fresh = HudiTable.open(storage, metadata=FILES in ready)
    chosen = list(columns) if columns is not None else default_columns(fresh.schema.arrow)
    if config.version < 8:
        # These tables do not say which columns have statistics: readers count on all.
        chosen = list(kept_columns(fresh.schema.arrow, None, config.version))
    for name in wanted:
        writer = MetadataWriter.open(storage, config)
        storage.delete_folder(f"{FOLDER}/{name}")
        _make_index(fresh, writer, name, chosen)
        update_definitions(storage, config, _definition(name, config.version, chosen))
        ready = [*ready, name]
        set_partitions(storage, config, ready)


def rebuild_metadata(table: HudiTable) -> None:
    """Make the metadata table anew of the table's files, with the same indexes; the table's lock is held.

    A crash leaves the table without some of its indexes, or without a metadata table: readers list folders then.
    """
    config = load_config(table.storage)
    found = HudiTable.open(table.storage).metadata
    columns = None
    if found is not None and COLUMN_STATS in found.definitions:
        columns = [str(name) for name in found.definitions[COLUMN_STATS].get("sourceFields") or ()]
    wanted = [name for name in WRITABLE if name in config.metadata_partitions]
    drop_metadata(table)
    create_metadata(table, wanted, columns=columns)


def default_columns(schema: pa.Schema) -> list[str]:
    """The columns that get statistics unless the caller names others: as with Hudi, some meta columns and the first 32.

    >>> default_columns(pa.schema([("_hoodie_record_key", pa.string()), ("a", pa.int32()), ("l", pa.list_(pa.int8()))]))
    ['_hoodie_record_key', 'a']
    """
    kept = kept_columns(schema, None, _NEWEST_VERSION)
    user = [name for name in kept if name in schema.names and name not in META_SCHEMA.names]
    return [*(name for name in _META_COLUMNS if name in schema.names), *user[:_MOST_COLUMNS]]


def _check(table: HudiTable, indexes: Sequence[str]) -> None:
    config = table.config
    unknown = [name for name in indexes if name not in WRITABLE]
    if unknown:
        raise InvalidArgument(f"no index is called {', '.join(unknown)}; known: {', '.join(WRITABLE)}")
    if PARTITION_STATS in indexes:
        if config.version < 8:
            raise InvalidArgument(
                f"{table.storage.uri}: tables of version {config.version} keep no statistics of partitions"
            )
        if COLUMN_STATS not in (*indexes, *config.metadata_partitions):
            raise InvalidArgument(f"{PARTITION_STATS} are made of {COLUMN_STATS}; ask for both")
        if not config.partition_fields:
            raise InvalidArgument(f"{table.storage.uri}: has no partitions, and so no statistics of them")
    if RECORD_INDEX in indexes and not config.populate_meta_fields:
        raise InvalidArgument(
            f"{table.storage.uri}: keeps no record keys (hoodie.populate.meta.fields=false): there is nothing for a "
            "record index"
        )


def _make_table(storage: Storage, config: TableConfig) -> None:
    values = {
        "hoodie.table.name": f"{config.name}_metadata",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(config.version),
        "hoodie.timeline.layout.version": str(config.layout),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.populate.meta.fields": "false",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.datasource.write.drop.partition.columns": "false",
    }
    if config.version < 8:
        values |= {
            "hoodie.archivelog.folder": "archived",
            "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
            "hoodie.table.keygenerator.class": "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
        }
    else:
        values |= {
            "hoodie.table.initial.version": str(config.version),
            "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
            "hoodie.archivelog.folder": "history",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.record.merge.mode": "CUSTOM",
            "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
        }
    own = storage.child(FOLDER)
    for folder in (*_FOLDERS, "archived" if config.version < 8 else "timeline/history"):
        own.make_folder(f"{META_FOLDER}/{folder}")
    own.create(PROPERTIES_FILE, render_table_properties(values))


def _make_index(table: HudiTable, writer: MetadataWriter, name: str, columns: Sequence[str]) -> None:
    """Write an index as one commit of the metadata table; it counts once it is named in the properties."""
    instant = _first_instant(writer)
    written: list[WrittenFile] = []
    writer.begin(instant)
    count = file_group_count(name, present_state.count_records(table) if name == RECORD_INDEX else 0)
    marker = {"commitTime": instant, "partitionDepth": "1"}
    writer.storage.replace(f"{name}/{PARTITION_MARKER}", render_java_properties(marker, "partition metadata"))
    empty = write_block(BlockType.DELETE, {Header.INSTANT_TIME: instant}, write_deletes([]))
    for index in range(count):
        # A file group without records is known by this file alone.
        writer.storage.create(f"{name}/.{file_id(name, index)}_{instant}.log.1_0-0-0", empty)
    for index, part in _entries(table, writer, name, columns, count):
        schema = record_schema(writer.version)
        written.append(writer.write_base(name, file_id(name, index), instant, [part], schema))
    writer.complete(instant, written, operation="BULK_INSERT")


def _entries(
    table: HudiTable, writer: MetadataWriter, name: str, columns: Sequence[str], count: int
) -> Iterator[tuple[int, Entries]]:
    if name != RECORD_INDEX:
        yield from by_group(present_state.entries(table, name, writer.version, columns), count)
        return
    fed = kept = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal fed
        for batch in present_state.places(table):
            fed += batch.num_rows
            yield batch

    for index, part in entries_by_group(counted(), count, writer.version, in_utc=writer.in_utc):
        kept += len(part)
        yield index, part
    if kept < fed:
        raise InvalidArgument(
            f"{table.storage.uri}: has {fed - kept} records whose key stands somewhere else too; a record index knows "
            "one place for each key: remove the duplicates first"
        )


def _first_instant(writer: MetadataWriter) -> str:
    """The time of an index's first commit, which is none of the data table's."""
    taken = {instant.requested_at for instant in writer.timeline.instants}
    if writer.version >= 8:
        return next(text for number in range(len(taken) + 1) if (text := f"{number:017d}") not in taken)
    done = [instant.requested_at for instant in writer.metadata.data.completed()]
    newest = max(done, default=_NO_COMMIT)
    return next(text for number in range(len(taken) + 1) if (text := f"{newest}{10 + number:03d}") not in taken)


def _definition(name: str, version: int, columns: Sequence[str]) -> dict[str, dict[str, object] | None]:
    if name == COLUMN_STATS:
        definition: dict[str, object] = {
            "indexName": name,
            "indexType": name,
            "indexFunction": name,
            "sourceFields": list(columns),
            "indexOptions": {},
        }
        return {name: definition | ({"version": "V2"} if version >= 9 else {})}
    if name == RECORD_INDEX and version >= 9:
        return {
            name: {
                "indexName": name,
                "indexType": name,
                "indexFunction": "",
                "sourceFields": [],
                "indexOptions": {"isPartitioned": "false"},
                "version": "V1",
            }
        }
    return {}
