"""Deleting a table with all its files."""

from __future__ import annotations

from headwater.errors import HeadwaterError
from headwater.hudi.properties import BACKUP_FILE, PROPERTIES_FILE
from headwater.hudi.write import lock
from headwater.storage import Storage


def drop_table(storage: Storage) -> bool:
    """Delete a table and its folder; False where there is none.

    No writer is at work meanwhile: the table's lock is taken first. Its properties go first, so that nobody reads half
    of it: a crash leaves a folder that is no table, with the rest of the files in it. Remove that by hand.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> from headwater.hudi.write.create import create_table
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> create_table(storage, name="t", schema=pa.schema([("id", pa.string())]), record_key=["id"])
    >>> drop_table(storage), drop_table(storage)
    (True, False)
    """
    if storage.find(PROPERTIES_FILE) is None and storage.find(BACKUP_FILE) is None:
        return False
    held = lock.acquire(storage)
    try:
        # The backup first: alone it would stand in for the other.
        storage.delete(BACKUP_FILE)
        storage.delete(PROPERTIES_FILE)
    except HeadwaterError:
        held.let_go()
        raise
    held.forget()
    storage.delete_folder("")
    return True
