"""Cells where a reader does not give what Headwater gives, and is wrong or cannot: each with the reason.

Everything else that differs is a bug of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.interop.write_matrix.reads import Read
from tests.interop.write_matrix.specs import Spec

RUST = "hudi-rs"


@dataclass(frozen=True)
class Known:
    """A kind of difference: the reader's name, the stage, the read and the message decide whether it applies."""

    reason: str
    applies: Callable[[Spec, str, str, Read | None, str], bool]


def _changes_of_version_6(spec: Spec, reader: str, stage: str, read: Read | None, message: str) -> bool:
    return read is not None and read.mode == "cdc" and spec.version == 6 and "Not an Avro data file" in message


def _newest_schema(spec: Spec, reader: str, stage: str, read: Read | None, message: str) -> bool:
    return reader == RUST and read is not None and read.mode == "time_travel" and "no column added" in message


def _promoted(spec: Spec, reader: str, stage: str, read: Read | None, message: str) -> bool:
    return reader == RUST and "has type Int32 but the table schema expects Int64" in message


def _two_schemas(spec: Spec, reader: str, stage: str, read: Read | None, message: str) -> bool:
    return reader == RUST and "reconcile: column 'ColumnStatsMetadata'" in message


BARE_KEYS = (
    "0.15.0 and 1.0.2 write keys of one column without its name where every other release has it, and find none of the "
    "others' (facts 4.5)"
)


def makes_other_keys(spec: Spec, release: str) -> bool:
    """Whether a release would store the records of our table a second time; we refuse to go on with such a table."""
    return spec.keys == "complex" and release in ("0.15.0", "1.0.2")


def _folded_by_ordering(spec: Spec, reader: str, stage: str, read: Read | None, message: str) -> bool:
    merges = spec.is_merge_on_read and spec.merge in ("latest", "nondefaults")
    return reader == "0.15.0" and merges and read is not None and message.startswith("row ")


KNOWN: tuple[Known, ...] = (
    Known(
        "Hudi 1.x takes the commits of a merge-on-read table of version 6 for Avro when it reads its changes",
        _changes_of_version_6,
    ),
    Known(
        "0.15.0 lets ordering values decide between log records, later releases do not (facts 15.1)",
        _folded_by_ordering,
    ),
    Known(
        "hudi-rs does not read column statistics of two schemas, as 1.0.2 and 1.2.0 leave them in a table of version 8",
        _two_schemas,
    ),
    Known("hudi-rs reads the past with the newest schema", _newest_schema),
    Known("hudi-rs does not read log blocks that were written before a column became wider", _promoted),
)


def known_difference(spec: Spec, reader: str, stage: str, read: Read | None, message: str) -> str | None:
    """Why this difference is not a bug of ours, if it is none."""
    return next((one.reason for one in KNOWN if one.applies(spec, reader, stage, read, message)), None)
