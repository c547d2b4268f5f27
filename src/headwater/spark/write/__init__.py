"""Writing Spark data frames: ordinary PySpark up to the files, and the same commit as without Spark."""

from headwater.spark.write.saving import save

__all__ = ["save"]
