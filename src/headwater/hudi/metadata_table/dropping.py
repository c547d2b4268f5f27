"""Taking indexes away: first from the table's properties, so that nobody looks at them, then from the disk."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from headwater.errors import InvalidArgument
from headwater.hudi.metadata_table.reader import FILES, FOLDER
from headwater.hudi.properties import META_FOLDER, TableConfig, load_config
from headwater.hudi.table import HudiTable
from headwater.hudi.write.properties_file import update_table_properties
from headwater.storage import Storage

PARTITIONS = "hoodie.table.metadata.partitions"
PARTITIONS_IN_THE_MAKING = "hoodie.table.metadata.partitions.inflight"
DEFINITIONS = "hoodie.table.index.defs.path"
DEFINITIONS_FILE = f"{META_FOLDER}/.index_defs/index.json"


def drop_metadata(table: HudiTable, indexes: Collection[str] | None = None) -> None:
    """Drop some indexes, or with None the whole metadata table; the table's lock is held.

    A crash leaves folders that nobody reads, and that the next making of the index removes.
    """
    storage, config = table.storage, load_config(table.storage)
    there = config.metadata_partitions
    if indexes is not None and FILES in indexes:
        others = [name for name in there if name not in indexes]
        if others:
            raise InvalidArgument(
                f"{storage.uri}: without its list of files the metadata table is of no use to {', '.join(others)}; "
                "drop the whole metadata table"
            )
        indexes = None
    gone = set(there if indexes is None else indexes)
    set_partitions(storage, config, [name for name in there if name not in gone])
    update_definitions(storage, config, dict.fromkeys(gone))
    if indexes is None:
        storage.delete_folder(FOLDER)
        return
    for name in gone:
        storage.delete_folder(f"{FOLDER}/{name}")


def set_partitions(storage: Storage, config: TableConfig, partitions: Collection[str]) -> None:
    """Say in the table's properties which indexes are ready."""
    changes: dict[str, str | None] = {PARTITIONS: ",".join(sorted(partitions)), PARTITIONS_IN_THE_MAKING: ""}
    if config.version >= 8 and partitions and DEFINITIONS not in config.properties:
        changes[DEFINITIONS] = DEFINITIONS_FILE
    update_table_properties(storage, changes)


def update_definitions(storage: Storage, config: TableConfig, changes: dict[str, dict[str, Any] | None]) -> None:
    """Change how indexes are defined (version 8 on); None removes a definition."""
    if config.version < 8:
        return
    path = config.properties.get(DEFINITIONS) or DEFINITIONS_FILE
    known: dict[str, Any] = {}
    if storage.find(path) is not None:
        known = json.loads(storage.read_bytes(path)).get("indexDefinitions") or {}
    wanted = {name: item for name, item in {**known, **changes}.items() if item is not None}
    if wanted != known:
        storage.replace(path, json.dumps({"indexDefinitions": wanted}, indent=2).encode())
