"""CREATE, ALTER, TRUNCATE and DROP TABLE, and DELETE, for the connector's catalogs: what needs no Spark job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headwater.errors import WriteRefused
from headwater.hudi.schema import META_COLUMNS
from headwater.hudi.write.drop import drop_table
from headwater.spark.sidecar.predicates import clear_expression
from headwater.spark.sidecar.tables import location
from headwater.spark.table_properties import definition
from headwater.spark.types import arrow_schema
from headwater.spark.write import saving
from headwater.spec.expressions import conjunction
from headwater.storage import Storage
from headwater.table import open_table


def create(query: Mapping[str, Any]) -> dict[str, Any]:
    """An empty table. Hudi's own columns may be among the given ones, as SHOW CREATE TABLE lists them."""
    given, stored = definition(query["properties"], query["partition_by"])
    columns = pa.schema([field for field in arrow_schema(query["schema"]) if field.name not in META_COLUMNS])
    saving.create(columns, location(str(query["path"])), given, stored)
    return {}


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
