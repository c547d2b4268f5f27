"""`make interop`: make random tables with Apache Hudi, read them with Hudi and with Headwater, count what agrees.

    python -m tests.interop.run --seeds 0-7 --releases 1.2.0,0.15.0

Each release writes its stories in a JVM of its own; the newest release reads all tables too, and its answer counts.
Tables, reads and Spark's log stay in `build/interop` until the next run. The exit status is 1 when a read differs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.tables.real import BUNDLE, PYSPARK
from tests.interop.compare import PYTHON, WAYS, Outcome, compare_table
from tests.interop.stories import VERSIONS, make_story

ROOT = Path(__file__).parents[2]
NEWEST = "1.2.0"
JOB = Path(__file__).with_name("hudi_job.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-5", help="for each release, as 0-5 or 1,7,9")
    parser.add_argument("--releases", default=",".join(VERSIONS))
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "interop")
    parser.add_argument("--environment", type=Path, default=ROOT / ".venv-peers")
    parser.add_argument("--compare-only", action="store_true", help="the tables of the last run, read again by us")
    parser.add_argument("--ways", default=PYTHON, help=f"how we read: {', '.join(WAYS)}, or some of them")
    parser.add_argument("-v", "--verbose", action="store_true", help="known differences and Hudi's own failures too")
    given = parser.parse_args()
    folder: Path = given.folder
    tables = folder / "tables"
    if not given.compare_only:
        stories = [make_story(r, seed) for r in given.releases.split(",") for seed in _seeds(given.seeds)]
        shutil.rmtree(tables, ignore_errors=True)
        tables.mkdir(parents=True)
        _have_environment(given.environment)
        for release in sorted({*given.releases.split(","), NEWEST}, key=lambda r: (r == NEWEST, r)):
            mine = [s for s in stories if release in (s["release"], NEWEST)]
            _run_hudi(release, mine, tables, _bundle(release, folder / "jars"), given.environment)
    outcomes = [
        outcome
        for table in _tables(tables)
        for outcome in compare_table(tables, table, _readers(tables, table), given.ways.split(","))
    ]
    _report(outcomes, given.verbose)
    sys.exit(any(outcome.state == "failed" for outcome in outcomes))


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _have_environment(environment: Path) -> None:
    """An environment with pyspark, shared with the benchmark."""
    if not (environment / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        pip = [str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, PYSPARK, "setuptools<81"], check=True)
        (environment / ".installed").touch()


def _bundle(release: str, jars: Path) -> Path:
    jar = jars / f"{BUNDLE}-{release}.jar"
    if not jar.exists():
        fetch = ["mvn", "--quiet", "--batch-mode", "dependency:copy", f"-DoutputDirectory={jars}"]
        subprocess.run([*fetch, f"-Dartifact=org.apache.hudi:{BUNDLE}:{release}"], check=True)
    return jar


def _run_hudi(release: str, stories: list[dict[str, Any]], tables: Path, jar: Path, environment: Path) -> None:
    """Run the Spark job, again after a crash of the JVM: without the table that it died of."""
    log = tables / f"spark.{release}.log"
    while stories:
        job = tables / f"job.{release}.json"
        order = {"release": release, "jar": str(jar), "folder": str(tables), "scratch": str(tables / "scratch")}
        job.write_text(json.dumps({**order, "stories": stories}))
        left = {story["table"]: story for story in stories}
        command = [str(environment / "bin" / "python"), str(JOB), str(job)]
        with (
            open(log, "a") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as run,
        ):
            assert run.stdout is not None
            for line in run.stdout:
                if line.startswith('{"begun"'):
                    left.pop(json.loads(line)["begun"])
                elif line.startswith("{"):
                    print(f"Hudi {release}: {line}", end="", flush=True)
        if run.returncode and len(left) == len(stories):
            raise RuntimeError(f"Spark did not start; see {log}")
        stories = list(left.values()) if run.returncode else []
    shutil.rmtree(tables / "scratch", ignore_errors=True)


def _tables(tables: Path) -> list[str]:
    return sorted({path.name.split(".reads.")[0] for path in tables.glob("*.reads.*.json")})


def _readers(tables: Path, table: str) -> list[str]:
    found = [path.name.split(".reads.")[1].removesuffix(".json") for path in tables.glob(f"{table}.reads.*.json")]
    return sorted(found, reverse=True)


def _report(outcomes: Sequence[Outcome], verbose: bool) -> None:
    for outcome in outcomes:
        if outcome.state == "failed" or (verbose and outcome.state != "passed"):
            print(f"{outcome.state.upper()} {outcome.table} {outcome.read}: {outcome.message}")
    counts = Counter(outcome.state for outcome in outcomes)
    tables = len({outcome.table for outcome in outcomes})
    print(
        f"{tables} tables; {counts['known']} reads differ for a known reason, {counts['skipped']} fail in Hudi itself"
    )
    print(f"{counts['passed']} passed, {counts['failed']} failed")


if __name__ == "__main__":
    main()
