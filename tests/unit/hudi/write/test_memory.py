"""What a rewrite of a large base file holds: a row group and some batches, not the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import headwater
from headwater.hudi.write.base_writer import ROW_GROUP_BYTES

ROWS = 250_000
UPSERT = """
import sys
import pyarrow as pa
import headwater

before = pa.total_allocated_bytes()
result = headwater.open(sys.argv[1]).upsert([{"id": 7, "ts": 2, "text": "new"}])
assert (result.updated, result.inserted, result.files[0].rows) == (1, 0, int(sys.argv[2])), result
print(pa.default_memory_pool().max_memory() - before)
"""


def test_a_rewrite_holds_a_row_group_and_not_the_file(tmp_path: Path) -> None:
    numbers = pa.array(range(ROWS), pa.int64())
    texts = pc.binary_join_element_wise(numbers.cast(pa.string()), pa.scalar("long " * 400), "")
    rows = pa.table({"id": numbers, "ts": pa.repeat(pa.scalar(1, pa.int64()), ROWS), "text": texts})
    assert rows.nbytes > 4 * ROW_GROUP_BYTES
    table = headwater.create(tmp_path / "t", schema=rows.schema, key="id", ordering="ts")
    made = table.bulk_insert(rows, options={"hoodie.parquet.max.file.size": str(2**32)})
    assert len(made.files) == 1
    del rows, texts
    call = [sys.executable, "-c", UPSERT, str(tmp_path / "t"), str(ROWS)]
    peak = int(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    assert peak < 2.5 * ROW_GROUP_BYTES, f"{peak >> 20} MB"
    (current,) = (file for file in (tmp_path / "t").glob("*.parquet") if file.name not in {made.files[0].name})
    groups = pq.read_metadata(current)
    assert groups.num_row_groups >= 4


def test_a_result_keeps_no_bloom_filters(tmp_path: Path) -> None:
    table = headwater.create(tmp_path / "t", schema=pa.schema([("id", pa.int64())]), key="id", ordering=[])
    result = table.insert([{"id": 1}])
    assert [file.bloom for file in result.files] == [None]
