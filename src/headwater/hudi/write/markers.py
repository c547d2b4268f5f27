"""Markers: before a data file is made, its name is written down, so that a dead writer's files are found (facts 4.3).

One empty file for each: `.hoodie/.temp/<instant>/<partition>/<file>.marker.<CREATE|MERGE|APPEND>`. Markers that Hudi's
timeline server wrote (many names in files `MARKERS…`) are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from headwater.hudi.file_names import parse_log_file
from headwater.hudi.properties import META_FOLDER, TableConfig
from headwater.storage import Storage

FOLDER = f"{META_FOLDER}/.temp"
MarkerKind = Literal["CREATE", "MERGE", "APPEND"]

_MARKER = re.compile(r"^(?:(?P<partition>.*)/)?(?P<name>[^/]+)\.marker\.(?P<kind>CREATE|MERGE|APPEND)$")
_LIST_OF_NAMES = re.compile(r"^MARKERS\d+$")


@dataclass(frozen=True, slots=True, order=True)
class Marker:
    """A data file that a write was about to make."""

    partition: str
    name: str
    kind: str

    @property
    def path(self) -> str:
        """The data file's, relative to the table."""
        return f"{self.partition}/{self.name}" if self.partition else self.name


def write_markers(
    storage: Storage, config: TableConfig, instant: str, partition: str, names: Sequence[str], kind: MarkerKind
) -> None:
    """Mark files of one partition. A crash leaves some of the markers, for files that are not there yet.

    >>> import tempfile
    >>> from headwater.hudi.properties import check_config
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> config = check_config({"hoodie.table.name": "t", "hoodie.table.version": "9"}, "")
    >>> write_markers(storage, config, "001", "city=sf", ["f_0-0-0_001.parquet"], "CREATE")
    >>> read_markers(storage, "001")
    [Marker(partition='city=sf', name='f_0-0-0_001.parquet', kind='CREATE')]
    """
    folder = f"{FOLDER}/{instant}/{partition}" if partition else f"{FOLDER}/{instant}"

    def write(name: str) -> None:
        # From version 8 on a log file is a commit's own and is deleted with it, as Hudi's markers say too.
        own = config.version >= 8 and kind == "APPEND" and parse_log_file(name) is not None
        storage.replace(f"{folder}/{name}.marker.{'CREATE' if own else kind}", b"")

    if storage.is_local or len(names) < 2:
        for name in names:
            write(name)
        return
    with ThreadPoolExecutor(min(len(names), 16)) as pool:
        list(pool.map(write, names))


def read_markers(storage: Storage, instant: str) -> list[Marker] | None:
    """What a write was about to make; None where it has no folder of markers."""
    folder = f"{FOLDER}/{instant}"
    if storage.find(folder) is None:
        return None
    found: set[Marker] = set()
    for entry in storage.list(folder, recursive=True):
        if entry.is_directory:
            continue
        if _LIST_OF_NAMES.match(entry.name):
            text = storage.read_bytes(entry.path).decode("utf-8", "replace")
            found.update(_parse(text.split("\n")))
        else:
            found.update(_parse([entry.path.removeprefix(f"{folder}/")]))
    return sorted(found)


def _parse(texts: Iterable[str]) -> Iterable[Marker]:
    for text in texts:
        match = _MARKER.match(text.strip())
        if match is not None:
            yield Marker(match["partition"] or "", match["name"], match["kind"])


def delete_markers(storage: Storage, instant: str) -> None:
    """Remove a write's markers. A crash leaves some; the next writer sweeps them.

    >>> import tempfile
    >>> delete_markers(Storage.at(tempfile.mkdtemp()), "001")
    """
    storage.delete_folder(f"{FOLDER}/{instant}")
