"""Damages files and reads them, in a process of its own whose memory is limited.

    python -m tests.reliability.fuzz --count 20500            # what CI runs
    python -m tests.reliability.fuzz --seconds 600            # a longer run
    python -m tests.reliability.fuzz --what tables --count 300

Every input is named by one number, which `python -m tests.reliability.replay NUMBER` reads again.

An input passes when reading it raises nothing or a `HeadwaterError`, within its time and memory, and when a byte that
flipped under a checksum gave an error, a report or the same value as before.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# The slowest input takes some hundredths of a second; the rest is room for a busy machine.
MOST_SECONDS = 5.0
MOST_BYTES = 192 << 20
"""How much the process may grow over one input: the largest file has half a megabyte."""
ADDRESS_SPACE = 3 << 30
"""What the process may ask for beyond what it has after loading: an absurd allocation fails at once."""
HANGS_AFTER = 120.0
_PROGRESS = struct.Struct("<qq")


@dataclass(frozen=True)
class Failure:
    """An input that did not pass. Failures of one cause have the same `cause`."""

    seed: int
    item: str
    how: str
    cause: str
    detail: str

    def __str__(self) -> str:
        option = "--tables " if self.cause.startswith("table:") else ""
        again = f"python -m tests.reliability.replay {option}{self.seed}"
        return f"{self.cause}\n  {self.item}, {self.how}\n  {again}\n{self.detail}"


@dataclass
class Outcome:
    """What a run found."""

    mutations: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.mutations} mutations in {self.seconds:.0f} s: {dict(self.results)}", f"{dict(self.kinds)}"]
        return "\n".join([*lines, *map(str, self.failures)])


def run(*, what: str, first_seed: int, count: int, seconds: float = 0.0) -> Outcome:
    """Fuzz in a child process until both the count and the seconds are reached; survive whatever kills the child."""
    outcome = Outcome()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        progress.write_bytes(_PROGRESS.pack(first_seed - 1, 0))
        seed = first_seed
        while len(outcome.failures) < 5:
            left = max(count - outcome.mutations, 0)
            time_left = seconds - (time.monotonic() - began)
            if left == 0 and time_left <= 0:
                break
            died = _child(what, seed, left, max(time_left, 0), folder, outcome)
            if died is None:
                break
            # What it was reading when it died is the failure; go on behind it.
            last, _ = _PROGRESS.unpack(progress.read_bytes())
            outcome.mutations += last - seed + 1
            outcome.failures.append(_describe(what, last, died))
            seed = last + 1
    outcome.seconds = time.monotonic() - began
    return outcome


def _child(what: str, seed: int, count: int, seconds: float, folder: str, outcome: Outcome) -> str | None:
    """Runs the child to its end; says how it died where it did."""
    report = Path(folder) / "report"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.reliability.fuzz", "--child", folder, "--what", what]
    command += ["--seed", str(seed), "--count", str(count), "--seconds", str(seconds)]
    # Rust prints each panic that we catch; what the process says when it dies is kept.
    with open(Path(folder) / "stderr", "wb") as stderr:
        env = {**os.environ, "RUST_BACKTRACE": "0", "POLARS_MAX_THREADS": "1", "MALLOC_ARENA_MAX": "2", "TZ": "UTC"}
        child = subprocess.Popen(command, cwd=ROOT, stderr=stderr, stdin=subprocess.DEVNULL, env=env)
        hung = _watch(child, Path(folder) / "progress")
    tail = (Path(folder) / "stderr").read_bytes()[-3000:].decode("utf-8", "replace")
    for scratch in Path(folder).glob("scratch-*"):
        shutil.rmtree(scratch.read_text(), ignore_errors=True)
        scratch.unlink()
    if hung:
        return f"hangs: no progress in {HANGS_AFTER:.0f} s\n{tail}"
    if child.returncode != 0 or not report.exists():
        name = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit code {child.returncode}"
        return f"dies: {name}\n{tail}"
    found = json.loads(report.read_text())
    outcome.mutations += found["mutations"]
    outcome.kinds.update(found["kinds"])
    outcome.results.update(found["results"])
    outcome.failures += [Failure(**failure) for failure in found["failures"]]
    return None


def _watch(child: subprocess.Popen[bytes], progress: Path) -> bool:
    """Waits for the child; ends it when it has not come to another input for long."""
    seen, since = b"", time.monotonic()
    while True:
        try:
            child.wait(timeout=0.5)
            return False
        except subprocess.TimeoutExpired:
            now = progress.read_bytes()
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > HANGS_AFTER:
                child.send_signal(signal.SIGABRT)  # faulthandler shows where it stood
                child.wait()
                return True


def _describe(what: str, seed: int, died: str) -> Failure:
    head, _, detail = died.partition("\n")
    if seed < 0:
        return Failure(seed, "loading the corpus", "", head, detail)
    item, damaged = pick(what, seed)
    return Failure(seed, f"{item.kind} {item.name}", damaged.how, f"{item.kind}: {head}", detail)


def pick(what: str, seed: int) -> tuple[Any, Any]:
    """The item and the damage that a seed stands for."""
    from tests.reliability.corpus import WEIGHTS, corpus
    from tests.reliability.mutations import flip, mutate
    from tests.reliability.whole_tables import table_files

    rng = random.Random(f"headwater {what} {seed}")
    if what == "tables":
        items = rng.choice(table_files())
    else:
        kinds = list(WEIGHTS)
        items = corpus()[rng.choices(kinds, [WEIGHTS[kind][0] for kind in kinds])[0]]
    item = rng.choice(items)
    regions = _checked(item)
    if regions and rng.random() < 0.2:
        # Where a checksum could tell is a small part of most files: it gets more than its share.
        return item, flip(rng, item.data, rng.randrange(*rng.choice(regions)))
    return item, mutate(rng, item.data, rng.choice(items).data)


@cache
def _checked(item: Any) -> tuple[tuple[int, int], ...]:
    return tuple((start, end) for start, end in item.checked() if start < end)


@cache
def _undamaged(item: Any) -> object:
    return item.read(item.data)


def check(what: str, seed: int) -> tuple[str, str, Failure | None]:
    """Reads the input of a seed; gives its kind, what came of it and why it does not pass, if it does not."""
    from headwater.errors import HeadwaterError

    item, damaged = pick(what, seed)
    name = f"{item.kind} {item.name}"
    under_checksum = damaged.flipped is not None and any(a <= damaged.flipped < b for a, b in _checked(item))
    before = _undamaged(item) if under_checksum else None

    def failed(cause: str, detail: str = "") -> Failure:
        return Failure(seed, name, damaged.how, f"{item.kind}: {cause}", detail)

    failure: Failure | None = None
    peak, began = _peak(), time.process_time()
    try:
        after = item.read(damaged.data)
        result = "read"
        if under_checksum:
            result = "read, flip under a checksum"
            if not same_or_reported(item.kind, before, after):
                failure = failed("a flip under a checksum gives other values, and no error")
    except HeadwaterError as error:
        result = type(error).__name__
        if _ran_out_of_memory(error) and (taken := _memory_taken(item, damaged.data)) > MOST_BYTES:
            failure = failed("takes memory", f"{taken >> 20} MiB\n{traceback.format_exc(limit=-8)}")
        elif (wrong := _wrong_message(item, str(error))) is not None:
            failure = failed(f"{wrong}: raised at {_where(error)}", f"{type(error).__name__}: {str(error)[:1000]}")
    except BaseException as error:
        result = "failed"
        failure = failed(f"{type(error).__name__} at {_where(error)}", traceback.format_exc(limit=-8))
    took = time.process_time() - began
    grew = _peak() - peak
    if failure is None and took > MOST_SECONDS:
        failure = failed("slow", f"took {took:.1f} s of CPU")
    if failure is None and grew > MOST_BYTES:
        failure = failed("takes memory", f"grew by {grew >> 20} MiB over {len(damaged.data)} bytes")
    return item.kind, result, failure


def same_or_reported(kind: str, before: Any, after: Any) -> bool:
    """Whether a read gives what it gave before the damage, or says that it does not."""
    if before == after:
        return True
    if kind == "log":
        # (a part was reported as corrupt, what the rest holds)
        return bool(after[0])
    if kind == "parquet":
        # (statistics and footer, rows): the CRC of a page covers the rows
        return bool(before[1] == after[1])
    if kind == "table":
        same = (before[mode] == after.get(mode, "error") for mode in before if mode != "verify")
        told = (after.get(mode, "error").startswith(("error", "reported")) for mode in before if mode != "verify")
        return all(one or other for one, other in zip(same, told, strict=True))
    return False


def _wrong_message(item: Any, message: str) -> str | None:
    """Says what, where and what to do, and is short enough to be read."""
    from tests.reliability.tables import TO_DO

    if item.where not in message and not message.startswith("table "):
        return f"a message that does not name {'the file' if '/' in item.where else item.where}"
    if item.kind != "filter" and not TO_DO.search(message):
        return "a message without a thing to do"
    return "a message that is too long" if len(message) > 2_000 else None


def _ran_out_of_memory(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _peak() -> int:
    """The most bytes that the process ever had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _memory_taken(item: Any, data: bytes) -> int:
    """How much memory a read takes when it may have all of it.

    Arrow makes room for a Parquet dictionary of as many values as its page says, then finds that the bytes end before:
    address space that is never written to is no memory.
    """
    from headwater.errors import HeadwaterError

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = _peak()
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        item.read(data)
    except HeadwaterError:
        pass
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return _peak() - before


