"""Programs with a Spark session of their own, whose settings or surroundings a shared one cannot have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SAW = "SAW "


def run_job(module: str, *arguments: str) -> dict[str, Any]:
    """What a module says that it saw: the JSON behind `SAW` in what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(SAW)]
    assert lines, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(lines[0].removeprefix(SAW))
    return found
