"""Some rows of a row group, by the pages that hold them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from headwater.errors import CorruptFile
from headwater.hudi.base_file import RowGroup, open_base_file
from headwater.hudi.parquet_rows import SparseGroup
from headwater.hudi.thrift import read_struct
from headwater.storage import Storage

ROWS = 20_000
RUNS = ((0, 1), (37, 38), (4_000, 4_500), (4_500, 4_600), (11_111, 11_112), (ROWS - 1, ROWS))


def _table() -> pa.Table:
    rng = np.random.default_rng(5)
    numbers = rng.integers(-(2**62), 2**62, ROWS)
    null = rng.random(ROWS) < 0.1
    return pa.table(
        {
            "long": pa.array(numbers, mask=null),
            "text": pa.array([f"text {n}" * (n % 7) for n in numbers.tolist()]),
            "few": pa.array([f"value {n % 5}" for n in numbers.tolist()], mask=null),
            "double": pa.array(rng.random(ROWS)),
            "flag": pa.array(rng.random(ROWS) < 0.5, mask=null),
            "decimal": pa.array([Decimal(n % 10**9).scaleb(-2) for n in numbers.tolist()], pa.decimal128(18, 2)),
            "time": pa.array(numbers % 10**15, pa.timestamp("us", tz="Europe/Berlin")),
            "none": pa.nulls(ROWS, pa.int32()),
        }
    )


OPTIONS: list[dict[str, Any]] = [
    {},
    {"compression": "zstd", "use_dictionary": False},
    {"data_page_version": "2.0", "compression": "gzip"},
    {"write_page_checksum": True, "compression": "none", "write_statistics": False},
    {"write_page_index": True, "column_encoding": {"long": "DELTA_BINARY_PACKED"}, "use_dictionary": ["few"]},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options)) or "plain")
def test_rows_of_pages_are_those_of_a_full_read(tmp_path: Path, options: dict[str, Any]) -> None:
    table = _table()
    path = str(tmp_path / "f.parquet")
    pq.write_table(table, path, row_group_size=ROWS, data_page_size=4096, write_batch_size=256, **options)
    source = pafs.LocalFileSystem().open_input_file(path)
    group = SparseGroup(source, pq.read_metadata(path), 0, table.column_names)
    assert group.share(RUNS) < 0.5
    for (start, end), found in zip(RUNS, group.read(RUNS), strict=True):
        assert found.equals(table.slice(start, end - start))


def test_parts_hold_every_run_once() -> None:
    source = pa.BufferReader(_bytes(_table()))
    group = SparseGroup(source, pq.read_metadata(source), 0, ["long"])
    parts = list(group.parts(RUNS, 300))
    assert len(parts) > 1
    rows = [row for part in parts for start, end in part for row in range(start, end)]
    assert rows == [row for start, end in RUNS for row in range(start, end)]


def test_base_file_gives_wanted_rows_of_the_right_group(tmp_path: Path) -> None:
    table = _table()
    (tmp_path / "f.parquet").write_bytes(_bytes(table, row_group_size=ROWS // 2))
    base = open_base_file(Storage.at(tmp_path), "f.parquet")
    second = base.row_groups[1]
    wanted = RowGroup(second.index, second.start, second.rows, ((5, 7), (6_000, 6_001)))
    found = dict(base.batches(["text", "long"], [wanted]))
    assert {start: part.num_rows for start, part in found.items()} == {ROWS // 2 + 5: 2, ROWS // 2 + 6_000: 1}
    for start, part in found.items():
        assert part.equals(table.select(["text", "long"]).slice(start, part.num_rows))


def test_columns_of_several_values_a_row_are_read_whole(tmp_path: Path) -> None:
    table = _table().append_column("list", pa.array([[n, n] for n in range(ROWS)]))
    (tmp_path / "f.parquet").write_bytes(_bytes(table))
    base = open_base_file(Storage.at(tmp_path), "f.parquet")
    wanted = RowGroup(0, 0, ROWS, ((9, 10),))
    parts = list(base.batches(["list", "long"], [wanted]))
    assert pa.concat_tables(part for _, part in parts).equals(table.select(["list", "long"]))


def test_page_that_lies_about_its_rows_is_found(tmp_path: Path) -> None:
    data = bytearray(_bytes(pa.table({"n": pa.array(range(ROWS))}), use_dictionary=False, compression="none"))
    # The header's number of values is an int of two bytes; 128 and 129 differ in one bit.
    at = data.index(b"\x15\x80\x04", 4)
    data[at + 1] ^= 2
    (tmp_path / "f.parquet").write_bytes(data)
    base = open_base_file(Storage.at(tmp_path), "f.parquet")
    with pytest.raises(CorruptFile):
        list(base.batches(["n"], [RowGroup(0, 0, ROWS, ((9_000, 9_001),))]))


def _bytes(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, data_page_size=1024, write_batch_size=256, **{"row_group_size": ROWS, **options})
    return bytes(sink.getvalue())


@pytest.mark.parametrize("kind", [1, 3, 7], ids=["booleans", "bytes", "doubles"])
def test_list_that_claims_more_items_than_there_are_bytes_is_not_counted_to(kind: int) -> None:
    """None of these items is looked at, so nothing else would end the walk."""
    huge = b"\xff\xff\xff\xff\xff\xff\xff\xff\x0f"
    with pytest.raises(IndexError, match="more items than bytes"):
        read_struct(bytes([0x19, 0xF0 | kind]) + huge + b"\x00", 0)
