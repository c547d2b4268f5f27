"""A folder of tables as a catalog sees it: tables by the names of their folders, namespaces in between."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headwater.errors import HeadwaterError
from headwater.hudi.properties import BACKUP_FILE, PROPERTIES_FILE
from headwater.storage import Storage

_HIDDEN = (".", "_")
_AT_ONCE = 8


class NamespaceNotFound(HeadwaterError, FileNotFoundError):
    """A folder that is not there."""


def list_folder(path: str) -> dict[str, Any]:
    """The answer to `list`: which folders in a folder are tables, and which are not."""
    storage = Storage.at(path)
    folders = [entry.name for entry in storage.list("") if entry.is_directory and not entry.name.startswith(_HIDDEN)]
    if not folders:
        here = storage.find("")
        if here is None or not here.is_directory:
            raise NamespaceNotFound(f"{storage.uri}: there is no such folder; a namespace is a folder of the warehouse")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        are_tables = list(pool.map(lambda name: is_table(storage.child(name)), folders))
    return {
        "tables": [name for name, is_one in zip(folders, are_tables, strict=True) if is_one],
        "namespaces": [name for name, is_one in zip(folders, are_tables, strict=True) if not is_one],
    }


def is_table(storage: Storage) -> bool:
    """Whether a folder is the root of a table, as far as one look tells."""
    return any(storage.find(file) is not None for file in (PROPERTIES_FILE, BACKUP_FILE))
