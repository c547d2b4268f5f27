"""Names of data files: what a base file's and a log file's name say (facts 4.1).

>>> parse_base_file("f1-0_0-5-9_20260101000000000.parquet")
BaseFileName(file_id='f1-0', write_token='0-5-9', instant='20260101000000000', extension='parquet')
>>> parse_log_file(".f1-0_20260101000000000.log.2_0-5-9").version
2
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BASE_EXTENSIONS = ("parquet", "orc", "hfile", "lance")
PARTITION_MARKER = ".hoodie_partition_metadata"

_BASE = re.compile(r"^([^_./][^_/]*)_([^_/]*)_(\d+)\.([A-Za-z]+)$")
_LOG = re.compile(r"^\.([^/]+)_(\d*)\.(log|archive)\.(\d+)(?:_(\d+-\d+-\d+))?(\.cdc)?$")


@dataclass(frozen=True, slots=True)
class BaseFileName:
    file_id: str
    write_token: str
    instant: str
    extension: str


@dataclass(frozen=True, slots=True)
class LogFileName:
    file_id: str
    instant: str
    """Versions up to 6: the slice's base instant. From 8: the delta commit's own."""
    version: int
    write_token: str
    is_cdc: bool

    @property
    def order(self) -> tuple[str, int, str, bool]:
        """Log files of a slice apply in this order (facts 7.4)."""
        return (self.instant, self.version, self.write_token, self.is_cdc)


def parse_base_file(name: str) -> BaseFileName | None:
    """None where the name is not a base file's."""
    match = _BASE.match(name)
    if match is None or match[4].lower() not in BASE_EXTENSIONS:
        return None
    return BaseFileName(match[1], match[2], match[3], match[4].lower())


def parse_log_file(name: str) -> LogFileName | None:
    """None where the name is not a log file's."""
    match = _LOG.match(name)
    if match is None or match[3] != "log":
        return None
    return LogFileName(match[1], match[2], int(match[4]), match[5] or "", match[6] is not None)
