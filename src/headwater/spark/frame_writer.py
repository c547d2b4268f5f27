"""Tells tables that Spark's data frames are written through Spark."""

from __future__ import annotations

from typing import Any

from headwater.writing import write_frames_of


class SparkFrames:
    """Loaded when the first frame comes: without Spark nothing of it is imported."""

    def operations(self) -> Any:
        from headwater.spark.write import operations

        return operations

    def merge_source(self, frame: Any) -> Any:
        from headwater.spark.write.operations import merge_source

        return merge_source(frame)


write_frames_of("pyspark", SparkFrames())
