"""Store a core of the matrix for `make test`: tables that both sides wrote, with the rows that Hudi reads from them.

    python -m tests.interop.write_matrix.store

Of each table one half is made by Headwater and changed by Hudi, the other the other way round. `tests/both` reads them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tarfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.interop.run import ROOT, _bundle, _have_environment
from tests.interop.write_matrix.cells import compare
from tests.interop.write_matrix.known import known_difference, makes_other_keys
from tests.interop.write_matrix.passage import Passage
from tests.interop.write_matrix.reads import reads_of
from tests.interop.write_matrix.sessions import HudiFailed, HudiSession
from tests.interop.write_matrix.specs import VERSIONS_READ, Spec, choose
from tests.interop.write_matrix.story import Story
from tests.places import DATA

TARGET = DATA / "both"
PLACE = Path("/tmp/hudi-tables")
"""Where the tables are made: Hudi writes absolute paths into its plans."""
SEED = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "interop")
    parser.add_argument("--environment", type=Path, default=ROOT / ".venv-peers")
    parser.add_argument("--only", default="", help="tables whose names begin so, as t03,t04; the others stay")
    given = parser.parse_args()
    folder = PLACE / "interop" / "store"
    shutil.rmtree(folder, ignore_errors=True)
    if not given.only:
        shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True, exist_ok=True)
    _have_environment(given.environment)
    chosen = [(number, name, spec) for number, (name, spec) in enumerate(choose(given.tables, SEED))]
    chosen = [one for one in chosen if one[1].startswith(tuple(given.only.split(",")))]
    for release in VERSIONS_READ:
        mine = [one for one in chosen if _release(one[0], one[2]) == release]
        if not mine:
            continue
        with HudiSession(release, _bundle(release, given.folder / "jars"), given.environment, folder) as hudi:
            for number, name, spec in mine:
                for maker in ("headwater", "hudi"):
                    path = folder / release / f"{maker}{number}"
                    _store(hudi, Story(f"{maker}_{name[1:]}", spec, path, number), maker)


def _release(number: int, spec: Spec) -> str:
    """The releases that know the version take turns, but for those that make other keys than we do (see `known`)."""
    able = [r for r, versions in VERSIONS_READ.items() if spec.version in versions and not makes_other_keys(spec, r)]
    return able[(number // 3 + 1) % len(able)]


def _store(hudi: HudiSession, story: Story, maker: str) -> None:
    passage = Passage(hudi, story)
    if maker == "headwater":
        story.begin()
        passage.go_on()
    else:
        passage.begin()
        story.go_on()
    reads = []
    for read in reads_of(story, hudi.release, all_modes=True):
        try:
            found = hudi.read(story.path, read.options, read.where)
        except HudiFailed as error:
            print(f"{story.name}: Hudi {hudi.release} cannot read {read.name}: {error}")
            continue
        problem = compare(story, read, found["rows"], found["types"])
        if problem is not None:
            reason = known_difference(story.spec, hudi.release, "", read, problem)
            print(f"{story.name}: {read.name} {'differs as known' if reason else 'DIFFERS'}: {problem}")
            if reason:
                continue
        told = {"name": read.name, "mode": read.mode, "opts": read.opts, "where": read.where}
        reads.append({**told, "path_values": read.path_values, **found})
    expected: dict[str, Any] = {
        "spec": asdict(story.spec),
        "release": hudi.release,
        "is_made_by_hudi": story.is_made_by_hudi,
        "is_evolved": "added" in story.rows.columns,
        "next_id": story.rows.next_id,
        "clock": story.rows.clock,
        "reads": reads,
    }
    (TARGET / f"{story.name}.json").write_text(json.dumps(expected, ensure_ascii=False, separators=(",", ":")))
    with tarfile.open(TARGET / f"{story.name}.tar.xz", "w:xz") as archive:
        archive.add(story.path, story.name, filter=_plain)
    print(f"{story.name}: {len(reads)} reads by Hudi {hudi.release}", flush=True)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without checksums of Hadoop and whose files these were."""
    if entry.name.endswith(".crc") or "/.locks" in entry.name:
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
