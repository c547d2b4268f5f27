"""The rows of the tables that only the Spark part has: five updates with deletions, an evolved schema, a dimension.

All of it is derived from `benchmarks.tables.rows`, so the tables of both parts can be compared.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tables import rows

STATES_VERSION = 1
"""Part of every cache stamp: raise it when a value below changes."""
ROUNDS = 5
ROUND_ONE_IN = 50
"""Each of the five commits updates 2 % of the rows, none of them twice."""
DELETED_ONE_IN = 100
DELETED_LATER = 7
"""A deletion is ordered after every update, yet within the step between two rows' `ts`."""
EVOLVED_SCHEMA = rows.SCHEMA.append(pa.field("extra", pa.float64()))
"""The newer schema of the evolved tables: one column more, and `qty` a long that was an int."""
DIMENSION = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("team", pa.string()), ("weight", pa.float64())])
TEAMS = 97

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


def updated_in(chunk: rows.Chunk) -> Int64s:
    """The commit (0 to 4) that updated each row of a chunk, or -1."""
    bucket = _spread(chunk, salt=11) % np.uint64(ROUND_ONE_IN)
    return np.where(bucket < ROUNDS, bucket.astype(np.int64), -1)


def is_deleted(chunk: rows.Chunk) -> Bools:
    """Which rows of a chunk the last commit deleted."""
    return _spread(chunk, salt=12) % np.uint64(DELETED_ONE_IN) == 0


def round_rows(chunk: rows.Chunk, total: int, number: int) -> tuple[pa.Table, Int64s]:
    """The rows that one of the five commits wrote, and their positions in the chunk."""
    positions = np.flatnonzero(updated_in(chunk) == number).astype(np.int64)
    return _touch(rows.base_rows(chunk, total).take(positions), np.full(len(positions), number)), positions


def deleted_rows(chunk: rows.Chunk, total: int) -> tuple[pa.Table, Int64s]:
    """The rows to delete, with an ordering value that no update beats, and their positions in the chunk."""
    positions = np.flatnonzero(is_deleted(chunk)).astype(np.int64)
    table = rows.base_rows(chunk, total).take(positions)
    return table.set_column(1, "ts", pc.add(table["ts"], DELETED_LATER)), positions


def five_rows(chunk: rows.Chunk, total: int) -> pa.Table:
    """The rows of a chunk after the five updates and the deletion, in the order of the base."""
    return _touch(rows.base_rows(chunk, total), updated_in(chunk)).filter(pa.array(~is_deleted(chunk)))


def writes_newer_schema(chunk: rows.Chunk) -> bool:
    """Whether the second commit of the evolved copy-on-write table wrote this chunk."""
    return chunk.number % 2 == 1


def evolved_cow_rows(chunk: rows.Chunk, total: int) -> pa.Table:
    """The final rows of the evolved copy-on-write table: half of its files were written before the new column came."""
    known = np.full(chunk.stop - chunk.start, writes_newer_schema(chunk))
    return with_extra(rows.base_rows(chunk, total), known)


def evolved_mor_rows(chunk: rows.Chunk, total: int) -> pa.Table:
    """The final rows of the evolved merge-on-read table: only the updated ones have the new column."""
    i = np.arange(chunk.start, chunk.stop, dtype=np.int64)
    return with_extra(rows.merged_rows(chunk, total), rows.is_updated(i))


def with_extra(table: pa.Table, known: Bools) -> pa.Table:
    """The table in the newer schema; the new column is half of `qty` where it is known."""
    extra = pc.if_else(
        pa.array(known), pc.multiply(table["qty"].cast(pa.float64()), 0.5), pa.scalar(None, pa.float64())
    )
    return table.append_column("extra", extra)


def dimension_rows() -> pa.Table:
    """A row for each `name`: the small side of the broadcast join."""
    n = np.arange(rows.NAMES)
    names = [f"user_{i:05d}" for i in n]
    columns = [names, [1] * len(n), [f"team_{i % TEAMS:02d}" for i in n], (n % 10) / 10]
    return pa.table(columns, schema=DIMENSION)


def _touch(table: pa.Table, commit: Int64s) -> pa.Table:
    """The version of each row that a commit wrote; -1 leaves it as it is."""
    hit = pa.array(commit >= 0)
    later = pa.array(np.maximum(commit + 1, 0))
    columns = {
        "ts": pc.add(table["ts"], later),
        "x": pc.if_else(hit, pc.multiply(table["x"], 2.0), table["x"]),
        "qty": pc.add(table["qty"], later),
        "note": pc.if_else(hit, pc.ascii_reverse(table["note"]), table["note"]),
    }
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, values)
    return table


def _spread(chunk: rows.Chunk, salt: int) -> npt.NDArray[np.uint64]:
    """A hash of each row number of a chunk (murmur's finalizer)."""
    with np.errstate(over="ignore"):
        z = np.arange(chunk.start, chunk.stop, dtype=np.uint64) + np.uint64(salt << 40)
        z = (z ^ (z >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        z = (z ^ (z >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
        return z ^ (z >> np.uint64(33))
