"""Ordering values: columns that tell which of two versions is the later one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.merge.fold import Rows
from headwater.hudi.merge.rules import MergeRules

if TYPE_CHECKING:
    import polars as pl


def ordering_values(rules: MergeRules, fields: Sequence[pa.ChunkedArray]) -> tuple[pa.ChunkedArray, ...]:
    """What is compared, from the ordering fields: mostly the fields themselves."""
    if not rules.ordering_is_sequence:
        return tuple(fields)
    import polars as pl

    text = _series(fields[0]).cast(pl.String)
    parts = text.str.split_exact(".", 1).struct
    numbers = [parts.field(name).cast(pl.Int64, strict=False) for name in ("field_0", "field_1")]
    return tuple(pa.chunked_array([number.to_arrow()]) for number in numbers)


def ordering_types(rules: MergeRules, fields: Sequence[pa.DataType]) -> list[pa.DataType]:
    """The types of what `ordering_values` gives."""
    return [pa.int64(), pa.int64()] if rules.ordering_is_sequence else list(fields)


def ranks(groups: Sequence[Sequence[pa.ChunkedArray]]) -> list[Rows]:
    """Numbers that order as the ordering values do, comparable across the groups; null counts as zero or lowest."""
    sizes = [len(group[0]) for group in groups]
    total: Rows | None = None
    single = len(groups[0]) == 1
    for columns in zip(*groups, strict=True):
        rank = _rank(list(columns), may_be_raw=single)
        total = rank if total is None else total * (int(rank.max(initial=0)) + 1) + rank
    assert total is not None
    return list(np.split(total, np.cumsum(sizes)[:-1]))


def _rank(columns: list[pa.ChunkedArray], *, may_be_raw: bool) -> Rows:

    kind = next((c.type for c in columns if not pa.types.is_null(c.type)), columns[0].type)
    if may_be_raw and pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        numbers = [pc.fill_null(column.cast(pa.int64()), 0).to_numpy() for column in columns]
        return np.concatenate(numbers)  # numbers order themselves
    series = _series(pa.chunked_array([chunk.cast(kind) for column in columns for chunk in column.chunks], kind))
    if series.dtype.is_numeric():
        series = series.fill_null(0)
    ranked: Rows = series.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return ranked


def _series(column: pa.ChunkedArray) -> pl.Series:
    import polars as pl

    found = pl.from_arrow(column)
    assert isinstance(found, pl.Series)
    return found
