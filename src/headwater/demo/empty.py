"""An empty table in a folder of its own, to try writes on."""

from __future__ import annotations

import atexit
import shutil
import tempfile

import pyarrow as pa

from headwater.table import Table, create_table


def empty_table(*, partition_by: str | None = None, kind: str = "cow") -> Table:
    """A table with the columns `id` (record key), `ts` (ordering) and `price`; it is gone when the process ends.

    >>> empty_table().scan().count()
    0
    """
    folder = tempfile.mkdtemp(prefix="headwater-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("price", pa.float64())])
    return create_table(
        folder, schema=schema, key="id", ordering="ts", partition_by=partition_by or (), kind=kind, name="empty"
    )
