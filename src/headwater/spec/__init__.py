"""The Table Spec API: the vocabulary and the protocols that a query engine plugs into, and that formats implement."""

from headwater.spec.file_index import FileIndex
from headwater.spec.model import (
    ChangeKind,
    ChangeSlice,
    FileGroup,
    FileGroupId,
    FileRef,
    FileSlice,
    Instant,
    InstantState,
    PartitionChanges,
    PartitionDescriptor,
    PartitionIncrementalSnapshot,
    PartitionSnapshot,
    ReadingMode,
)
from headwater.spec.record_index import LOCATION_SCHEMA, RecordIndex
from headwater.spec.slice_reader import FileSliceReader
from headwater.spec.statistics import ColumnStatistics, Statistics
from headwater.spec.timeline import Timeline

__all__ = [
    "LOCATION_SCHEMA",
    "ChangeKind",
    "ChangeSlice",
    "ColumnStatistics",
    "FileGroup",
    "FileGroupId",
    "FileIndex",
    "FileRef",
    "FileSlice",
    "FileSliceReader",
    "Instant",
    "InstantState",
    "PartitionChanges",
    "PartitionDescriptor",
    "PartitionIncrementalSnapshot",
    "PartitionSnapshot",
    "ReadingMode",
    "RecordIndex",
    "Statistics",
    "Timeline",
]
