"""What the connector asks the Python driver to write: a path with a save mode, a named table, or a new one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.errors import HeadwaterError, InvalidArgument, OutcomeUnknown, TableExists, WriteRefused
from headwater.hudi.schema import META_COLUMNS
from headwater.hudi.table import HudiTable
from headwater.hudi.write.drop import drop_table
from headwater.spark.options import parse_read_options
from headwater.spark.sidecar import definitions
from headwater.spark.sidecar.predicates import clear_expression, decided_by_partitions
from headwater.spark.sidecar.tables import OpenTable, location
from headwater.spark.table_properties import definition
from headwater.spark.write import operations, saving
from headwater.spark.write.frames import schema_of, without_meta
from headwater.spark.write.save_options import SaveOptions, parse
from headwater.spec.expressions import bind, conjunction, evaluate
from headwater.storage import Storage
from headwater.table import Table, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_INSERT = ("upsert", "insert", "bulk_insert")


def run(frame: DataFrame | None, request: Mapping[str, Any]) -> None:
    """Do what a request says (docs/spark-connector.md). Deletes come without rows."""
    if frame is None:
        (definitions.truncate if request["op"] == "truncate" else definitions.delete)(request)
        return
    path = location(str(request["path"]))
    session = {name: value for name, value in request["session"].items() if name not in saving.OF_THE_SESSION}
    options = {**session, **request["options"]}
    match request["op"]:
        case "save":
            _save(frame, path, str(request["mode"]), options, dynamic=bool(request.get("dynamic")))
        case "insert":
            _insert(frame, path, request, options)
        case "create":
            _create(frame, path, request, options)
        case other:
            raise InvalidArgument(f"no request {other!r}; the jar is of another release than this package")


def _save(frame: DataFrame, path: str, mode: str, options: dict[str, str], *, dynamic: bool) -> None:
    if dynamic and mode.lower() == "overwrite" and parse(options).operation is None:
        options = {**options, "operation": "insert_overwrite"}
    saving.save(frame, path, mode, options)


def _insert(frame: DataFrame, path: str, request: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Rows for a table that is there, as `INSERT` and `df.writeTo` say."""
    table = open_table(path)
    given = parse(options)
    saving.refuse_other_table(table, given)
    match request["how"]:
        case "append":
            wanted = str(request.get("insert_operation") or "").strip().lower()
            if given.operation is None and wanted:
                if wanted not in _OF_INSERT:
                    raise InvalidArgument(
                        f"hoodie.spark.sql.insert.into.operation={wanted} is none of: {', '.join(_OF_INSERT)}"
                    )
                given = parse({**options, "operation": wanted})
            saving.write(table, frame, given, "append")
        case "all":
            saving.write(table, frame, given, "overwrite")
        case "partitions":
            table.insert_overwrite(frame, sort=given.sort, options=given.write)
        case "where":
            _overwrite_where(table, frame, request["predicates"], given)
        case other:
            raise InvalidArgument(f"no way {other!r} to insert; the jar is of another release than this package")


def _overwrite_where(table: Table, frame: DataFrame, predicates: Sequence[Any], given: SaveOptions) -> None:
    """The rows take the place of the partitions that a condition names; rows of other partitions are added."""
    schema = table.schema
    conditions = [clear_expression(one, schema) for one in predicates]
    if any(condition is None for condition in conditions):
        raise WriteRefused(
            f"{table.uri}: overwrite by {predicates} cannot be done; use conditions on partition columns"
        )
    wanted = conjunction([condition for condition in conditions if condition is not None])

    def replaced(state: HudiTable) -> list[str]:
        known = OpenTable(Table(state), parse_read_options({}, {}))
        bound = bind(wanted, schema)
        if known.partitions and not decided_by_partitions(bound, known.partition_values):
            raise WriteRefused(
                f"{table.uri}: overwrite by {wanted}, which the partitions alone do not decide; whole partitions can "
                "be overwritten. Use conditions on partition columns, or delete the rows and insert"
            )
        if not known.partitions:
            return []
        matches = evaluate(bound, known.partition_values.table).to_pylist()
        return [one.path for one, match in zip(known.partitions, matches, strict=True) if match]

    replaced(table.hudi)
    operations.overwrite_where(table.hudi, frame, replaced, sort=given.sort, options=given.write)


def _create(frame: DataFrame, path: str, request: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """`CREATE TABLE … AS SELECT`, `saveAsTable`: a table and its first rows.

    A table that is there is overwritten by one more commit where that was said; its key and its columns stay. A write
    that fails takes the new table away again; a crash leaves it without rows.
    """
    table = saving.find(path)
    if table is not None and not request.get("may_replace"):
        raise TableExists(f"{table.uri}: there is a table already; INSERT into it, or create the new one elsewhere")
    given, stored = definition(request["properties"], request["partition_by"], options)
    if table is not None:
        _replace(table, frame, given)
        return
    columns = without_meta(frame).drop("_hoodie_is_deleted", "_hoodie_operation")
    table = saving.create(schema_of(columns), path, given, stored)
    try:
        saving.write(table, frame, given, "append")
    except OutcomeUnknown:
        raise
    except BaseException:
        with contextlib.suppress(HeadwaterError):
            drop_table(Storage.at(path))
        raise


def _replace(table: Table, frame: DataFrame, given: SaveOptions) -> None:
    saving.refuse_other_table(table, given)
    left = [name for name in table.schema.names if name not in frame.columns and name not in META_COLUMNS]
    if left:
        raise WriteRefused(
            f"{table.uri}: REPLACE TABLE keeps the table and its past, and the new rows have no column "
            f"{', '.join(left)}; DROP TABLE first, or ALTER TABLE … DROP COLUMN"
        )
    saving.write(table, frame, given, "overwrite")
