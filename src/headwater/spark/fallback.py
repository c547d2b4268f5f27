"""Registering the Python Data Source with a session; PySpark is imported only when that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.errors import ConnectorNotFound, SparkSetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_fallback(spark: SparkSession) -> None:
    """Let a session read tables without the Java connector: `format("headwater_python")`.

    Where the session has no connector, `format("headwater")` is the same. It needs Spark 4.0 or newer, and Headwater
    installed in the Python that Spark's workers run (PYSPARK_PYTHON).
    """
    version = str(spark.version)
    if int(version.split(".", 1)[0]) < 4:
        raise SparkSetupError(
            f"Spark {version} has no Python data sources; they came with 4.0. Read through the Java connector: "
            "headwater.configure(SparkSession.builder).getOrCreate()"
        )
    from headwater.spark.data_source import HeadwaterOnly, PushingOnly

    register_python(spark)
    if not has_connector(spark):
        _register(spark, PushingOnly if _takes_filters(spark) else HeadwaterOnly)


def register_python(spark: SparkSession) -> None:
    """`format("headwater_python")` alone."""
    from headwater.spark.data_source import HeadwaterDataSource, PushingDataSource

    _register(spark, PushingDataSource if _takes_filters(spark) else HeadwaterDataSource)


def _takes_filters(spark: SparkSession) -> bool:
    return str(spark.conf.get("spark.sql.python.filterPushdown.enabled", "false")).lower() == "true"


def _register(spark: SparkSession, source: Any) -> None:
    """Register with the interpreter of the sidecars, which has this package, where the session tells one."""
    context: Any = getattr(spark, "_sc", None)
    python = spark.conf.get("spark.headwater.python", None) if context is not None else None
    known = None if context is None else context.pythonExec
    if python is not None:
        context.pythonExec = python
    try:
        spark.dataSource.register(source)
    except Exception as error:
        # Spark has found the package itself (`pyspark_headwater`), or this was done before.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
    finally:
        if python is not None:
            context.pythonExec = known


def has_connector(spark: SparkSession) -> bool:
    """Whether `format("headwater")` is the Java connector's."""
    from headwater.spark.session import SOURCE_CLASS, check_remote

    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is not None:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return loader.getResource(SOURCE_CLASS) is not None
    try:
        check_remote(spark)
    except ConnectorNotFound:
        return False
    return True
