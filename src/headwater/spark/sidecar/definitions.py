"""CREATE, ALTER, TRUNCATE and DROP TABLE, and DELETE, for the connector's catalogs: what needs no Spark job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.errors import WriteRefused
from headwater.hudi.schema import META_COLUMNS
from headwater.hudi.table import HudiTable
from headwater.hudi.write import lock
from headwater.hudi.write.alter import AddColumn, Change, ChangeColumn, DropColumn, Place, RenameColumn, alter_columns
from headwater.hudi.write.drop import drop_table
from headwater.hudi.write.properties_file import update_table_properties
from headwater.spark.shown_properties import COMMENT
from headwater.spark.sidecar.predicates import clear_expression
from headwater.spark.sidecar.tables import location
from headwater.spark.table_properties import definition
from headwater.spark.types import arrow_schema, arrow_type
from headwater.spark.write import saving
from headwater.spec.expressions import conjunction
from headwater.storage import Storage
from headwater.table import open_table


def create(query: Mapping[str, Any]) -> dict[str, Any]:
    """An empty table. Hudi's own columns may be among the given ones, as SHOW CREATE TABLE lists them."""
    given, stored = definition(query["properties"], query["partition_by"])
    columns = pa.schema([field for field in arrow_schema(query["schema"]) if field.name not in META_COLUMNS])
    table = saving.create(columns, location(str(query["path"])), given, stored).hudi
    comments = {field["name"]: (field.get("metadata") or {}).get("comment") for field in query["schema"]["fields"]}
    _keep_comments(table, {name: str(text) for name, text in comments.items() if text})
    return {}


def _keep_comments(table: HudiTable, comments: Mapping[str, str]) -> None:
    """Comments of a new table's columns. A crash leaves a table without them."""
    if not comments or not table.config.create_schema:
        return
    avro = json.loads(table.config.create_schema)
    for field in avro["fields"]:
        if field["name"] in comments:
            field["doc"] = comments[field["name"]]
    text = json.dumps(avro, separators=(",", ":"), ensure_ascii=False)
    with lock.locked(table.storage):
        update_table_properties(table.storage, {"hoodie.table.create.schema": text})


def alter(query: Mapping[str, Any]) -> dict[str, Any]:
    """Columns and properties of a table, each kind in one step of its own."""
    table = open_table(location(str(query["path"]))).hudi
    changes = list(query["changes"])
    properties = [change for change in changes if change["change"] in ("SetProperty", "RemoveProperty")]
    columns = [_change(change, table) for change in changes if change not in properties]
    if properties:
        _set_properties(table, properties)
    if columns:
        alter_columns(table, columns)
    return {}


def _change(said: Mapping[str, Any], table: HudiTable) -> Change:
    """One change of a column, as Spark's catalogs tell it."""
    kind = str(said["change"])
    path = tuple(said.get("column") or ())
    place = Place(said.get("after")) if said.get("after") or said.get("first") else None
    match kind:
        case "AddColumn":
            if said.get("default"):
                raise WriteRefused(f"column {'.'.join(path)!r}: DEFAULT is not kept by tables; leave it out")
            return AddColumn(path, arrow_type(said["type"]), bool(said["nullable"]), said.get("comment"), place)
        case "RenameColumn":
            return RenameColumn(path, str(said["name"]))
        case "DeleteColumn":
            return DropColumn(path, bool(said.get("if_exists")))
        case "UpdateColumnType":
            return ChangeColumn(path, type=arrow_type(said["type"]))
        case "UpdateColumnNullability":
            return ChangeColumn(path, nullable=bool(said["nullable"]))
        case "UpdateColumnComment":
            return ChangeColumn(path, comment=str(said.get("comment") or ""))
        case "UpdateColumnPosition":
            return ChangeColumn(path, place=place)
    raise WriteRefused(
        f"{table.storage.uri}: ALTER TABLE by {kind} is not known here; columns and properties can be set"
    )


def _set_properties(table: HudiTable, changes: Sequence[Mapping[str, Any]]) -> None:
    wanted: dict[str, str | None] = {}
    for change in changes:
        name = COMMENT if change["name"] == "comment" else str(change["name"])
        if not name.startswith("headwater."):
            raise WriteRefused(
                f"{table.storage.uri}: the property {name} cannot be set later: what a table is, CREATE TABLE says; "
                "how a write goes, its options say. Names that begin with headwater. can be set"
            )
        wanted[name] = str(change["value"]) if change["change"] == "SetProperty" else None
    with lock.locked(table.storage):
        update_table_properties(table.storage, wanted)


def drop(query: Mapping[str, Any]) -> dict[str, Any]:
    return {"dropped": drop_table(Storage.at(location(str(query["path"]))))}


def truncate(query: Mapping[str, Any]) -> dict[str, Any]:
    """Every row goes, by one commit; the past stays readable."""
    table = open_table(location(str(query["path"])))
    columns = pa.schema([field for field in table.schema if field.name not in META_COLUMNS])
    table.overwrite(columns.empty_table())
    return {}


def delete(query: Mapping[str, Any]) -> dict[str, Any]:
    """The rows that match every predicate go; all rows where there is none."""
    table = open_table(location(str(query["path"])))
    if not query["predicates"]:
        return truncate(query)
    found = [clear_expression(one, table.schema) for one in query["predicates"]]
    clear = [one for one in found if one is not None]
    if len(clear) < len(found):
        raise WriteRefused(
            f"{table.uri}: DELETE with this condition is not certain to mean the same here as in Spark; compare "
            "columns with constants, or delete by keys: headwater.open(path).delete(spark_frame_of_keys)"
        )
    table.delete(where=conjunction(clear))
    return {}
