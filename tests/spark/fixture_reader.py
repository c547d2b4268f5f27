"""The adapters that the fixtures' checkers call to read through Spark, one for each path."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.spark.session import load, rows, using

MODES = ("snapshot", "read_optimized", "time_travel", "filter")
"""What Spark can be asked for. Ranges are no batch read of a table's state."""


def read(path: str, table: str, mode: str, *, metadata: bool = True, **opts: Any) -> pa.Table:
    options = {} if metadata else {"metadata": "false"}
    if mode not in MODES:
        raise NotImplementedError(f"{mode} reads are not part of the batch read path; it knows {', '.join(MODES)}")
    if mode == "read_optimized":
        options["mode"] = "read_optimized"
    if mode == "time_travel":
        options["as-of"] = opts["as_of"]
    with using(path) as session:
        frame = load(session, table, **options)
        if mode == "filter":
            columns = opts.get("columns", ["_hoodie_record_key"]) or ["*"]
            frame = frame.where(opts["filter"]).select(*columns)
        return rows(frame)


def read_dsv2(table_path: str, mode: str, **opts: Any) -> pa.Table:
    return read("dsv2", table_path, mode, **opts)


def read_merge(table_path: str, mode: str, **opts: Any) -> pa.Table:
    return read("merge", table_path, mode, **opts)


def read_fallback(table_path: str, mode: str, **opts: Any) -> pa.Table:
    return read("fallback", table_path, mode, **opts)
