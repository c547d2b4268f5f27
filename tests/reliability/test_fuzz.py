"""Damaged files of every format: only errors of ours, in bounded time and memory, and no silent lie under a checksum.

CI damages at least 20,000 files. `HEADWATER_FUZZ_SECONDS=600` (or `make fuzz`) goes on for so long with inputs that
nobody has seen: their first number is the time. A failure names the number of its input; to read it again:

    python -m tests.reliability.replay NUMBER
"""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest
from tests.reliability import fuzz
from tests.reliability.corpus import WEIGHTS, Item, corpus
from tests.reliability.mutations import _MUTATIONS
from tests.reliability.whole_tables import read_in_every_mode, table_files

from headwater.hudi.log import BlockType, scan_buffer

MUTATIONS = 20_500
TABLE_MUTATIONS = 250
SECONDS = float(os.environ.get("HEADWATER_FUZZ_SECONDS", "0"))

pytestmark = pytest.mark.fuzz


def first_seed() -> int:
    return int(time.time()) * 10_000 if SECONDS else 0


def test_damaged_files_raise_errors_of_ours_alone() -> None:
    outcome = fuzz.run(what="files", first_seed=first_seed(), count=MUTATIONS, seconds=SECONDS)
    print(outcome)
    assert not outcome.failures, str(outcome)
    assert outcome.mutations >= MUTATIONS
    kinds = {item.kind for items in corpus().values() for item in items}
    assert set(outcome.kinds) == kinds
    # An input that nobody refuses tests nothing, nor does a reader that refuses all.
    assert outcome.results["CorruptFile"] > MUTATIONS / 10
    assert outcome.results["read"] > MUTATIONS / 10
    assert outcome.results["read, flip under a checksum"] > 0


def test_damaged_tables_raise_errors_of_ours_alone_in_every_mode() -> None:
    outcome = fuzz.run(what="tables", first_seed=first_seed(), count=TABLE_MUTATIONS, seconds=SECONDS / 2)
    print(outcome)
    assert not outcome.failures, str(outcome)
    assert outcome.mutations >= TABLE_MUTATIONS


def items(kind: str) -> tuple[Item, ...]:
    return corpus()[kind]


@pytest.mark.parametrize("kind", WEIGHTS)
def test_undamaged_files_are_read_without_error(kind: str) -> None:
    for item in items(kind):
        assert item.read(item.data) == item.read(item.data), item.name


def test_corpus_holds_every_block_type() -> None:
    seen = Counter(block.type for item in items("log") for block in scan_buffer(item.data, item.name))
    assert set(seen) == set(BlockType)


def test_corpus_holds_every_action_in_either_encoding() -> None:
    suffixes = {item.name.rsplit("/", 1)[-1].split(".", 1)[1] for item in items("instant")}
    actions = {suffix.split(".")[0] for suffix in suffixes}
    assert actions >= {
        "commit",
        "deltacommit",
        "replacecommit",
        "clean",
        "rollback",
        "savepoint",
        "restore",
        "compaction",
    }
    assert {suffix.rpartition(".")[2] for suffix in suffixes} >= {"requested", "inflight"}
    encodings = {item.data[:4] == b"Obj\x01" for item in items("instant")}
    assert encodings == {True, False}


def test_an_input_is_the_same_whenever_its_number_is_given() -> None:
    once = [fuzz.pick("files", seed) for seed in range(200)]
    again = [fuzz.pick("files", seed) for seed in range(200)]
    assert [(item.name, damaged) for item, damaged in once] == [(item.name, damaged) for item, damaged in again]


def test_every_kind_of_damage_is_done() -> None:
    seen = Counter(fuzz.pick("files", seed)[1].how.split(" at ")[0] for seed in range(2_000))
    assert set(seen) == set(_MUTATIONS)


def test_undamaged_tables_are_read_in_every_mode() -> None:
    for files in table_files():
        table = files[0].read.keywords["table"]  # type: ignore[attr-defined]
        found = read_in_every_mode(table)
        wrong = {mode: text for mode, text in found.items() if text.startswith("error")}
        # Changes of archived commits cannot be told.
        assert all(mode.startswith("changes") and "InstantNotFound" in text for mode, text in wrong.items()), wrong


def test_what_kills_the_process_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch over the child works: an exit in the middle is a failure of the input that was read."""
    monkeypatch.setenv("HEADWATER_FUZZ_DIE_AT", "3")
    outcome = fuzz.run(what="files", first_seed=0, count=6)
    (failure,) = outcome.failures
    assert failure.seed == 3
    assert "SIGABRT" in failure.cause
    assert outcome.mutations == 6
