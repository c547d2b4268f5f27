"""A release of Apache Hudi in a process of its own, that reads and writes tables when it is told to."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

SERVICE = Path(__file__).with_name("hudi_service.py")
ANSWER = "@@"


class HudiFailed(Exception):
    """Hudi could not do what it was told to; the text is its innermost cause, the log has all of it."""


class SparkGone(Exception):
    """The process ended by itself."""


class HudiSession:
    """One Spark session with one release; close it, for there should be one at a time."""

    def __init__(self, release: str, jar: Path, environment: Path, scratch: Path) -> None:
        self.release = release
        self.seconds = 0.0
        """What reads and writes took, together."""
        scratch.mkdir(parents=True, exist_ok=True)
        self._errors = open(scratch / f"spark.{release}.log", "w")  # noqa: SIM115  (as long as the process)
        job = json.dumps({"release": release, "jar": str(jar), "scratch": str(scratch / f"spark.{release}")})
        self._process = subprocess.Popen(
            [str(environment / "bin" / "python"), str(SERVICE), job],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answer()

    def read(self, path: Path, options: Mapping[str, str], where: str | None = None) -> dict[str, Any]:
        """Rows and types; `HudiFailed` where Hudi fails."""
        found: dict[str, Any] = self._do({"do": "read", "path": str(path), "options": dict(options), "where": where})
        return found

    def write(self, path: Path, rows: Mapping[str, Any], options: Mapping[str, str], mode: str = "append") -> None:
        self._do({"do": "write", "path": str(path), **rows, "options": dict(options), "mode": mode})

    def sql(self, text: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._do({"do": "sql", "text": text})
        return found

    def _do(self, order: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                given = json.loads(line.removeprefix(ANSWER))
                self.seconds += given.get("seconds", 0.0)
                if "error" in given:
                    self._errors.write(f"{given['whole']}\n\n")
                    raise HudiFailed(given["error"])
                return given["result"]
        raise SparkGone(f"Hudi {self.release} on Spark ended by itself; see {self._errors.name}")

    def __enter__(self) -> HudiSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
