"""Keys and partition paths that Spark makes are the key generator's own, for any values."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.session import spark

import headwater
from headwater.hudi.write.incoming import Shape, nullable
from headwater.hudi.write.planning import write_options
from headwater.hudi.write.reconcile import fit_rows
from headwater.spark.write.frames import collected, schema_of
from headwater.spark.write.keys import KEY, PARTITION, native_keys, with_keys

TEXTS = ["", "a", "ü:,=/ %", "__null__", "\U0001f600", "x" * 50, None]


def values(seed: int) -> list[tuple[Any, ...]]:
    rng = random.Random(seed)
    return [
        (
            rng.choice(TEXTS),
            rng.choice([0, -1, 2**31 - 1, -(2**31), None]),
            rng.randint(-(2**63), 2**63 - 1),
            rng.choice([True, False]),
            rng.choice(["p", "q r", "ü"]),
            rng.choice([0, 7, -3]),
            rng.choice([1.0, -0.0, 1e7, 1.5e-5, 123456.789]),
        )
        for _ in range(200)
    ]


SCHEMA = "t string, i int, l bigint, b boolean, p string, q int, d double"


@pytest.mark.parametrize(
    ("key", "partition", "options", "native"),
    [
        (["l"], ["p"], {}, True),
        (["l"], ["q"], {"hive_style": True}, True),
        (["t", "i", "l"], ["p", "q"], {}, True),
        (["b", "l"], ["p", "q"], {"hive_style": True}, True),
        (["l"], ["p"], {"key_generator": "complex"}, True),
        (["l"], [], {}, True),
        (["d", "l"], ["p"], {}, False),
        (["l"], ["p"], {"url_encode": True, "hive_style": True}, False),
        (
            ["l"],
            ["q"],
            {
                "key_generator": "timestamp",
                "properties": {
                    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
                    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
                },
            },
            False,
        ),
    ],
    ids=str,
)
def test_spark_and_the_key_generator_agree(
    tmp_path: Path, key: list[str], partition: list[str], options: dict[str, Any], native: bool
) -> None:
    frame = spark().createDataFrame(values(len(key) + len(partition)), SCHEMA)
    table = headwater.create(tmp_path / "t", schema=schema_of(frame), key=key, partition_by=partition, **options)
    shape = Shape.of(table.hudi, schema_of(frame), write_options(table.hudi, None))
    assert (native_keys(shape, schema_of(frame)) is not None) is native
    made = collected(with_keys(frame, shape))
    rows = fit_rows(made.select(schema_of(frame).names), nullable(shape.schema))
    assert made.column(KEY).combine_chunks().equals(pa.chunked_array([shape.keys_of(rows)]).combine_chunks())
    paths = pa.chunked_array([shape.partitions_of(rows)]).combine_chunks()
    assert made.column(PARTITION).combine_chunks().equals(paths)
