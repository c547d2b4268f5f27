"""Hudi's metadata table: what its records say and how they merge."""

from headwater.hudi.metadata_table.columns import LOCATIONS, STATISTICS, column_statistics, record_locations
from headwater.hudi.metadata_table.merging import (
    live,
    merge,
    merge_blooms,
    merge_column_stats,
    merge_listings,
    merge_locations,
    merge_secondary,
)
from headwater.hudi.metadata_table.records import (
    ALL_PARTITIONS_KEY,
    BloomEntry,
    ColumnStats,
    FileListing,
    ListedFile,
    Payload,
    RecordLocation,
    SecondaryEntry,
    Tombstone,
    decode_record,
    decode_records,
    parsed_schema,
)
from headwater.hudi.metadata_table.values import StatValue, ValueType

__all__ = [
    "ALL_PARTITIONS_KEY",
    "LOCATIONS",
    "STATISTICS",
    "BloomEntry",
    "ColumnStats",
    "FileListing",
    "ListedFile",
    "Payload",
    "RecordLocation",
    "SecondaryEntry",
    "StatValue",
    "Tombstone",
    "ValueType",
    "column_statistics",
    "decode_record",
    "decode_records",
    "live",
    "merge",
    "merge_blooms",
    "merge_column_stats",
    "merge_listings",
    "merge_locations",
    "merge_secondary",
    "parsed_schema",
    "record_locations",
]
