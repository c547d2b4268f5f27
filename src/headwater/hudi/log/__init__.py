"""Hudi log files: block codec, scanning, decoding, and which blocks count."""

from headwater.hudi.log.blocks import (
    data_schema,
    read_data_block,
    read_data_parts,
    read_delete_block,
    write_avro_content,
)
from headwater.hudi.log.deletes import Deletes, OrderingGroup, Wrapper, read_deletes, write_deletes
from headwater.hudi.log.format import BlockType, Header, LogBlock, read_block, write_block, write_positions
from headwater.hudi.log.scan import scan_blocks, scan_buffer
from headwater.hudi.log.valid import select_blocks

__all__ = [
    "BlockType",
    "Deletes",
    "Header",
    "LogBlock",
    "OrderingGroup",
    "Wrapper",
    "data_schema",
    "read_block",
    "read_data_block",
    "read_data_parts",
    "read_delete_block",
    "read_deletes",
    "scan_blocks",
    "scan_buffer",
    "select_blocks",
    "write_avro_content",
    "write_block",
    "write_deletes",
    "write_positions",
]
