"""Leaving out slices that cannot hold a matching row: by column statistics, by record key, by partition statistics.

Every pass keeps a slice when in doubt. A slice with logs is judged by all its files together: each value of a merged
row comes from one of them, but where a user's merger makes new ones.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from headwater.errors import UnknownMerger
from headwater.hudi.expression_index import function_statistics, indexed_functions
from headwater.hudi.key_filter import wanted_keys, wanted_values
from headwater.hudi.merge.rules import MergeRules, merge_rules
from headwater.hudi.metadata_table.reader import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataTable,
)
from headwater.hudi.metadata_table.records import ColumnStats
from headwater.hudi.metadata_table.values import is_ordered_alike
from headwater.hudi.properties import TableConfig
from headwater.hudi.schema import TableSchema
from headwater.plan import PlanStep, counted
from headwater.spec.expressions import BoundFunction, Expression, Match, evaluate_statistics, referenced
from headwater.spec.model import FileSlice, PartitionDescriptor
from headwater.spec.statistics import ColumnStatistics

# A float that became a double went through its text: the two differ by less than this part of the value.
_FLOAT_ERROR = 2e-7
# Milliseconds that a file calls microseconds are within some days of 1970, whatever time they tell.
_BEYOND_MISLABELLED = datetime.datetime(1980, 1, 1, tzinfo=datetime.timezone.utc)
_NUMBER = re.compile(r"-?(\d+(\.\d+)?(E-?\d+)?|Infinity|NaN)")
# Kinds of index for which a key is one record in each partition.
_BY_PARTITION = ("SIMPLE", "BLOOM", "BUCKET")


@dataclass(frozen=True)
class SlicePruner:
    """The passes that the metadata table allows, in the order they run."""

    config: TableConfig
    schema: TableSchema
    metadata: MetadataTable
    newest: bool
    """Whether the read is of the newest state: some indexes know no other."""
    steps: list[PlanStep] = field(default_factory=list)

    def partitions(self, found: Sequence[PartitionDescriptor], bound: Expression) -> list[PartitionDescriptor]:
        """Partitions whose statistics allow a match; their files need not even be listed otherwise."""
        if not self.newest or not self._may_use(PARTITION_STATS) or not found:
            return list(found)
        if self.config.is_merge_on_read and self._makes_values():
            return list(found)
        if self.config.base_format != "PARQUET":
            return list(found)  # Hudi notes statistics of Parquet base files only: the partition's cover its logs alone
        columns, functions = self._columns(bound), self._functions(bound)
        if not columns and not functions:
            return list(found)
        paths = [descriptor.path for descriptor in found]
        stats = self.metadata.partition_stats(columns, paths)
        of_functions = {
            function: self.metadata.partition_stats([".".join(function.path)], paths, index=index)
            for function, index in functions.items()
        }
        kept = []
        for descriptor in found:
            known = {
                column: converted
                for column in columns
                if (stat := stats.get((descriptor.path, column))) is not None
                and (converted := _of_partition(self._convert(stat, united=True))) is not None
            }
            for function, by_path in of_functions.items():
                stat = by_path.get((descriptor.path, ".".join(function.path)))
                converted = _of_partition(None if stat is None else function_statistics(stat, function))
                if converted is not None:
                    known[function.name] = converted
            if evaluate_statistics(bound, known) is not Match.NO:
                kept.append(descriptor)
        self._note("partition statistics", found, kept, _on(columns, functions), "partitions")
        return kept

    def slices(self, slices: Sequence[FileSlice], bound: Expression) -> list[FileSlice]:
        kept = self._by_key(list(slices), bound)
        return self._by_statistics(kept, bound)

    def _note(self, by: str, given: Sequence[object], kept: Sequence[object], note: str, unit: str = "slices") -> None:
        self.steps.append(PlanStep(f"prune by {by}", len(given), len(kept), unit, note))

    def _may_use(self, index: str) -> bool:
        # Renamed columns have statistics under their old names: the base files' own are used there instead.
        return self.metadata.has(index) and self.schema.internal is None

    def _columns(self, bound: Expression) -> list[str]:
        stored = {".".join(c.path) for c in referenced(bound) if not isinstance(c, BoundFunction)}
        return sorted(stored - set(self.config.partition_fields))

    def _functions(self, bound: Expression) -> dict[BoundFunction, str]:
        """The functions of the filter whose values an expression index knows, with its name."""
        return indexed_functions(self.metadata, bound) if self.schema.internal is None else {}

    def _by_key(self, slices: list[FileSlice], bound: Expression) -> list[FileSlice]:
        if not slices or not self.newest:
            return slices
        keys = wanted_keys(bound, self.config)
        if keys is None:
            keys = self._keys_by_secondary(bound)
        if keys is None:
            return slices
        if self._may_use_record_index():
            partitions = {slice_.group.partition for slice_ in slices} if self.metadata.index_is_partitioned else None
            located = self.metadata.locations(keys, partitions)
            if self._may_lack(keys, [key for key, _ in located]):
                return slices
            places = {(found.partition, found.file_id) for _, found in located}
            kept = [s for s in slices if (s.group.partition, s.group.file_id) in places]
            self._note("record index", slices, kept, counted(len(keys), "keys"))
            return kept
        if not self.metadata.has(BLOOM_FILTERS):
            return slices
        alone = [(s.group.partition, s.base_file.name) for s in slices if s.base_file is not None and not s.delta_files]
        blooms = self.metadata.blooms(alone)
        texts = pa.array(keys, pa.string())
        kept = []
        for slice_ in slices:
            name = slice_.base_file.name if slice_.base_file is not None and not slice_.delta_files else ""
            bloom = blooms.get((slice_.group.partition, name))
            if bloom is None or any(bloom.open(name).might_contain(texts).to_pylist()):
                kept.append(slice_)
        self._note("bloom filters", slices, kept, counted(len(keys), "keys"))
        return kept

    def _may_use_record_index(self) -> bool:
        """The index knows one place for each key (and partition, where it is kept by partition): it tells where all
        rows of a key are only if there is one at most."""
        if not self.metadata.has_files(RECORD_INDEX) or not self.metadata.data.keys_are_unique:
            return False
        # Writers that look for a key in its own partition alone, as such a table tells them to, store it in several.
        kind = self.config.properties.get("hoodie.index.type", "").strip().upper()
        return kind not in _BY_PARTITION or not self.config.partition_fields or self.metadata.index_is_partitioned

    def _may_lack(self, keys: Sequence[str], located: Sequence[str]) -> bool:
        """Whether there may be rows of keys that the index does not know.

        Hudi took a key out of it when a delete was written to a log, also one that loses against a row that is later by
        its ordering value (HUDI-9188). Indexes that are kept by partition are younger than that.
        """
        if not self.config.is_merge_on_read or self.metadata.index_is_partitioned or not self._loses_deletes():
            return False
        # A key may have been asked for in two spellings, of which the table uses one.
        field = f"{self.config.record_key_fields[0]}:" if len(self.config.record_key_fields) == 1 else ""
        known = {key.removeprefix(field) for key in located}
        return any(key.removeprefix(field) not in known for key in keys) and self.metadata.data.has_deletes

    @cached_property
    def _rules(self) -> MergeRules | None:
        """How rows are merged; None where nobody registered the merger, which is told where a slice has logs."""
        try:
            return merge_rules(self.config)
        except UnknownMerger:
            return None

    def _loses_deletes(self) -> bool:
        """Whether a delete may be written and change nothing."""
        return self._makes_values() or (self._rules is not None and self._rules.by_event_time)

    def _makes_values(self) -> bool:
        """Whether merging may give values that no file has: statistics and indexes of values know nothing of them."""
        return self._rules is None or self._rules.merger is not None

    def _keys_by_secondary(self, bound: Expression) -> list[str] | None:
        """The record keys of rows that match an equality on a column with a secondary index."""
        if not self._may_use_record_index() or (self.config.is_merge_on_read and self._makes_values()):
            return None
        for name, definition in self.metadata.definitions.items():
            fields = definition.get("sourceFields") or []
            if definition.get("indexType") != "secondary_index" or len(fields) != 1 or not self._may_use(name):
                continue
            values = wanted_values(bound, str(fields[0]))
            if values is not None and self.metadata.has_files(name):
                keys = self.metadata.secondary_keys(name, values)
                self._note(f"secondary index {name}", keys, keys, counted(len(values), "values"), "keys")
                return keys
        return None

    def _by_statistics(self, slices: list[FileSlice], bound: Expression) -> list[FileSlice]:
        columns = self._columns(bound) if self._may_use(COLUMN_STATS) else []
        functions = self._functions(bound)
        if not slices or not (columns or functions):
            return slices
        files = [(s.group.partition, path.rsplit("/", 1)[-1]) for s in slices for path in s.paths]
        stats = self.metadata.column_stats(columns, files)
        of_functions = {
            function: self.metadata.column_stats([".".join(function.path)], files, index=index)
            for function, index in functions.items()
        }
        if not stats and not any(of_functions.values()):
            return slices
        kept = []
        makes_values = self._makes_values()
        for slice_ in slices:
            if makes_values and slice_.delta_files:
                kept.append(slice_)
                continue
            known = {column: self._of_slice(slice_, column, stats, self._convert) for column in columns}
            for function, by_file in of_functions.items():
                convert = partial(function_statistics, function=function)
                known[function.name] = self._of_slice(slice_, ".".join(function.path), by_file, convert)
            certain = {name: statistics for name, statistics in known.items() if statistics is not None}
            if evaluate_statistics(bound, certain) is not Match.NO:
                kept.append(replace(slice_, statistics=certain))
        self._note("column statistics", slices, kept, _on(columns, functions))
        return kept

    def _of_slice(
        self,
        slice_: FileSlice,
        column: str,
        stats: dict[tuple[str, str, str], ColumnStats],
        convert: Callable[[ColumnStats], ColumnStatistics | None],
    ) -> ColumnStatistics | None:
        merged: ColumnStatistics | None = None
        for path in slice_.paths:
            stat = stats.get((slice_.group.partition, path.rsplit("/", 1)[-1], column))
            converted = None if stat is None else convert(stat)
            if converted is None:
                return None  # one file without statistics: nothing is known of the slice
            merged = converted if merged is None else merged.merge(converted)
        return merged

    def _convert(self, stat: ColumnStats, *, united: bool = False) -> ColumnStatistics | None:
        """What a record tells of its column; `united` where it is about several files."""
        kind = _type_at(self.schema.arrow, stat.column)
        if kind is None:
            return None
        empty = stat.null_count is not None and stat.null_count == stat.value_count
        if not _always_has_statistics(kind) and (empty or (stat.null_count != 0 and _may_hide(kind, stat, united))):
            # Hudi counts every row as null where a column chunk has no statistics at all. So the bounds may be those
            # of other row groups or files alone.
            return None
        low, high = _bound(stat.min, kind), _bound(stat.max, kind)
        if not empty and (low is None or high is None):
            return None
        if united and any(isinstance(bound, str) and _NUMBER.fullmatch(bound) for bound in (low, high)):
            # Of files from before a number became text Hudi unites the bounds as texts: '5' is not in '1' to '10'.
            return None
        if isinstance(low, float) and isinstance(high, float):
            if low <= 0 <= high:
                # Where a file has NaN, Hudi notes 0.0 to 0.0 whatever else it holds, and unites that with other ranges.
                return None
            low, high = low - abs(low) * _FLOAT_ERROR, high + abs(high) * _FLOAT_ERROR
        return ColumnStatistics(low, high, null_count=stat.null_count, value_count=stat.value_count, exact=False)


def _of_partition(known: ColumnStatistics | None) -> ColumnStatistics | None:
    """What a partition's statistics tell of a column. Hudi unites those of the files that have it: in files from before
    the column was added all rows are null, and are not counted."""
    return known if known is None or known.all_null else replace(known, null_count=None)


def _always_has_statistics(kind: pa.DataType) -> bool:
    """Whether Parquet writers keep statistics of such a column; of text, bytes and INT96 times they may not."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
    )


