"""Logs that leave the number of a slice's rows as it is, told by the headers of their blocks alone.

A record that is known by its row in the base file takes that row's place, or loses against it. A log of such records,
none of them a delete, changes values and no counts: nothing has to be decoded to count the rows.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.hudi.file_names import parse_base_file
from headwater.hudi.log import BlockType, LogBlock, scan_blocks, select_blocks
from headwater.hudi.merge.log_rows import IS_DELETED, OPERATION
from headwater.hudi.slice_reader import SliceContext
from headwater.spec.model import FileSlice

_VERSION_AND_COUNT = struct.Struct(">ii")


def only_updates(context: SliceContext, slice_: FileSlice, rows: int) -> bool:
    """Whether every record of the logs of a slice stands for one of the rows of its base file; False when in doubt."""
    name = None if slice_.base_file is None else parse_base_file(slice_.base_file.name)
    if name is None or slice_.instants is not None:
        return False
    rules = context.rules()
    if rules.merges_columns or rules.delete_field is not None:
        return False
    found = [block for ref in slice_.delta_files for block in scan_blocks(context.storage, ref.path, lazy=True)]
    if any(block.type is BlockType.CORRUPT for block in found):
        return False  # whoever merges will tell of it
    latest = slice_.as_of or context.as_of
    blocks = select_blocks(found, is_valid_instant=context.is_valid_instant, latest=latest)
    # What headers tell comes first: a delete at the end spares looking into all that is before it.
    if not all(_may_be_of_updates(block, name.instant) for block in blocks):
        return False
    return all(_is_of_updates(block, rows) for block in blocks)


def _may_be_of_updates(block: LogBlock, base_instant: str) -> bool:
    if block.type not in (BlockType.AVRO_DATA, BlockType.PARQUET_DATA) or block.is_partial:
        return False
    if block.base_instant_of_positions != base_instant or block.schema is None:
        return False
    return not any(f'"{marker}"' in block.schema for marker in (IS_DELETED, OPERATION))


def _is_of_updates(block: LogBlock, rows: int) -> bool:
    positions, records = block.positions, _records(block)
    return positions is not None and records == len(positions) > 0 and int(positions[-1]) < rows


def _records(block: LogBlock) -> int | None:
    if block.type is BlockType.AVRO_DATA:
        head = block.load(block.content_offset, min(_VERSION_AND_COUNT.size, block.content_length))
        return _VERSION_AND_COUNT.unpack_from(head)[1] if len(head) == _VERSION_AND_COUNT.size else None
    try:
        return int(pq.read_metadata(block.open()).num_rows)
    except (OSError, ValueError, pa.ArrowException):
        return None
