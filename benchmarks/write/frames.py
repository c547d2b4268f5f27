"""The rows that are written: 10 columns, keys at random in four partitions; and changes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
COLUMNS = ("id", "ts", "city", "x", "y", "qty", "amount", "note", "name", "day")
_START = 1_700_000_000_000
_ODD = 2_654_435_761


def rows(spark: SparkSession, count: int, first: int = 0) -> DataFrame:
    """`count` rows with the keys from `first` on; as many partitions of the frame as cities."""
    each = max(count // PARTITIONS, 1)
    return spark.range(first, first + count, 1, PARTITIONS).selectExpr(
        f"format_string('k%010d', (id * {_ODD}) % {count} + {first}) AS id",
        f"{_START} + (id % {each}) * 40 + pmod(xxhash64(id, 7), 32) AS ts",
        f"concat('city_', CAST(LEAST((id - {first}) DIV {each}, {PARTITIONS - 1}) AS string)) AS city",
        "xxhash64(id, 1) / 9.223372036854776E18 AS x",
        "xxhash64(id, 2) / 1.099511627776E12 AS y",
        "pmod(xxhash64(id, 3), 1000) AS qty",
        "pmod(xxhash64(id, 4), 1000000000) AS amount",
        "md5(CAST(id AS string)) AS note",
        "concat('user_', CAST((id * 7919) % 100000 AS string)) AS name",
        "date_add(DATE '2020-01-01', CAST(id % 1500 AS int)) AS day",
    )


def one_in(frame: DataFrame, of: int, salt: int) -> DataFrame:
    """About one row in so many, at random."""
    return frame.where(f"pmod(xxhash64(id, {salt}), {max(of, 1)}) = 0")


def changed(frame: DataFrame, by: int) -> DataFrame:
    """Later versions of the rows."""
    return frame.selectExpr(*(f"{_CHANGES.get(name, name)} AS {name}".replace("{by}", str(by)) for name in COLUMNS))


_CHANGES: dict[str, Any] = {
    "ts": "ts + 1 + {by}",
    "x": "x * 2",
    "qty": "qty + 1",
    "note": "md5(concat(note, '{by}'))",
}