def _may_hide(kind: pa.DataType, stat: ColumnStats, united: bool) -> bool:
    """Whether what counts as null may be values: those of a row group whose texts are too long for statistics, or of a
    file with INT96 times beside others. Of log files Hudi looks at the records themselves."""
    if pa.types.is_decimal(kind):
        return False
    return united or (not pa.types.is_timestamp(kind) and not stat.file.startswith("."))


def _on(columns: Iterable[str], functions: Mapping[BoundFunction, str]) -> str:
    by_index = sorted(f"{function} by {index}" for function, index in functions.items())
    return f"on {', '.join((*columns, *by_index))}"


def _type_at(schema: pa.Schema, path: str) -> pa.DataType | None:
    kind: pa.DataType | None = None
    fields: Any = schema
    for name in path.split("."):
        index = fields.get_field_index(name) if hasattr(fields, "get_field_index") else -1
        if index < 0:
            return None
        kind = fields.field(index).type
        fields = kind
    return kind


def _bound(value: Any, kind: pa.DataType) -> Any:
    """A bound as a value of the column's type; None where it is not one, or its meaning is not certain."""
    if value is None or (isinstance(value, float) and value != value) or not is_ordered_alike(value):
        return None
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else None
    if pa.types.is_integer(kind):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if pa.types.is_floating(kind):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if (number and abs(value) < 2**53) or isinstance(value, float) else None
    if pa.types.is_decimal(kind):
        return value if isinstance(value, Decimal) else None
    if pa.types.is_date(kind):
        return value if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime) else None
    if pa.types.is_timestamp(kind):
        zoned = kind.tz is not None
        if not isinstance(value, datetime.datetime) or (value.tzinfo is not None) != zoned:
            return None
        return None if zoned and kind.unit == "ms" and value < _BEYOND_MISLABELLED else value
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else None
    return None
