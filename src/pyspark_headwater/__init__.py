"""`format("headwater_python")`: Spark 4.0 and newer look for data sources in packages named `pyspark_…`."""

from headwater.spark.data_source import HeadwaterDataSource as DefaultSource

__all__ = ["DefaultSource"]
