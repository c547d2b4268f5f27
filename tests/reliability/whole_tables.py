"""Small tables of which one file is damaged, then read in every mode through the public API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import pyarrow as pa
from tests.reliability.corpus import LOG_NAME, Item, Region, _block_frames, _checked_blocks, digest, scratch
from tests.reliability.tables import TO_DO, files_of, unpack
from tests.reliability.thrift import page_bodies

import headwater
from headwater.errors import HeadwaterError
from headwater.verify import verify

TABLES = (
    "archive_mor_v9_120",
    "cdc_data_before_after_cow_v9_120",
    "corrupt_mid_mor_v9_120",
    "idx_stats_evo_mor_v9_120",
    "log_parquet_mor_v8_120",
    "mrg_event_mor_v6_120",
    "nometa_mor_v9_120",
    "ow_table_cow_v6_0150",
    "sor_mor_v6_0150",
)


@cache
def table_files() -> tuple[tuple[Item, ...], ...]:
    """Of each table its files that hold something."""
    return tuple(_items(table) for table in TABLES)


def _items(table: str) -> tuple[Item, ...]:
    folder = unpack(table, scratch())
    files = {name: data for name, data in files_of(table).items() if data}
    return tuple(
        Item(
            "table",
            f"{table}/{name}",
            data,
            partial(read_damaged, path=folder / name, table=folder),
            _regions(name, data),
        )
        for name, data in files.items()
    )


def _regions(name: str, data: bytes) -> Callable[[], Sequence[Region]]:
    if name.endswith(".parquet"):
        return partial(page_bodies, data)
    if name.endswith(".hfile"):
        return partial(_checked_blocks, data)
    if LOG_NAME.search(name):
        return partial(_block_frames, data)
    return tuple


def read_damaged(data: bytes, path: Path, table: Path) -> dict[str, str]:
    """Mode → its rows, or its error; the file is put back."""
    kept = path.read_bytes()
    path.write_bytes(data)
    try:
        return {**read_in_every_mode(table), **look_around(table)}
    finally:
        path.write_bytes(kept)


def read_in_every_mode(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for mode, metadata in (
        ("snapshot", True),
        ("snapshot", False),
        ("read_optimized", True),
        ("incremental", True),
        ("changes", True),
    ):
        try:
            table = headwater.open(path, metadata=metadata)
            scan = {
                "snapshot": table.scan,
                "read_optimized": partial(table.scan, mode="read_optimized"),
                "incremental": table.incremental,
                "changes": table.changes,
            }[mode]()
            rows = _rows(scan.to_arrow())
            found[f"{mode} {metadata}"] = f"reported: {table.hudi.warnings[0]}" if table.hudi.warnings else rows
        except HeadwaterError as error:
            check_message(str(error), path)
            found[f"{mode} {metadata}"] = f"error: {type(error).__name__}: {error}"
    return found


def look_around(path: Path) -> dict[str, str]:
    """What tools ask: the verifier, the inspection and a look-up."""
    found: dict[str, str] = {}
    try:
        table = headwater.open(path)
    except HeadwaterError as error:
        return {"open": f"error: {error}"}
    calls: dict[str, Callable[[], object]] = {
        "verify": lambda: verify(table, deep=True).ok,
        "history": lambda: table.inspect.history(archived=True).num_rows,
        "files": lambda: table.inspect.files().num_rows,
        "slices": lambda: table.inspect.slices().num_rows,
        "partitions": lambda: table.inspect.partitions().num_rows,
        "properties": lambda: table.inspect.properties().num_rows,
        "statistics": lambda: table.inspect.statistics().num_rows,
        "lookup": lambda: table.lookup(["k1", "1"]).num_rows,
        "filter": lambda: table.scan(filter="id > 3 AND name <> 'x'").to_arrow().num_rows,
    }
    for name, call in calls.items():
        try:
            answer = str(call())
            found[name] = f"reported: {table.hudi.warnings[0]}" if table.hudi.warnings else answer
        except HeadwaterError as error:
            found[name] = f"error: {error}"
    return found


def check_message(message: str, path: Path) -> None:
    """Says where and what to do."""
    assert str(path) in message or message.startswith(f"table {path.name}"), f"a message that names no file: {message}"
    assert TO_DO.search(message), f"a message without a thing to do: {message}"


def _rows(table: pa.Table) -> str:
    return digest(table.schema.to_string(), sorted(map(repr, table.to_pylist())))
