"""Where the fixture tables are, and copies of them that a test may damage."""

from __future__ import annotations

import os
import re
import zipfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "tests" / "data"
FIXTURES = Path(os.environ.get("HEADWATER_FIXTURES", ROOT.parent / "shared" / "fixtures")).resolve()
# Every message of an error says what to do; these are the words for it.
TO_DO = re.compile(
    r"\b(restore|give|set|correct|upgrade|downgrade|rebuild|rebuilt|rewrite|compact|register|name each|start at|refresh"
    r"|the table has|the columns are|known|history begins|no commits|earliest instant|expected|closing quote|check"
    r"|try again)\b",
    re.IGNORECASE,
)


def archive_of(table: str) -> Path:
    """The zip of a generated table or a stage of the bridge: the repository's own copy, else the one beside it."""
    for folder in (SHIPPED, FIXTURES):
        for kind in ("generated", "bridge"):
            path = folder / kind / "tables" / f"{table}.zip"
            if path.exists():
                return path
    pytest.fail(f"no fixture table {table} under {SHIPPED} or {FIXTURES}; set HEADWATER_FIXTURES to their folder")


@cache
def files_of(table: str) -> dict[str, bytes]:
    """Path below the table's folder → content, sorted."""
    with zipfile.ZipFile(archive_of(table)) as archive:
        names = sorted(name for name in archive.namelist() if not name.endswith("/"))
        return {name.removeprefix(f"{table}/"): archive.read(name) for name in names}


def unpack(table: str, folder: Path) -> Path:
    """A copy of a table in a folder."""
    target = folder / table
    for name, data in files_of(table).items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return target
