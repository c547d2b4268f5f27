"""A look-up reads parts of a large log file of the record index, not all of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import headwater
from headwater.hudi.hfile import StorageSource
from headwater.hudi.metadata_table import reader
from headwater.storage import Storage

ROWS = 3_000


def _rows(numbers: range, x: int) -> pa.Table:
    return pa.table({"id": [f"key-{n:06d}" for n in numbers], "ts": [x] * len(numbers), "x": [x] * len(numbers)})


@pytest.mark.parametrize("version", [6, 8, 9])
def test_large_log_files_are_read_in_parts(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_LARGE", 2_000)
    read: list[int] = []
    whole: list[str] = []
    read_part, read_whole = StorageSource._read, Storage.read_buffer

    def counted_part(self: StorageSource, file: pa.NativeFile, offset: int, length: int) -> bytes:
        if self._part is not None:
            read.append(length)
        return read_part(self, file, offset, length)

    def counted_whole(self: Storage, path: str) -> pa.Buffer:
        whole.append(path)
        return read_whole(self, path)

    monkeypatch.setattr(StorageSource, "_read", counted_part)
    path = tmp_path / "t"
    table = headwater.create(
        path,
        schema=_rows(range(1), 0).schema,
        key="id",
        ordering="ts",
        kind="mor",
        version=version,
        index="record_index",
    )
    table.insert(_rows(range(ROWS), 1))
    table.upsert(_rows(range(10, 20), 2))
    monkeypatch.setattr(Storage, "read_buffer", counted_whole)
    found = headwater.open(path).lookup(["key-000015", "key-002999", "key-999999"])
    assert sorted(zip(found["id"].to_pylist(), found["x"].to_pylist(), strict=True)) == [
        ("key-000015", 2),
        ("key-002999", 1),
    ]
    assert read
    index = [name for name in whole if name.startswith("record_index/")]
    assert all((path / ".hoodie/metadata" / name).stat().st_size <= 2_000 for name in index)
    result = headwater.open(path).upsert(_rows(range(ROWS - 5, ROWS + 5), 3))
    assert (result.updated, result.inserted) == (5, 5)
    assert headwater.open(path).scan().to_arrow().num_rows == ROWS + 5
