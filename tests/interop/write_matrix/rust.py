"""Reads of hudi-rs: which of the modes it has, and what it says where it cannot read a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.interop.write_matrix.reads import Read
from tests.interop.write_matrix.story import Story

NAME = "hudi-rs"
_CANNOT = (
    "Multiple ordering fields",
    "merges with a merger of its own",
    "is not present in the table schema",
    "not yet supported",
    "not supported",
    "Unsupported",
)
"""What it says, of itself, that it cannot read."""


class CannotRead(Exception):
    """hudi-rs says that it does not read such a table."""


def takes(read: Read) -> bool:
    """Whether there is such a mode; without the metadata table is one more way to the same rows."""
    return read.mode in ("snapshot", "read_optimized", "time_travel", "incremental") and read.where is None


def read_with_rust(story: Story, read: Read) -> pa.Table:
    """The rows that hudi-rs finds."""
    from hudi import HudiQueryType, HudiReadOptions, HudiTable

    options = HudiReadOptions()
    given: dict[str, str] = {"hoodie.metadata.enable": str(read.metadata).lower()}
    if read.mode == "read_optimized":
        given["hoodie.read.use.read_optimized.mode"] = "true"
    if read.mode == "time_travel":
        options = options.with_as_of_timestamp(read.opts["as_of"])
    if read.mode == "incremental":
        options = options.with_query_type(HudiQueryType.Incremental)
        options = options.with_start_timestamp(read.options["hoodie.datasource.read.begin.instanttime"])
        options = options.with_end_timestamp(read.options["hoodie.datasource.read.end.instanttime"])
    try:
        table = HudiTable(str(story.path), given)
        batches = table.read(options.with_hudi_options(given))
    except Exception as error:
        if any(text in str(error) for text in _CANNOT):
            raise CannotRead(str(error)[:200]) from error
        raise
    schema: Any = table.get_schema_with_meta_fields()
    return pa.Table.from_batches(batches) if batches else schema.empty_table()
