"""Which blocks of a slice count. Blocks are written `<instant>`, `rollback <target>` or `<instant>=<a>+<b>`."""

from __future__ import annotations

from collections.abc import Container

import pytest

from headwater.errors import CorruptFile, UnsupportedTable
from headwater.hudi.log import BlockType, Header, LogBlock, scan_buffer, select_blocks, write_block


def slice_of(text: str) -> list[LogBlock]:
    data = b""
    for index, word in enumerate(text.split()):
        if word == "corrupt":
            data += b"#HUDI#half a block"
            continue
        if word.startswith("rollback:"):
            instant, _, target = word.removeprefix("rollback:").rpartition("@")
            headers = {Header.TARGET_INSTANT_TIME: target, Header.COMMAND_BLOCK_TYPE: "0"}
            data += write_block(BlockType.COMMAND, headers | {Header.INSTANT_TIME: instant or "900"})
            continue
        instant, _, compacted = word.partition("=")
        headers = {Header.INSTANT_TIME: instant}
        if compacted:
            headers[Header.COMPACTED_BLOCK_TIMES] = compacted.replace("+", ",")
        data += write_block(BlockType.DELETE if index % 2 else BlockType.AVRO_DATA, headers, word.encode())
    return list(scan_buffer(data, "f"))


def selected(
    text: str, *, invalid: Container[str] = (), latest: str | None = None, instants: Container[str] | None = None
) -> str:
    blocks = select_blocks(
        slice_of(text), is_valid_instant=lambda instant: instant not in invalid, latest=latest, instants=instants
    )
    return " ".join(bytes(block.content()).decode() for block in blocks)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ("", ""),
        ("1 2 2 3", "1 2 2 3"),
        ("1 corrupt 2", "1 2"),
        ("1 2 rollback:2 3", "1 3"),
        # A late rollback: the block before the command is not the one that it undoes.
        ("1 2 3 rollback:2", "1 3"),
        ("1 2 1 2 rollback:1", "2 2"),
        ("rollback:1 2", "2"),
        # An instant that was rolled back and written anew counts from there on.
        ("1 2 rollback:1 1", "2 1"),
        # Blocks of an instant stay together, where its first one is.
        ("1 2 1", "1 1 2"),
    ],
)
def test_rollback_drops_every_block_of_its_target_before_it(blocks: str, expected: str) -> None:
    assert selected(blocks) == expected


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ("1 2 3=1+2", "3=1+2"),
        ("1 2 3 4=1+2", "4=1+2 3"),
        ("1 2 3 4=2+1 5", "4=2+1 3 5"),
        # Compacted again.
        ("1 2 3=1+2 4 5=3+4", "5=3+4"),
        ("1 2 3=1+2 4 5 6=4+3", "6=4+3 5"),
        ("1 2 3=1+2 4 5=2+1+4+3", "5=2+1+4+3"),
        # Two compactions side by side.
        ("1 2 3 4 5=1+2 6=3+4", "5=1+2 6=3+4"),
        # A compaction that was rolled back.
        ("1 2 3=1+2 rollback:3", "1 2"),
        # What was compacted has its place; without one it has no blocks in this slice.
        ("3=1+2", ""),
        # Several blocks of one log compaction.
        ("1 2 3=1+2 3=1+2 4", "3=1+2 3=1+2 4"),
    ],
)
def test_compacted_blocks_take_the_place_of_the_newest_they_replace(blocks: str, expected: str) -> None:
    assert selected(blocks) == expected


def test_blocks_of_instants_that_are_not_valid_are_left_out() -> None:
    assert selected("1 2 3", invalid={"2"}) == "1 3"


def test_blocks_later_than_the_latest_instant_are_left_out() -> None:
    assert selected("1 3 2", latest="2") == "1 2"


def test_later_rollback_applies_and_does_not_end_the_scan() -> None:
    assert selected("1 2 rollback:9@1 2", latest="2") == "2 2"


def test_only_the_instants_asked_for_count() -> None:
    assert selected("1 2 3", instants={"2", "3"}) == "2 3"
    assert selected("1 2 3=1+2", instants={"3"}) == ""


def test_block_without_an_instant_is_a_corrupt_file() -> None:
    blocks = list(scan_buffer(write_block(BlockType.AVRO_DATA, {}), "f"))
    with pytest.raises(CorruptFile, match="no instant"):
        select_blocks(blocks, is_valid_instant=lambda instant: True)


def test_unknown_command_is_unsupported() -> None:
    headers = {Header.COMMAND_BLOCK_TYPE: "1", Header.TARGET_INSTANT_TIME: "1"}
    blocks = list(scan_buffer(write_block(BlockType.COMMAND, headers), "f"))
    with pytest.raises(UnsupportedTable, match="command other than a rollback"):
        select_blocks(blocks, is_valid_instant=lambda instant: True)
