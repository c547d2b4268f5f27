"""`df.write.format("headwater").mode(…).save(path)`, as a function: what the connector calls on the Python driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.errors import InvalidArgument, TableExists, TableNotFound, WriteRefused, WrongType
from headwater.hudi.write.allocators import giving_back
from headwater.hudi.write.options import BUCKETS, INDEX_TYPE, IndexKind, index_kind
from headwater.hudi.write.result import WriteResult
from headwater.spark.write.frames import is_frame, schema_of, without_meta
from headwater.spark.write.save_options import SaveOptions, parse
from headwater.table import Table, create_table, open_table

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame

MODES = ("append", "overwrite", "errorifexists", "ignore")
_MODE_NAMES = {**{mode: mode for mode in MODES}, "error": "errorifexists", "default": "errorifexists"}
SESSION_PREFIX = "spark.headwater.write."
OF_THE_SESSION = ("driver-limit",)
"""Settings under that prefix that are no options of a write."""


@giving_back
def save(
    df: DataFrame, path: str | os.PathLike[str], mode: str = "errorifexists", options: Mapping[str, Any] | None = None
) -> WriteResult | None:
    """Write a frame to the table at a path, which is created where there is none.

    Parameters
    ----------
    mode
        `"append"`: do the operation; `"overwrite"`: the rows take the place of all that is stored (with
        `operation=insert_overwrite`, of what is in their partitions), as one more commit: the past stays readable;
        `"errorifexists"`: only where there is no table; `"ignore"`: nothing is done where there is one.
    options
        Ours or Hudi's names: `key`, `ordering`, `partition-by`, `operation`, `kind`, …

    A crash in the first write of a new table leaves a table without rows.
    """
    if not is_frame(df):
        raise WrongType(f"df is a {type(df).__name__}; give a Spark data frame")
    chosen = _MODE_NAMES.get(str(mode).strip().lower())
    if chosen is None:
        raise InvalidArgument(f"mode={mode!r}; known: {', '.join(MODES)}")
    given = parse({**_session_options(df), **{name: str(value) for name, value in (options or {}).items()}})
    table = find(path)
    if table is not None:
        if chosen == "errorifexists":
            raise TableExists(f"{table.uri}: there is a table already; use mode append or overwrite, or another path")
        if chosen == "ignore":
            return None
        refuse_other_table(table, given)
    else:
        if given.operation in ("delete", "delete_partitions"):
            raise TableNotFound(f"{path}: no table to delete from")
        table = create(schema_of(without_meta(df).drop("_hoodie_is_deleted", "_hoodie_operation")), path, given)
    return write(table, df, given, chosen)


def _session_options(df: DataFrame) -> dict[str, str]:
    """Options that the session sets for all writes (`spark.headwater.write.codec`, …)."""
    try:
        every = dict(df.sparkSession.conf.getAll)  # from 4.0 on
    except (AttributeError, TypeError):
        return {}
    found = {
        name.removeprefix(SESSION_PREFIX): value for name, value in every.items() if name.startswith(SESSION_PREFIX)
    }
    return {name: value for name, value in found.items() if name not in OF_THE_SESSION}


def find(path: str | os.PathLike[str]) -> Table | None:
    """The table at a path, where there is one."""
    try:
        return open_table(path)
    except TableNotFound:
        return None


def create(
    schema: pa.Schema, path: str | os.PathLike[str], given: SaveOptions, stored: Mapping[str, str] | None = None
) -> Table:
    """A new table as the options say; `stored` are more properties for it."""
    return create_table(
        path,
        schema=schema,
        key=given.key or (),
        ordering=given.ordering or (),
        partition_by=given.partition_by or (),
        kind=given.kind or "cow",
        version=given.version or 9,
        merge=given.merge,
        name=given.name,
        key_generator=given.key_generator,
        hive_style=bool(given.hive_style),
        url_encode=bool(given.url_encode),
        index=_index(given.properties),
        properties={
            **(stored or {}),
            **{name: value for name, value in given.properties.items() if name != INDEX_TYPE},
        },
    )


def _index(properties: Mapping[str, str]) -> str | dict[str, int] | None:
    kind = properties.get(INDEX_TYPE)
    if kind is None or index_kind(kind) is not IndexKind.BUCKET:
        return None if kind is None else index_kind(kind).value.lower()
    count = properties.get(BUCKETS, "")
    if not count.isdigit():
        raise InvalidArgument(f"index=bucket needs the number of buckets: give the option buckets, or {BUCKETS}")
    return {"bucket": int(count)}


def refuse_other_table(table: Table, given: SaveOptions) -> None:
    """What is said about a table that is there must be so."""
    config = table.hudi.config
    is_so: dict[str, tuple[object, object]] = {
        "key": (given.key, config.record_key_fields),
        "ordering": (given.ordering, config.ordering_fields),
        "partition-by": (
            None if given.partition_by is None else tuple(name.partition(":")[0] for name in given.partition_by),
            config.partition_fields,
        ),
        "kind": (given.kind, "mor" if config.is_merge_on_read else "cow"),
        "name": (given.name, config.name),
        "hive-style": (given.hive_style, config.hive_style),
        "url-encode": (given.url_encode, config.url_encoded),
    }
    wrong = [
        f"{name} is {_shown(own)}, not {_shown(said)}" for name, (said, own) in is_so.items() if said not in (None, own)
    ]
    if wrong:
        raise WriteRefused(f"{table.uri}: the table differs from the options: {'; '.join(wrong)}")


def _shown(value: object) -> str:
    return ",".join(map(str, value)) or "(none)" if isinstance(value, tuple) else str(value)


def write(table: Table, df: DataFrame, given: SaveOptions, mode: str) -> WriteResult:
    """Append or overwrite, by the operation that the options name."""
    operation = given.operation
    options = given.write
    if mode == "overwrite":
        if operation not in (None, "insert_overwrite", "overwrite", "bulk_insert", "insert", "upsert"):
            raise InvalidArgument(f"mode overwrite with operation={operation}; use mode append")
        if operation == "insert_overwrite":
            return table.insert_overwrite(df, sort=given.sort, options=options)
        return table.overwrite(df, sort=given.sort, options=options)
    match operation or ("upsert" if table.hudi.config.record_key_fields else "insert"):
        case "upsert":
            return table.upsert(df, partial=given.partial, options=options)
        case "insert":
            return table.insert(df, if_present=given.if_present, options=options)
        case "bulk_insert":
            return table.bulk_insert(df, sort=given.sort, options=options)
        case "insert_overwrite":
            return table.insert_overwrite(df, sort=given.sort, options=options)
        case "overwrite":
            return table.overwrite(df, sort=given.sort, options=options)
        case "delete":
            return table.delete(df, options=options)
        case _:
            if not given.partitions:
                raise InvalidArgument(
                    "operation=delete_partitions needs the option partitions: paths, separated by commas"
                )
            return table.delete_partitions(given.partitions, options=options)
