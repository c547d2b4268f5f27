"""Tables of `tests/data/written`: what Hudi wrote for one purpose each, with the rows that Hudi reads from them.

`tests/interop/special.py` writes them anew.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from tests.places import DATA

FOLDER = DATA / "written"


def every(prefix: str) -> list[str]:
    """The tables whose names begin so."""
    found = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob(f"{prefix}*.tar.xz"))
    assert found, f"no table {prefix}* in {FOLDER}"
    return found


def unpack(name: str, target: Path) -> Path:
    """The table's folder; what it was bootstrapped from, if it was, lies beside it and the table says so."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(target, filter="data")
    properties = target / name / ".hoodie" / "hoodie.properties"
    text = properties.read_text("utf-8")
    properties.write_text(text.replace("/tmp/hudi-tables", str(target)), "utf-8")
    return target / name


@cache
def expected(name: str) -> Mapping[str, Any]:
    """What Hudi reads: rows by mode, filters with their rows, ranges with their rows."""
    found: Mapping[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows that can be compared: as texts, sorted."""
    return sorted(json.dumps(_plain(row), sort_keys=True, ensure_ascii=False) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return (value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value).isoformat()
    return value.isoformat() if isinstance(value, date) else value
