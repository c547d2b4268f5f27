"""The files of fixture tables that ship with the project, and copies of them that a test may damage."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests import places

# Every message of an error says what to do; these are the words for it.
TO_DO = re.compile(
    r"\b(restore|give|set|correct|upgrade|downgrade|rebuild|rebuilt|rewrite|compact|register|name each|start at|refresh"
    r"|the table has|the columns are|known|history begins|no commits|earliest instant|expected|closing quote|check"
    r"|try again)\b",
    re.IGNORECASE,
)


@cache
def files_of(table: str) -> dict[str, bytes]:
    """Path below the folder of a generated table or of a stage of the bridge → content, sorted."""
    # A stage's name tells the upgrade or downgrade that made it.
    return places.files(f"bridge/{table}" if "__" in table else f"generated/{table}")


def unpack(table: str, folder: Path) -> Path:
    """A copy of a table in a folder."""
    target = folder / table
    for name, data in files_of(table).items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return target
