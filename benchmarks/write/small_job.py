"""A thousand rows without Spark, in a process of its own: `python -m benchmarks.write.small_job '<order as JSON>'`.

The table is made by bulk insert of a frame that is made of numbers, as large as ordered, and changed in place: every
turn adds a commit, as in a table's life.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headwater
from benchmarks.write.memory import PeakMemory

MARK = "WROTE "
SYSTEM = "headwater, no Spark"
_PART = 1_000_000
_CITIES = 4


def main(order: dict[str, Any]) -> None:
    for index in order["indexes"]:
        path = Path(order["data"]) / f"small-{order['rows']}-{index}"
        shutil.rmtree(path, ignore_errors=True)
        # More rows, more groups: their size stays what it is, as when the number of buckets is chosen well.
        kept: Any = {"bucket": max(order["rows"] // _PART // _CITIES * 2, 1)} if index == "bucket" else index
        schema = _rows(np.arange(1)).schema
        table = headwater.create(
            path, schema=schema, key="id", ordering="ts", partition_by="city", kind="mor", index=kept
        )
        parts = (_rows(np.arange(at, min(at + _PART, order["rows"]))) for at in range(0, order["rows"], _PART))
        table.bulk_insert(pa.RecordBatchReader.from_batches(schema, _batches(parts)))
        numbers = np.random.default_rng(5)
        for turn in range(order["rounds"]):
            changed = _rows(np.unique(numbers.integers(0, order["rows"], 1000)), later=1 + turn)
            with PeakMemory() as memory:
                start = time.perf_counter()
                result = headwater.open(path).upsert(changed)
                seconds = time.perf_counter() - start
            told = {"system": SYSTEM, "write": "upsert", "rows": "thousand", "kind": "mor", "index": index}
            wrong = None if result.updated == changed.num_rows else f"{result.updated} rows updated"
            more = {"of": order["rows"], "seconds": seconds, "peak_mb": memory.peak, "error": wrong}
            print(MARK + json.dumps({**told, **more, "phases": dict(result.seconds), "holds": None}), flush=True)
        shutil.rmtree(path, ignore_errors=True)


def _batches(tables: Any) -> Any:
    for table in tables:
        yield from table.to_batches(max_chunksize=131_072)


def _rows(ids: Any, later: int = 0) -> pa.Table:
    """Ten columns; the key's number tells all others."""
    mixed = (ids * 2_654_435_761) % 2**31
    return pa.table(
        {
            "id": pa.array(np.char.add("k", np.char.zfill(ids.astype("U10"), 10))),
            "ts": pa.array(1_700_000_000_000 + ids + later),
            "city": pa.array(np.char.add("city_", (ids % _CITIES).astype("U1"))),
            "x": pa.array(mixed / 2**31 + later),
            "y": pa.array(mixed * 1e-3),
            "qty": pa.array(mixed % 1000),
            "amount": pa.array(mixed % 10**9),
            "note": pa.array((mixed * 31 % 10**15).astype("U20")),
            "name": pa.array(np.char.add("user_", (mixed % 100_000).astype("U6"))),
            "day": pa.array((mixed % 1500).astype("int32"), pa.int32()).cast(pa.date32()),
        }
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
