"""Headwater: Apache Hudi and Apache Iceberg tables for Python and PySpark."""

from headwater.errors import HeadwaterError
from headwater.hudi.merge import register_merger
from headwater.spark.session import configure
from headwater.spec.expressions import col
from headwater.table import Scan, Table
from headwater.table import create_table as create
from headwater.table import open_table as open

__version__ = "0.1.0"

__all__ = ["HeadwaterError", "Scan", "Table", "col", "configure", "create", "open", "register_merger"]
