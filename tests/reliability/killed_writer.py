"""A program that takes one step after the other until it is killed.

Run as `python -m tests.reliability.killed_writer PATH STEP`.
Says `begin N` and `done N` for each, so that whoever kills it knows where it was.
"""

from __future__ import annotations

import sys

from tests.reliability.kill_steps import take

import headwater


def main(path: str, step: int) -> None:
    table = headwater.open(path)
    while True:
        print("begin", step, flush=True)
        take(table, step)
        print("done", step, flush=True)
        step += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
