"""Record keys and partition paths as Spark expressions, spelled as `headwater.hudi.write.key_generator` spells them.

They are what rows are joined and shuffled by. Where a spelling has no expression (times, floating numbers, decimals,
escaped paths) the key generator itself makes both, batch by batch. Keys that stand in files are the key generator's in
any case, made where the file is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.hudi.keys import NULL_PARTITION
from headwater.hudi.write.incoming import Shape, nullable
from headwater.hudi.write.reconcile import fit_rows
from headwater.spark.write.frames import Batches, mapped, schema_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY = "__headwater_key"
PARTITION = "__headwater_partition"
ORDER = "__headwater_order"
"""The row's place in the frame: of two rows of a key that are alike in all else the later one counts."""


def with_keys(frame: DataFrame, shape: Shape, *, partitions: bool = True) -> DataFrame:
    """The rows with their key, their partition path (empty without `partitions`) and their place in the frame."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    placed = frame.withColumn(ORDER, F.monotonically_increasing_id())
    native = native_keys(shape, schema_of(frame), partitions=partitions)
    if native is not None:
        return placed.withColumn(KEY, native[0]).withColumn(PARTITION, native[1])
    from pyspark.sql.types import StringType, StructType

    schema = StructType([*placed.schema.fields]).add(KEY, StringType()).add(PARTITION, StringType())
    return mapped(placed, MakeKeys(shape, partitions), schema)


def native_keys(shape: Shape, incoming: pa.Schema, *, partitions: bool = True) -> tuple[Column, Column] | None:
    """The two expressions; None where the spelling of one has none."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    maker, config = shape.maker, shape.table.config
    paths = config.partition_fields if partitions and maker.kinds else ()
    if paths and (maker.slashed_dates or config.url_encoded or any(kind != "SIMPLE" for kind in maker.kinds)):
        return None
    texts: dict[str, Column] = {}
    for name in (*config.record_key_fields, *paths):
        text = _text(name, incoming, shape.schema)
        if text is None:
            return None
        texts[name] = text
    keys = [texts[name] for name in config.record_key_fields]
    if shape.makes_keys:
        key = F.col(ORDER).cast("string")  # until the write makes the real one: it spreads the rows
    elif len(keys) == 1:
        key = F.concat(F.lit(f"{config.record_key_fields[0]}:"), keys[0]) if maker.names_single_key else keys[0]
    else:
        parts: list[Any] = []
        for name, text in zip(config.record_key_fields, keys, strict=True):
            value = F.when(text.isNull(), "__null__").when(text == "", "__empty__").otherwise(text)
            parts += [F.lit(f"{',' if parts else ''}{name}:"), value]
        key = F.concat(*parts)
    segments: list[Any] = []
    for name in paths:
        value = F.when(texts[name].isNull() | (texts[name] == ""), NULL_PARTITION).otherwise(texts[name])
        segments.append(F.concat(F.lit(f"{name}="), value) if config.hive_style else value)
    return key, F.concat_ws("/", *segments) if segments else F.lit("")


def _text(name: str, incoming: pa.Schema, known: pa.Schema) -> Column | None:
    """A column's text where Spark's cast and Java's `String.valueOf` agree: texts, whole numbers, booleans."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

    if name not in incoming.names or name not in known.names:
        return None
    given, stored = incoming.field(name).type, known.field(name).type
    column = F.col(f"`{name}`")
    if pa.types.is_string(given) and pa.types.is_string(stored):
        return column
    if pa.types.is_boolean(given) and pa.types.is_boolean(stored):
        return column.cast("string")
    if pa.types.is_integer(given) and (pa.types.is_integer(stored) or pa.types.is_string(stored)):
        return column.cast("string")
    return None


@dataclass(frozen=True)
class MakeKeys:
    """Adds the key generator's own keys and paths to batches."""

    shape: Shape
    partitions: bool = True

    def __call__(self, batches: Batches) -> Batches:
        config = self.shape.table.config
        names = [*config.record_key_fields, *(config.partition_fields if self.partitions else ())]
        needed = nullable(pa.schema([self.shape.schema.field(name) for name in {n.split(".")[0]: 0 for n in names}]))
        for batch in batches:
            rows = fit_rows(pa.Table.from_batches([batch]).select(needed.names), needed)
            order = batch.column(batch.schema.get_field_index(ORDER))
            keys = order.cast(pa.string()) if self.shape.makes_keys else self.shape.keys_of(rows)
            paths = self.shape.partitions_of(rows) if self.partitions else pa.repeat("", len(keys))
            yield pa.RecordBatch.from_arrays([*batch.columns, keys, paths], names=[*batch.schema.names, KEY, PARTITION])
