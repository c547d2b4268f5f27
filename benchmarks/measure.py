"""Measure one job in a process of its own: seconds of each repetition, peak memory, and a checksum of the answer.

`python -m benchmarks.measure '<job as JSON>'` prints one line of JSON. A failure is a result too: its text is in
`error`, and the benchmark goes on.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.systems import Answer, Job, answerer, pin_threads

MARK = "MEASURED "
SHORT, MOST = 1.0, 20
"""What takes a twentieth of a second is repeated until a second has passed: the best of three is still an accident."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one process. The first repetition is cold: nothing of the table is known to the process yet."""

    seconds: tuple[float, ...] = ()
    peak_mb: float | None = None
    imported_mb: float | None = None
    """Memory before the first repetition: the interpreter and the libraries."""
    busy_elsewhere: float | None = None
    """Cores that other processes used on average while this one ran; unknown where there is no /proc."""
    rows: int | None = None
    checksum: float | None = None
    error: str | None = None


def run(job: Job, *, repetitions: int, seconds: float, timeout: float) -> Measured:
    """Measure a job in a new process: at most `repetitions`, none started after `seconds`."""
    before = _clocks()
    order = {"job": asdict(job), "repetitions": repetitions, "seconds": seconds}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.measure", json.dumps(order)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Measured(error=f"no answer within {timeout:.0f} s")
    marked = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not marked:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["nothing printed"]
        return Measured(error=f"exit {done.returncode}: {last[0][:300]}")
    found = json.loads(marked[-1].removeprefix(MARK))
    elsewhere = _busy_elsewhere(before, _clocks())
    return Measured(**{**found, "seconds": tuple(found["seconds"]), "busy_elsewhere": elsewhere})


def _clocks() -> tuple[float, float, float] | None:
    """Now, the seconds that all cores have worked, and those that our children have."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _idle, _wait, irq, softirq = (int(part) for part in file.readline().split()[1:8])
    except (OSError, ValueError):
        return None
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    return time.perf_counter(), worked, ours.ru_utime + ours.ru_stime


def _busy_elsewhere(before: tuple[float, ...] | None, after: tuple[float, ...] | None) -> float | None:
    if before is None or after is None:
        return None
    wall, all_work, our_work = (late - early for early, late in zip(before, after, strict=True))
    return max(0.0, (all_work - our_work) / wall)


def peak_mb() -> float:
    """Peak resident memory of this process.

    Linux keeps it per address space in VmHWM; `ru_maxrss` also counts the parent's memory before exec.
    """
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def _repeat(job: Job, repetitions: int, seconds: float) -> Measured:
    answer = answerer(job)
    imported = peak_mb()
    times: list[float] = []
    rows, checksum = 0, 0.0
    while (len(times) < repetitions and (not times or sum(times) < seconds)) or (
        repetitions > 1 and len(times) < MOST and sum(times) < SHORT
    ):
        started = time.perf_counter()
        rows, checksum, ended = _consume(job, answer())
        times.append(ended - started)
    return Measured(tuple(times), peak_mb(), imported, rows=rows, checksum=checksum)


def _consume(job: Job, answer: Answer) -> tuple[int, float, float]:
    """The rows, the checksum and when the answer was complete. A stream is summed as it comes, by everybody alike."""
    if isinstance(answer, int):
        return answer, float(answer), time.perf_counter()
    if isinstance(answer, pa.Table):
        ended = time.perf_counter()
        return answer.num_rows, _sum(answer.column(job.checksum)), ended
    return _drain(job, answer)


def _drain(job: Job, batches: Iterable[pa.RecordBatch]) -> tuple[int, float, float]:
    rows, checksum = 0, 0.0
    for batch in batches:
        rows += batch.num_rows
        checksum += _sum(batch.column(job.checksum))
    return rows, checksum, time.perf_counter()


def _sum(column: Any) -> float:
    return float(pc.sum(column).as_py() or 0)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def main() -> None:
    order = json.loads(sys.argv[1])
    pin_threads()
    job = Job(**{name: _tuples(value) for name, value in order["job"].items()})
    try:
        measured = _repeat(job, order["repetitions"], order["seconds"])
    except BaseException as error:
        measured = Measured(
            error=f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300] if str(error) else ''}"
        )
    print(MARK + json.dumps(asdict(measured)), flush=True)


if __name__ == "__main__":
    main()
