"""HFile version 3, the file format of Hudi's metadata table: reader and writer (format facts, section 9)."""

from headwater.hudi.hfile.reader import HFileReader
from headwater.hudi.hfile.source import ByteSource, BytesSource, StorageSource
from headwater.hudi.hfile.writer import HFileWriter, write_hfile

__all__ = ["ByteSource", "BytesSource", "HFileReader", "HFileWriter", "StorageSource", "write_hfile"]
