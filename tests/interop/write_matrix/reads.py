"""The reads of a table: in every mode, what Hudi is told and what Headwater is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from tests.fixture_reader import read as read_table
from tests.interop.write_matrix.story import Story

import headwater

_ON = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
_OFF = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}


@dataclass(frozen=True)
class Read:
    """One way to read a table."""

    name: str
    mode: str
    options: Mapping[str, str]
    """Hudi's."""
    opts: Mapping[str, Any] = field(default_factory=dict)
    """Ours."""
    where: str | None = None
    metadata: bool = True
    path_values: bool = False
    """Whether the reader takes the time that a path is made of from the path."""

    def here(self, story: Story) -> pa.Table:
        if self.where is not None:
            return headwater.open(story.path, metadata=self.metadata).scan(filter=self.where).to_arrow()
        return read_table(str(story.path), self.mode, metadata=self.metadata, **self.opts)


def reads_of(story: Story, release: str, *, all_modes: bool) -> list[Read]:
    """The reads of a table as it is now."""
    found = [Read("snapshot", "snapshot", _ON), Read("no metadata", "snapshot", _OFF, metadata=False)]
    if story.spec.is_merge_on_read:
        how = {"hoodie.datasource.query.type": "read_optimized"}
        found.append(Read("read optimized", "read_optimized", {**_ON, **how}))
    chosen = story.model.some(1, 3)
    if chosen:
        key = f"id = '{chosen[0]['id']}'"
        found.append(Read("key", "snapshot", _ON, where=key))
        found.append(Read("filter", "snapshot", _ON, where="price > 1 AND ts >= 11"))
    commits = sorted(story.table.hudi.timeline.commits, key=lambda i: i.completed_at or i.requested_at)
    completed = (lambda i: i.completed_at) if story.spec.version > 6 else (lambda i: i.requested_at)
    instants = [(instant.requested_at, completed(instant)) for instant in commits]
    if all_modes and len(instants) > 1:
        for instant, _ in (instants[0], instants[len(instants) // 2]):
            found.append(Read("as of", "time_travel", {**_ON, "as.of.instant": instant}, {"as_of": instant}))
    ranges = [(None, instants[-1])] if all_modes else []
    if len(instants) > 1:
        ranges.append((instants[-2], instants[-1]))
    for start, end in ranges:
        found.append(_range(story, release, "incremental", start, end, {}))
    if story.spec.changes == "yes" and all_modes:
        found.append(_range(story, release, "cdc", *ranges[0], {"hoodie.datasource.query.incremental.format": "cdc"}))
    return [replace(read, path_values=release == "0.15.0") for read in found]


def _range(story: Story, release: str, mode: str, start: Any, end: Any, more: Mapping[str, str]) -> Read:
    begin = start[1] if start else "00000000000000"
    if start and release == "1.0.2" and story.spec.version > 6:
        begin = str(int(begin) + 1)  # 1.0.2 takes the start as inclusive
    options = {
        **_ON,
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": begin,
        "hoodie.datasource.read.end.instanttime": end[1],
        **more,
    }
    return Read(mode, mode, options, {"start": start and start[0], "end": end[0]})
