"""Which blocks of a file slice's logs count, and in which order they apply (format facts 5.6)."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from headwater.errors import UnsupportedTable
from headwater.hudi.log.format import BlockType, LogBlock, damaged


def select_blocks(
    blocks: Sequence[LogBlock],
    *,
    is_valid_instant: Callable[[str], bool],
    latest: str | None = None,
    instants: Container[str] | None = None,
) -> list[LogBlock]:
    """The data and delete blocks that count, oldest first.

    Parameters
    ----------
    blocks
        All blocks of a slice: its log files in their order, the blocks of each in file order.
    is_valid_instant
        Whether an instant's blocks may be read: it is completed, or so old that it is archived.
    latest
        Blocks of later instants are left out. Rollback commands apply whenever they were written.
    instants
        Where given, only blocks of these instants count (incremental reads).

    A rollback command drops the blocks of its target that stand before it. Blocks that log compaction put together take
    the place of the newest of the blocks that they replace.
    """
    by_instant: dict[str, list[LogBlock]] = {}
    for block in blocks:
        if block.type == BlockType.CORRUPT:
            continue
        if block.type == BlockType.COMMAND:
            by_instant.pop(_rolled_back(block), None)
            continue
        instant = block.instant_time
        if instant is None:
            raise damaged(block.describe(), "it has no instant in its header")
        if latest is not None and instant > latest:
            continue
        if not is_valid_instant(instant) or (instants is not None and instant not in instants):
            continue
        by_instant.setdefault(instant, []).append(block)
    return _place_compacted(by_instant)


def _rolled_back(block: LogBlock) -> str:
    if not block.is_rollback:
        raise UnsupportedTable(f"{block.describe()} is a command other than a rollback; upgrade headwater")
    if block.target_instant is None:
        raise damaged(block.describe(), "it is a rollback of no instant")
    return block.target_instant


def _place_compacted(by_instant: dict[str, list[LogBlock]]) -> list[LogBlock]:
    """Apply log compaction; the instants are in the order of arrival."""
    # From each compacted instant to the one that holds its records in the end: compacted blocks are compacted again.
    replaced_by: dict[str, str] = {}
    placed: dict[str, None] = {}
    for instant in reversed(by_instant):
        compacted = by_instant[instant][0].compacted_times
        if compacted:
            final = replaced_by.get(instant, instant)
            replaced_by.update((original, final) for original in compacted)
        else:
            placed.setdefault(replaced_by.get(instant, instant))
    return [block for instant in reversed(placed) for block in by_instant[instant]]
