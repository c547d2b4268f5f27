"""Bounds of base files that are values of them, and bounds that may be shortened."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater
from headwater.hudi.exact import from_footer


@pytest.mark.parametrize(
    ("writers", "is_exact"),
    [
        (None, True),
        ("parquet-mr version 1.13.1\nparquet-cpp-arrow version 21.0.0", True),
        ("parquet-rs version 56", False),
    ],
)
def test_text_in_copied_pages_has_the_bounds_of_who_wrote_them(
    tmp_path: Path, writers: str | None, is_exact: bool
) -> None:
    schema = pa.schema([("id", pa.string()), ("x", pa.int64())])
    table = headwater.create(tmp_path / "t", schema=schema, key="id")
    table.insert(pa.table({"id": ["a", "b"], "x": [1, 2]}, schema=schema))
    [file] = (tmp_path / "t").glob("*.parquet")
    rows = pq.read_table(file)
    told = {} if writers is None else {"original.created.by": writers}
    pq.write_table(rows.replace_schema_metadata({**(rows.schema.metadata or {}), **told}), file)
    scan = headwater.open(tmp_path / "t").scan()
    planned, reader = scan.prepare()
    known = from_footer(reader.context, planned.tasks[0].slice, ["id", "x"])
    assert known is not None
    assert known.rows == 2
    assert (known.columns["id"].exact, known.columns["x"].exact) == (is_exact, True)
