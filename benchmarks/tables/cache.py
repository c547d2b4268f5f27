"""Tables are made once: a stamp beside each says with which parameters, and a change of them makes it anew."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Parameters = Mapping[str, Any]


def stamp_of(table: Path) -> Path:
    """Where a table's stamp lies: beside it, so that no reader of the table meets it."""
    return table.with_name(table.name + ".stamp.json")


def is_fresh(table: Path, parameters: Parameters) -> bool:
    """Whether the table was finished with exactly these parameters."""
    stamp = stamp_of(table)
    return table.exists() and stamp.exists() and json.loads(stamp.read_text()) == dict(parameters)


def seal(table: Path, parameters: Parameters) -> None:
    """Declare a table finished. A crash before this leaves a table that the next run makes again."""
    stamp_of(table).write_text(json.dumps(dict(parameters), indent=1, sort_keys=True) + "\n")


def clear(table: Path) -> None:
    """Remove a table and its stamp, the stamp first."""
    stamp_of(table).unlink(missing_ok=True)
    if table.exists():
        shutil.rmtree(table)


def make(table: Path, parameters: Parameters, build: Callable[[Path], None]) -> bool:
    """Build the table unless it is there already; whether it had to be built."""
    if is_fresh(table, parameters):
        return False
    clear(table)
    table.mkdir(parents=True)
    build(table)
    seal(table, parameters)
    return True
