"""Says at the end of a run what long tests counted, and which fixtures it did without."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from tests import counts, places

# No test cuts the power, and disks of machines that test for many take long to write for good.
os.fsync = lambda descriptor: None
# No test is timed: a busy machine is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    for line in counts.lines(reports):
        terminalreporter.write_line(line)
    if places.is_there("hudi") or terminalreporter.config.option.collectonly:
        return
    reports = [*terminalreporter.stats.get("skipped", ()), *terminalreporter.stats.get("failed", ())]
    lost = sum("the fixture set 'hudi' is not at" in str(report.longrepr) for report in reports)
    terminalreporter.section("FIXTURES ARE MISSING", sep="!", red=True, bold=True)
    terminalreporter.write_line(
        f"THE FIXTURE SET `hudi` WAS NOT TESTED: IT IS NOT AT {places.OUTSIDE / 'hudi'}", red=True, bold=True
    )
    terminalreporter.write_line(
        f"{lost} tests need it and had none of it; tests of all tables at once went without it. "
        "To test it, set HEADWATER_FIXTURES to the folder that holds hudi/manifest.json."
    )
