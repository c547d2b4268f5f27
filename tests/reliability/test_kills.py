"""`kill -9` of a writer without Spark, at random moments; HEADWATER_KILLS=20 kills twenty times as often."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from tests.counts import Record, count
from tests.reliability.kill_steps import make
from tests.reliability.kills import KILLS, Victim, check


@pytest.mark.parametrize(("kind", "version"), [("cow", 6), ("mor", 6), ("mor", 9)])
def test_a_killed_writer_leaves_the_state_before_or_after_and_the_next_one_goes_on(
    kind: str, version: int, tmp_path: Path, record_property: Record
) -> None:
    make(tmp_path / "t", kind, version)
    dice = random.Random(f"{kind}{version}{KILLS}")
    at = killed = 0
    wrong = 1
    try:
        for _ in range(3 * KILLS):
            victim = Victim("tests.reliability.killed_writer", tmp_path / "t", at + 1)
            try:
                victim.wait_for("begin")
                time.sleep(dice.random() * 0.8)
                victim.kill()
            finally:
                victim.bury()
            killed += 1
            at = check(tmp_path / "t", max(victim.steps("done"), default=at))
        wrong = 0
    finally:
        count(record_property, "kill -9 of a writer", killed, wrong=wrong)
