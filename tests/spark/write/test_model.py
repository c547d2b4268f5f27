"""The model test through Spark: random sequences of writes of data frames, compared after every step."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import Phase
from tests.counts import Record
from tests.reliability.test_write_model import Run, frame, sequences
from tests.reliability.write_model import Row
from tests.spark.session import spark
from tests.spark.write.frames import on_executors

EXAMPLES = int(os.environ.get("HEADWATER_SPARK_MODEL_EXAMPLES", "2"))
ROWS = "id string, ts long, name string, price double, city string, _hoodie_is_deleted boolean"
STEPS = int(os.environ.get("HEADWATER_SPARK_MODEL_STEPS", "5"))


class SparkRun(Run):
    """Rows come as data frames, in two partitions, and are written by tasks however few they are."""

    on_driver = False

    def merge(self, batch: list[Row]) -> Any:
        """The source of a merge is the driver's, where its conditions are evaluated."""
        self.on_driver = True
        try:
            return super().merge(batch)
        finally:
            self.on_driver = False

    def frame(self, batch: list[Row]) -> Any:
        if self.on_driver:
            return super().frame(batch)
        return spark().createDataFrame(frame(batch).to_pylist(), ROWS)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["files", "buckets", "record index"])
def test_any_sequence_of_frames_gives_the_rows_of_the_model(index: str, kind: str, record_property: Record) -> None:
    with on_executors():
        sequences(
            record_property,
            kind,
            9,
            "event_time",
            2 if index == "buckets" else None,
            indexed=index == "record index",
            made=SparkRun,
            examples=EXAMPLES,
            longest=STEPS,
            what="model test through Spark: steps",
            phases=(Phase.generate,),  # each step takes a second: a failing sequence is told as it came
        )
