"""The tables that ship with Headwater: written by Apache Hudi, packed as they lay on disk.

All have the columns `id` (record key), `name`, `price`, `ts` (ordering) and `city` (partition); a row's name says which
round of writing it comes from: `n4_2` is id 4 as the second round left it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import zipfile
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import resources

from headwater.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class DemoTable:
    """A shipped table: its name here, and what is in it."""

    name: str
    title: str
    about: str
    instants: tuple[str, ...]
    """Its completed writes, oldest first."""


DEMO_TABLES: dict[str, DemoTable] = {
    table.name: table
    for table in (
        DemoTable(
            "trips",
            "merge-on-read, version 9",
            "Three cities, 12 rows inserted, three rounds of updates (one brings a new row in a file of its own), a "
            "delete, and a compaction that was asked for and never ran. Written by Apache Hudi 1.2.0.",
            (
                "20261115073146372",
                "20261115073152107",
                "20261115073157687",
                "20261115073201626",
                "20261115073206395",
            ),
        ),
        DemoTable(
            "orders",
            "copy-on-write with change data capture, version 9",
            "Every commit also wrote what each row was before and after it: an insert, an upsert, a delete, an upsert "
            "that brings a deleted key back. Written by Apache Hudi 1.2.0.",
            ("20261115073231160", "20261115073233098", "20261115073236363", "20261115073239382"),
        ),
        DemoTable(
            "stats",
            "merge-on-read with a metadata table, version 9",
            "Its metadata table lists the files and knows the least and the greatest value of each column, by file and "
            "by partition; the prices hold NaN, -0.0 and -infinity. Written by Apache Hudi 1.2.0.",
            (
                "20261115080722271",
                "20261115080728040",
                "20261115080732399",
                "20261115080737361",
                "20261115080742119",
            ),
        ),
        DemoTable(
            "legacy",
            "merge-on-read, version 6",
            "The layout before 1.0: five rounds of updates, three compactions, and a cleaner that took the first "
            "files away. Written by Apache Hudi 0.15.0.",
            (
                "20261115082939352",
                "20261115082940826",
                "20261115082943535",
                "20261115082945004",
                "20261115082947780",
                "20261115082950536",
                "20261115082951661",
                "20261115082955010",
                "20261115082957664",
            ),
        ),
    )
}
"""The shipped tables by name. Names and contents stay as they are: doctests everywhere read them."""

_unpacked: dict[str, str] = {}
_lock = threading.Lock()


def demo_table(name: str) -> str:
    """The path of an unpacked copy of a shipped table; one copy a process, gone when the process ends.

    >>> import headwater
    >>> headwater.open(demo_table("orders")).scan(columns=["id", "price"], filter="city = 'nyc'").to_arrow().to_pylist()
    [{'id': 1, 'price': 4.5}, {'id': 7, 'price': 10.5}]
    """
    if name not in DEMO_TABLES:
        raise InvalidArgument(f"no demo table {name!r}; there are: {', '.join(DEMO_TABLES)}")
    with _lock:
        if name not in _unpacked:
            folder = tempfile.mkdtemp(prefix=f"headwater-{name}-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            _unpacked[name] = unpack(name, folder)
        return _unpacked[name]


def unpack(name: str, folder: str) -> str:
    """Unpack a shipped table below a folder, and say where it is.

    Files get the modification times they had: before version 8, those are the only record of when a commit completed.
    """
    packed = resources.files("headwater.demo") / "tables" / f"{name}.zip"
    with packed.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        archive.extractall(folder)
        for item in archive.infolist():
            written = datetime(*item.date_time, tzinfo=timezone.utc).timestamp()
            os.utime(os.path.join(folder, item.filename), (written, written))
        top = {item.filename.split("/")[0] for item in archive.infolist()}
    return os.path.join(folder, top.pop())
