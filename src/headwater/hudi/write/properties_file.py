"""Writing `hoodie.properties`: Java's text format, the checksum, changes to a table's properties (facts 1.2)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import datetime, timezone

from headwater.hudi.properties import BACKUP_FILE, PROPERTIES_FILE, check_config, load_config
from headwater.storage import Storage

_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def render_java_properties(values: Mapping[str, str], title: str, *, now: datetime | None = None) -> bytes:
    r"""Java's properties text as Hudi stores it: two comment lines, then a line for each key.

    >>> when = datetime(2026, 1, 2, tzinfo=timezone.utc)
    >>> print(render_java_properties({"a": "x:y"}, "partition metadata", now=when).decode())
    #partition metadata
    #Fri Jan 02 00:00:00 UTC 2026
    a=x\:y
    <BLANKLINE>
    """
    when = now or datetime.now(timezone.utc)
    lines = [f"#{title}", f"#{when:%a %b %d %H:%M:%S} UTC {when:%Y}"]
    lines += [f"{_escape(key, key=True)}={_escape(value, key=False)}" for key, value in values.items()]
    return ("\n".join(lines) + "\n").encode("ascii")


def _escape(text: str, *, key: bool) -> str:
    parts: list[str] = []
    for place, letter in enumerate(text):
        if letter in "\\=:#!":
            parts.append("\\" + letter)
        elif letter == " " and (key or place == 0):
            parts.append("\\ ")
        elif letter in _NAMED:
            parts.append(_NAMED[letter])
        elif " " <= letter <= "~":
            parts.append(letter)
        else:
            # Java's letters are 16 bits wide: those beyond are written as two.
            units = letter.encode("utf-16-be", "surrogatepass")
            parts += [f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2)]
    return "".join(parts)


def checksum(database: str, name: str) -> str:
    """The table's checksum: of its names only.

    >>> checksum("default", "v9_txns_cow_complex_meta")
    '2097361480'
    """
    return str(zlib.crc32(f"{database}.{name}".encode()))


def render_table_properties(values: Mapping[str, str]) -> bytes:
    """The bytes of `hoodie.properties`, with the checksum that belongs to the names.

    >>> text = render_table_properties({"hoodie.table.name": "t"}).decode()
    >>> "hoodie.table.checksum=498511606" in text or text
    True
    """
    due = checksum(values.get("hoodie.database.name", ""), values["hoodie.table.name"])
    now = datetime.now(timezone.utc)
    title = f"Properties saved on {now:%Y-%m-%dT%H:%M:%S.%f}Z"
    return render_java_properties({**values, "hoodie.table.checksum": due}, title, now=now)


def update_table_properties(storage: Storage, changes: Mapping[str, str | None]) -> None:
    """Change some of a table's properties; None removes one. The caller holds the table's lock.

    A crash leaves the old properties or the new ones: the old ones are kept in `hoodie.properties.backup`, where
    readers look when the file itself is missing or broken. A left-over backup does no harm and goes with the next
    change.

    >>> import tempfile
    >>> from headwater.hudi.properties import load_config
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> values = {"hoodie.table.name": "t", "hoodie.table.version": "9", "hoodie.timeline.layout.version": "2"}
    >>> storage.create(PROPERTIES_FILE, render_table_properties(values))
    >>> update_table_properties(storage, {"hoodie.table.metadata.partitions": "files"})
    >>> load_config(storage).metadata_partitions
    ('files',)
    """
    values = dict(load_config(storage).properties)
    old = render_table_properties(values)
    for key, value in changes.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    check_config(values, storage.describe(PROPERTIES_FILE))
    storage.replace(BACKUP_FILE, old)
    storage.replace(PROPERTIES_FILE, render_table_properties(values))
    storage.delete(BACKUP_FILE)
