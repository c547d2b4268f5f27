"""Headwater in Spark: the session, the sidecar of the Java connector, the Python Data Source."""

from headwater.spark import frame_writer as frame_writer
from headwater.spark.fallback import register_fallback
from headwater.spark.session import configure

__all__ = ["configure", "register_fallback"]
