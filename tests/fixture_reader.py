"""The adapter that the fixtures' checkers call: `read` with the metadata table, `read_no_mdt` without."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import headwater


def read(table_path: str, mode: str, *, metadata: bool = True, **opts: Any) -> pa.Table:
    table = headwater.open(table_path, metadata=metadata)
    if mode == "snapshot":
        return table.scan().to_arrow()
    if mode == "read_optimized":
        return table.scan(mode="read_optimized").to_arrow()
    if mode == "time_travel":
        return table.scan(as_of=opts["as_of"]).to_arrow()
    if mode == "incremental":
        # Hudi answers from what is left where files of the range are cleaned; we do so only when asked to.
        return table.incremental(opts["start"], opts["end"], if_cleaned="best_effort").to_arrow()
    if mode == "cdc":
        return table.changes(opts["start"], opts["end"]).to_arrow()
    if mode == "filter":
        return table.scan(filter=opts["filter"], columns=["_hoodie_record_key"]).to_arrow()
    raise ValueError(mode)


def read_no_mdt(table_path: str, mode: str, **opts: Any) -> pa.Table:
    return read(table_path, mode, metadata=False, **opts)
