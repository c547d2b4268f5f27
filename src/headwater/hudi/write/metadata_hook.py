"""Where a commit and a rollback tell the metadata table: before they show in the timeline, so it is never behind."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from headwater.errors import UnsupportedTable
from headwater.hudi.table import HudiTable
from headwater.hudi.write.model import WrittenFile
from headwater.spec.model import Instant

_WRITER = "headwater.hudi.metadata_table.writing"


class MetadataUpdater(Protocol):
    """Brings a table's metadata table up to an instant that is about to complete.

    `written` are new files, `replaced` file ids by partition that no longer count, `deleted_files` names by partition
    that are gone, `moves` where record keys went (batches of `RECORD_MOVES`). A rollback gives the instant that it
    undoes. A crash leaves the metadata table with or without the instant's changes, which count only once the instant
    is complete.
    """

    def __call__(
        self,
        table: HudiTable,
        instant: str,
        written: Sequence[WrittenFile],
        replaced: Mapping[str, Sequence[str]],
        deleted_files: Mapping[str, Sequence[str]],
        moves: Iterable[pa.RecordBatch],
        *,
        rolled_back: Instant | None = None,
    ) -> None: ...


def metadata_updater(table: HudiTable, given: MetadataUpdater | None = None) -> MetadataUpdater | None:
    """What keeps this table's metadata table in step; None where it has none."""
    if not table.config.metadata_partitions:
        return None
    if given is not None:
        return given
    try:
        module = importlib.import_module(_WRITER)
    except ModuleNotFoundError as error:
        raise UnsupportedTable(
            f"{table.storage.uri}: has a metadata table ({', '.join(table.config.metadata_partitions)}), which this "
            "release cannot write; drop it with Apache Hudi, or write there"
        ) from error
    updater: MetadataUpdater = module.update_metadata
    return updater
