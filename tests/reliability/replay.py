"""Reads one damaged input of the fuzz test again.

python -m tests.reliability.replay SEED
python -m tests.reliability.replay --tables --save damaged.bin SEED
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

from tests.reliability.corpus import scratch
from tests.reliability.fuzz import limit_memory, pick


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--tables", action="store_true", help="the seed is one of the whole-table run")
    parser.add_argument("--save", type=Path, help="write the damaged bytes here")
    parser.add_argument("--limit", action="store_true", help="limit the memory as the test does")
    given = parser.parse_args()
    try:
        item, damaged = pick("tables" if given.tables else "files", given.seed)
        print(f"{item.kind} {item.name}: {damaged.how}, {len(item.data)} → {len(damaged.data)} bytes")
        if given.save is not None:
            given.save.write_bytes(damaged.data)
        if given.limit:
            limit_memory()
        began = time.perf_counter()
        try:
            print(item.read(damaged.data))
        finally:
            print(f"{(time.perf_counter() - began) * 1000:.1f} ms")
    finally:
        shutil.rmtree(scratch(), ignore_errors=True)


if __name__ == "__main__":
    main()
