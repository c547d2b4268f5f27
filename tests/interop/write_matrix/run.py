"""`make interop-write`: Headwater writes tables, Apache Hudi and hudi-rs read them, Hudi goes on, then Headwater again.

    python -m tests.interop.write_matrix.run --tables 24 --releases 1.2.0,0.15.0

Every release has one Spark session, takes a copy of each table of a version that it knows, and reads it in every mode;
upserts, compacts, deletes and cleans; reads it once more after Headwater wrote again; and upserts once more. After each
step the rows must be those of a plain model, of Headwater's reading and of Hudi's. The exit status is 1 where a cell
differs. Tables stay in `build/interop/write` until the next run.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.interop.run import ROOT, _bundle, _have_environment
from tests.interop.write_matrix.cells import Cell
from tests.interop.write_matrix.passage import BY_US, Passage, checked_here, read_by_rust
from tests.interop.write_matrix.reads import reads_of
from tests.interop.write_matrix.report import print_matrix
from tests.interop.write_matrix.rows import Row, Rows
from tests.interop.write_matrix.rust import NAME as RUST
from tests.interop.write_matrix.sessions import HudiSession, SparkGone
from tests.interop.write_matrix.specs import VERSIONS_READ, choose, covered
from tests.interop.write_matrix.story import Story


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--releases", default=",".join(VERSIONS_READ))
    parser.add_argument("--only", default="", help="tables whose names begin so, separated by commas")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "interop")
    parser.add_argument("--environment", type=Path, default=ROOT / ".venv-peers")
    parser.add_argument("-v", "--verbose", action="store_true", help="known differences too, in full")
    given = parser.parse_args()
    folder = given.folder / "write"
    shutil.rmtree(folder, ignore_errors=True)
    chosen = choose(given.tables, given.seed)
    pairs = covered([spec for _, spec in chosen])
    names = tuple(given.only.split(","))
    stories = [
        Story(name, spec, folder / "tables" / name, given.seed * 1000 + number)
        for number, (name, spec) in enumerate(chosen)
        if name.startswith(names)
    ]
    cells = list(_written(stories))
    _have_environment(given.environment)
    for release in given.releases.split(","):
        started = time.perf_counter()
        jar = _bundle(release, given.folder / "jars")
        with HudiSession(release, jar, given.environment, folder / "scratch") as hudi:
            for number, story in enumerate(stories):
                for passage in _passages(hudi, story, number, folder / release):
                    found = list(_to_the_end(passage, story.name, release))
                    print(f"Hudi {release} {story.name}: {_summary(found)}", flush=True)
                    cells += found
        print(f"Hudi {release}: {time.perf_counter() - started:.0f} s", flush=True)
    print_matrix(cells, pairs, given.verbose)
    sys.exit(any(cell.state == "failed" for cell in cells))


def _written(stories: list[Story]) -> Iterator[Cell]:
    """Write all tables here, those that go through Spark with one session of our own."""
    through_spark = [story for story in stories if story.spec.writer == "spark"]
    if through_spark:
        session = _our_spark()
        for story in through_spark:
            story.frame = lambda rows, given: _frame(session, rows, given)
            story.begin()
            story.frame = None
        session.stop()
    for story in stories:
        if story.spec.writer != "spark":
            story.begin()
        yield from checked_here(story, BY_US)
        yield from read_by_rust(story, BY_US, reads_of(story, RUST, all_modes=True))


def _passages(hudi: HudiSession, story: Story, number: int, folder: Path) -> Iterator[Iterator[Cell]]:
    """A release goes on with our table, and, of every fourth, makes one like it for us to go on with."""
    if story.spec.version not in VERSIONS_READ[hudi.release]:
        return
    yield Passage(hudi, story.copied(folder / story.name)).run()
    if number % 4 == 0:
        name = f"h{story.name[1:]}"
        yield Passage(hudi, Story(name, story.spec, folder / name, number)).run_from_nothing()


def _to_the_end(passage: Iterator[Cell], table: str, release: str) -> Iterator[Cell]:
    """The cells of a passage; where it stops for an error of ours, that is a cell, too."""
    try:
        yield from passage
    except SparkGone:
        raise
    except Exception as error:
        yield Cell(table, release, "", "stopped", "failed", f"{type(error).__name__}: {error}")


def _our_spark() -> Any:
    from tests.spark.session import spark

    from headwater.spark.write.deciding import DRIVER_LIMIT

    session = spark()
    session.conf.set(DRIVER_LIMIT, "0")  # no frame is small enough for the driver: executors write it
    return session


def _frame(session: Any, rows: Rows, given: list[Row]) -> Any:
    return session.createDataFrame(rows.arrow(given))


def _summary(cells: list[Cell]) -> str:
    failed = [cell for cell in cells if cell.state == "failed"]
    lines = [f"{sum(cell.state == 'passed' for cell in cells)} passed, {len(failed)} failed"]
    lines += [f"  {cell.stage}, {cell.read} ({cell.reader}): {cell.message[:300]}" for cell in failed]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
