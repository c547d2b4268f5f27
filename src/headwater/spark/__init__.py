"""Headwater in Spark: the session, the sidecar of the Java connector, the Python Data Source."""

from headwater.spark import frame_writer as frame_writer
from headwater.spark.fallback import register_fallback
from headwater.spark.seam import enable_writes
from headwater.spark.session import configure

__all__ = ["configure", "enable_writes", "register_fallback"]