def _where(error: BaseException) -> str:
    """The innermost line of ours that the error went through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/headwater/" in f.filename]
    if not frames:
        return "?"
    return f"{frames[-1].filename.split('/headwater/')[-1]}:{frames[-1].lineno}"


def _seeds(first: int, count: int, seconds: float) -> Iterator[int]:
    began = time.monotonic()
    seed = first
    while seed - first < count or time.monotonic() - began < seconds:
        yield seed
        seed += 1


def _fuzz_here(what: str, first_seed: int, count: int, seconds: float, folder: Path) -> None:
    """The child: one input after the other; at the end the report."""
    import faulthandler

    faulthandler.enable()
    from tests.reliability.corpus import scratch

    (folder / f"scratch-{os.getpid()}").write_text(str(scratch()))
    pick(what, first_seed)
    limit_memory()
    kinds: Counter[str] = Counter()
    results: Counter[str] = Counter()
    failures: dict[str, Failure] = {}
    with open(folder / "progress", "r+b") as file, mmap.mmap(file.fileno(), _PROGRESS.size) as progress:
        for done, seed in enumerate(_seeds(first_seed, count, seconds), start=1):
            _PROGRESS.pack_into(progress, 0, seed, done)
            if done % (500 if what == "files" else 10) == 0:
                # Allocators keep address space (not memory) of threads that ended and of what they could not get.
                limit_memory()
            if str(seed) == os.environ.get("HEADWATER_FUZZ_DIE_AT"):
                os.abort()
            kind, result, failure = check(what, seed)
            kinds[kind] += 1
            results[result] += 1
            if failure is not None:
                failures.setdefault(failure.cause, failure)
    found = {
        "mutations": sum(kinds.values()),
        "kinds": kinds,
        "results": results,
        "failures": [asdict(failure) for failure in failures.values()],
    }
    shutil.rmtree(scratch(), ignore_errors=True)
    (folder / "report").write_text(json.dumps(found))


def limit_memory() -> None:
    """From here on an absurd allocation is a MemoryError (or ends the process, where a library does not expect it)."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + ADDRESS_SPACE
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=("files", "tables"), default="files")
    parser.add_argument("--seed", type=int, default=0, help="the first input's number")
    parser.add_argument("--count", type=int, default=0, help="at least so many inputs")
    parser.add_argument("--seconds", type=float, default=0.0, help="at least so long")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        _fuzz_here(given.what, given.seed, given.count, given.seconds, given.child)
        return
    outcome = run(what=given.what, first_seed=given.seed, count=given.count, seconds=given.seconds)
    print(outcome)
    sys.exit(1 if outcome.failures else 0)


if __name__ == "__main__":
    main()
