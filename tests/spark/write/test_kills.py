"""`kill -9` in mid-write, at random moments: of the driver, of its JVM, of Python workers, of the sidecar.

HEADWATER_KILLS=20 kills twenty times as often.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.counts import Record, count
from tests.reliability.kill_steps import found, make, state
from tests.reliability.kills import KILLS, Victim, check, children
from tests.spark.write.killed_driver import make_source

PROGRAM = "tests.spark.write.killed_driver"
HELPERS = {"worker": b"pyspark.daemon", "sidecar": b"headwater.spark.sidecar"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    make(tmp_path / "t", "mor", 9)
    make_source(tmp_path / "source")
    return tmp_path / "t"


@pytest.fixture
def driver(table: Path) -> Iterator[Victim]:
    victim = started(table, 1)
    yield victim
    victim.bury()


def started(table: Path, step: int) -> Victim:
    victim = Victim(PROGRAM, table, table.parent / "source", step)
    victim.wait_for("begin")
    return victim


@pytest.mark.parametrize("who", ["driver", "jvm"] if KILLS == 1 else ["driver", "jvm", "both"])
def test_a_killed_driver_leaves_the_state_before_or_after(who: str, table: Path, record_property: Record) -> None:
    dice = random.Random(f"{who}{KILLS}")
    at, killed, wrong = 0, 0, 1
    try:
        for _ in range(KILLS):
            victim = started(table, at + 1)
            try:
                # The first step is slow, the others are not: both are killed in.
                if dice.random() < 0.7:
                    victim.wait_for("done")
                time.sleep(dice.random() * 2)
                (jvm,) = victim.steps("jvm")
                if who == "jvm":
                    os.kill(jvm, signal.SIGKILL)
                    victim.wait_for("failed")
                else:
                    victim.kill([jvm] if who == "both" else [])
                # Where the driver alone was killed, its tasks may go on for a while: the next writer comes meanwhile.
                done = max(victim.steps("done"), default=at)
                killed += 1
                at = check(table, done)
            finally:
                victim.bury()
        wrong = 0
    finally:
        count(record_property, "kill -9 of the Spark driver", killed, wrong=wrong)


def test_killed_workers_and_sidecars_cost_no_row(table: Path, driver: Victim, record_property: Record) -> None:
    dice = random.Random(f"helpers {KILLS}")
    killed, wrong = dict.fromkeys(HELPERS, 0), 1
    try:
        (jvm,) = driver.steps("jvm")
        driver.wait_for("done")
        while min(killed.values()) < 2 * KILLS:
            assert driver.process.poll() is None, driver.told()
            time.sleep(dice.random() * 1.5)
            who = min(killed, key=killed.__getitem__)
            running = children(jvm, HELPERS[who])
            if who == "worker":
                # The first of them is the daemon, from which the workers are forked.
                running = [process for process in running if _parent(process) in running]
            if running:
                os.kill(dice.choice(running), signal.SIGKILL)
                killed[who] += 1
        (table.parent / "stop").touch()
        driver.process.wait(180)
        driver.bury()
        done = max(driver.steps("done"))
        assert found(table) == found(table, metadata=False) == state(done)
        check(table, done, began=False)
        wrong = 0
    finally:
        for who, number in killed.items():
            count(record_property, f"kill -9 of a {who} in mid-write", number, wrong=wrong)


def _parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0
