"""The order in which rows reach the files of a bulk insert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.hudi.write.incoming import Shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def sorted_frame(frame: DataFrame, shape: Shape, sort: str) -> DataFrame:
    """The frame with its rows by partition and record key, as far as `sort` asks for it."""
    if sort == "none":
        return frame
    columns = _order(frame, shape)
    return frame.orderBy(*columns) if sort == "global" else frame.sortWithinPartitions(*columns)


def _order(frame: DataFrame, shape: Shape) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    config = shape.table.config
    names = [*(config.partition_fields if shape.maker.kinds else ()), *config.record_key_fields]
    return [F.col(".".join(f"`{part}`" for part in name.split("."))) for name in dict.fromkeys(names)]
