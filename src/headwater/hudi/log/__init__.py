"""Hudi log files: block codec, scanning, decoding, and which blocks count."""

from headwater.hudi.log.format import BlockType, Header, LogBlock, read_block, write_block
from headwater.hudi.log.scan import scan_blocks, scan_buffer

__all__ = ["BlockType", "Header", "LogBlock", "read_block", "scan_blocks", "scan_buffer", "write_block"]
