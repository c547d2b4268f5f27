"""Where the fixtures are: tables and raw files by set and name.

`generated` and `bridge` ship with the project, in `tests/data`. `hudi` may not be copied: it is looked for in
`HEADWATER_FIXTURES`, or in `../shared/fixtures` beside the repository. Where it is not, tests that need it are skipped,
and the run says so at its end; on CI and where `HEADWATER_FIXTURES` is set, they fail instead.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = REPOSITORY / "tests" / "data"
OUTSIDE = Path(os.environ.get("HEADWATER_FIXTURES") or REPOSITORY.parent / "shared" / "fixtures").resolve()
REQUIRED = bool(os.environ.get("HEADWATER_FIXTURES")) or os.environ.get("CI") == "true"
"""Whether a set that is missing is a failure."""


def is_there(set_: str) -> bool:
    """Whether a set can be read."""
    return (_place(set_) / "manifest.json").is_file()


def missing(set_: str) -> NoReturn:
    """Skip the test that needs a set which is not there, or fail it."""
    told = (
        f"the fixture set {set_!r} is not at {_place(set_)}: "
        f"set HEADWATER_FIXTURES to the folder that holds {set_}/manifest.json"
    )
    if REQUIRED or set_ != "hudi":
        pytest.fail(told)
    pytest.skip(told)


def folder(set_: str) -> Path:
    """The folder of a set, which is there."""
    return _place(set_) if is_there(set_) else missing(set_)


@cache
def manifest(set_: str) -> Mapping[str, Any]:
    """What a set says of its tables."""
    found: Mapping[str, Any] = json.loads((folder(set_) / "manifest.json").read_text("utf-8"))
    return found


def every(set_: str) -> list[str]:
    """The zips of a set as `set/name`. None for a set that may be missing and is."""
    if not is_there(set_) and not REQUIRED and set_ == "hudi":
        return []
    return [f"{set_}/{path.stem}" for path in sorted((folder(set_) / "tables").glob("*.zip"))]


def archive(table: str) -> Path:
    """The zip of a table, named `set/name`; in `bridge` that of a stage."""
    set_, name = table.split("/")
    path = folder(set_) / "tables" / f"{name}.zip"
    if not path.is_file():
        pytest.fail(f"no fixture table {table}: there is no {path}")
    return path


def files(table: str, wanted: Callable[[str], object] = bool) -> dict[str, bytes]:
    """Path below the table's folder → content, sorted; only those whose path is wanted."""
    # The stages of the bridge are packed without the folder of their table.
    above = 0 if table.startswith("bridge/") else 1
    with zipfile.ZipFile(archive(table)) as packed:
        members = [name for name in packed.namelist() if not name.startswith("__MACOSX") and not name.endswith("/")]
        paths = {name.split("/", above)[above] if above else name: name for name in sorted(members)}
        return {path: packed.read(name) for path, name in paths.items() if wanted(path)}


def raw(path: str) -> bytes:
    """A file of the `hudi` set that belongs to no table."""
    return (folder("hudi") / "raw" / path).read_bytes()


def unpack(table: str, target: Path) -> Path:
    """A copy of a table below a folder. Version 6 takes completion times from modification times, in UTC in a zip."""
    with zipfile.ZipFile(archive(table)) as packed:
        members = [info for info in packed.infolist() if not info.filename.startswith("__MACOSX")]
        packed.extractall(target, [info.filename for info in members])
    for info in members:
        written = datetime(*info.date_time, tzinfo=timezone.utc).timestamp()
        os.utime(target / info.filename, (written, written))
    (root,) = {info.filename.split("/", 1)[0] for info in members}
    return target / root


def _place(set_: str) -> Path:
    return (OUTSIDE if set_ == "hudi" else DATA) / set_
