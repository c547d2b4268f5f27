"""Which partitions a table has and which files lie in them, by walking its folders."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from headwater.hudi.file_names import PARTITION_MARKER
from headwater.hudi.properties import META_FOLDER, TableConfig
from headwater.hudi.view import ListedFile
from headwater.storage import FileEntry, Storage

_LISTERS = 8


class Listing(Protocol):
    """Where a table's files are known from."""

    def partitions(self) -> list[str]:
        """Every partition path, sorted; the empty path for a table without partitions."""

    def files(self, partition: str) -> list[ListedFile]:
        """The files of one partition, of every instant, committed or not."""

    def files_of(self, partitions: Sequence[str]) -> dict[str, list[ListedFile]]:
        """The files of several partitions at once."""


class FolderListing:
    """The folders themselves. Each is listed once."""

    def __init__(self, storage: Storage, config: TableConfig) -> None:
        self._storage = storage
        self._config = config
        self._entries: dict[str, list[FileEntry]] = {}
        self._partitions: list[str] | None = None

    def partitions(self) -> list[str]:
        if self._partitions is None:
            self._partitions = self._walk() if self._config.partition_fields else [""]
        return self._partitions

    def files(self, partition: str) -> list[ListedFile]:
        entries = self._entries.get(partition)
        if entries is None:
            entries = self._entries[partition] = self._storage.list(partition)
        return [ListedFile(entry.name, entry.size) for entry in entries if not entry.is_directory]

    def files_of(self, partitions: Sequence[str]) -> dict[str, list[ListedFile]]:
        unknown = [partition for partition in partitions if partition not in self._entries]
        if len(unknown) > 1:
            with ThreadPoolExecutor(_LISTERS) as pool:
                self._entries.update(zip(unknown, pool.map(self._storage.list, unknown), strict=True))
        return {partition: self.files(partition) for partition in partitions}

    def _walk(self) -> list[str]:
        """Folders that carry the partition marker; below one of them there is no other."""
        found: list[str] = []
        level = [""]
        with ThreadPoolExecutor(_LISTERS) as pool:
            while level:
                below: list[str] = []
                for folder, entries in zip(level, pool.map(self._storage.list, level), strict=True):
                    if any(entry.name.startswith(PARTITION_MARKER) for entry in entries):
                        found.append(folder)
                        self._entries[folder] = entries
                        continue
                    below += [e.path for e in entries if e.is_directory and e.path.split("/", 1)[0] != META_FOLDER]
                level = below
        return sorted(found)
