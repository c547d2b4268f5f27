"""What becomes of each record of a batch: it changes where it is stored, leaves its partition, or is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import UnsupportedTable
from headwater.hudi.keys import key_columns, record_keys
from headwater.hudi.merge.fold import Flags, Rows
from headwater.hudi.merge.ordering import ordering_values, ranks
from headwater.hudi.merge.rules import MergeRules
from headwater.hudi.schema import RECORD_KEY
from headwater.hudi.table import HudiTable
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.tagging import Tags
from headwater.spec.expressions import col
from headwater.spec.model import FileSlice


@dataclass(frozen=True)
class Placement:
    """A batch with the place of each of its records."""

    tags: Tags
    leaving: Flags
    """Which of the tags' records are deleted there, because they are written to another partition."""
    inserts: Rows
    """Rows of the batch that are new where they go."""


def place(table: HudiTable, batch: Batch, tags: Tags, rules: MergeRules, *, moves: bool) -> Placement:
    """Stored records stay; with `moves`, one whose partition is another now leaves the old one.

    By event time, a record that loses against the stored one moves nothing. A delete is done where the record is, and a
    delete of a record that is not there is forgotten.
    """
    new = tags.absent(len(batch))
    new = new[~batch.deleted[new]]
    stays = np.zeros(len(tags.row), bool)
    if not moves or not len(tags.row):
        return Placement(tags, stays, new)
    codes, paths = batch.partition_codes
    number = {path: code for code, path in enumerate(paths)}
    stored_in = np.array([number.get(slice_.group.partition, -1) for slice_ in tags.slices], np.int64)
    leaving = (stored_in[tags.slice] != codes[tags.row]) & ~batch.deleted[tags.row]
    if not leaving.any():
        return Placement(tags, stays, new)
    if rules.merges_columns:
        raise UnsupportedTable(
            f"{table.storage.uri}: {int(leaving.sum())} records change their partition, and this table merges columns "
            "of old and new versions; delete them first, or keep them in place with "
            "hoodie.simple.index.update.partition.path=false"
        )
    if rules.by_event_time:
        late = late_records(table, batch, tags, leaving, rules)
        loses = np.zeros(len(batch), bool)
        loses[tags.row[late]] = True
        keep = ~loses[tags.row]
        tags = replace(tags, row=tags.row[keep], slice=tags.slice[keep], position=tags.position[keep])
        leaving = leaving[keep]
    stored_here = np.zeros(len(batch), bool)
    stored_here[tags.row[~leaving]] = True
    moved = np.unique(tags.row[leaving])
    return Placement(tags, leaving, np.sort(np.concatenate([new, moved[~stored_here[moved]]])))


def late_records(table: HudiTable, batch: Batch, tags: Tags, leaving: Flags, rules: MergeRules) -> Flags:
    """Which of the leaving records have an older ordering value than what is stored."""
    late = np.zeros(len(tags.row), bool)
    for number in np.unique(tags.slice[leaving]).tolist():
        entries = np.flatnonzero(leaving & (tags.slice == number))
        rows = tags.row[entries]
        keys = batch.keys.take(pa.array(rows))
        stored = stored_rows(table, tags.slices[number], keys, rules.ordering_fields)
        at = np.asarray(pc.fill_null(pc.index_in(keys, value_set=stored.column("key").combine_chunks()), -1))
        found = np.flatnonzero(at >= 0)
        older = ordering_values(
            rules, [stored.column(name).take(pa.array(at[found])) for name in rules.ordering_fields]
        )
        newer = [column.take(pa.array(rows[found])) for column in batch.ordering]
        new_rank, old_rank = ranks([newer, older])
        late[entries[found]] = new_rank < old_rank
    return late


def with_stored_values(table: HudiTable, batch: Batch, tags: Tags, columns: Sequence[str]) -> Batch:
    """The batch with some columns as they are stored, for tables whose logs hold whole rows only."""
    rows = batch.rows
    found = [
        stored_rows(table, slice_, batch.keys.take(pa.array(tags.row[tags.slice == number])), columns)
        for number, slice_ in enumerate(tags.slices)
        if (tags.slice == number).any()
    ]
    if not found:
        return batch
    stored = pa.concat_tables(found)
    at = pc.index_in(batch.keys, value_set=_one(stored.column("key")))
    for name in columns:
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(
            index, rows.schema.field(index), stored.column(name).take(at).cast(rows.schema.field(index).type)
        )
    return replace(batch, rows=rows)


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def stored_rows(table: HudiTable, slice_: FileSlice, keys: pa.Array, columns: Sequence[str]) -> pa.Table:
    """The newest state of some records of a slice: `key`, then the columns."""
    config, schema = table.config, table.schema
    names = list(dict.fromkeys([*key_columns(config), *columns]))
    reader = table.reader(schema).project(pa.schema([schema.arrow.field(name) for name in names]))
    if config.populate_meta_fields:
        reader = reader.push_down_filters(col(RECORD_KEY).is_in(keys.to_pylist()))
    output = pa.schema([schema.arrow.field(name).with_nullable(True) for name in names])
    found = pa.Table.from_batches([batch.cast(output) for batch in reader.open(slice_)], schema=output)
    texts = found.column(RECORD_KEY) if config.populate_meta_fields else record_keys(config, found)
    keyed = found.select(list(columns)).append_column("key", texts)
    return keyed.filter(pc.is_in(texts, value_set=keys))
