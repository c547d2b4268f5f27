"""The columns that a read asks for."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headwater.errors import ColumnNotFound, InvalidArgument


def check_projection(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The asked-for columns of a schema, in the order asked for."""
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise ColumnNotFound(f"no column {', '.join(map(repr, missing))}; the table has: {', '.join(schema.names)}")
    if len(set(names)) != len(names):
        raise InvalidArgument(f"columns={list(names)} names a column twice; name each once")
    return pa.schema([schema.field(name) for name in names])
