"""How many rows files have, as the commits that wrote them say; the files stay closed."""

from __future__ import annotations

from typing import NamedTuple

from headwater.errors import HeadwaterError
from headwater.hudi.file_names import parse_base_file
from headwater.hudi.timeline import HudiTimeline
from headwater.spec.model import FileSlice, InstantState

# Commits of a table of many files are large, and planning is not to wait for them.
_MOST_BYTES = 1 << 20


class _Written(NamedTuple):
    records: int
    inserts: int
    deletes: int


class RowCounts:
    """Counts of a table's files. What a commit says may be wrong: good for estimates, and for nothing else."""

    def __init__(self, timeline: HudiTimeline) -> None:
        self._timeline = timeline
        self._instants = {instant.requested_at: instant for instant in timeline.commits}
        self._rows: dict[str, dict[str, int]] = {}
        self._logs: dict[str, _Written] | None = None

    def of(self, slice_: FileSlice) -> int | None:
        """The number of rows of a slice that is only a base file; None where no commit that was read tells it."""
        if slice_.delta_files or slice_.instants is not None:
            return None
        return self._of_base(slice_)

    def estimate(self, slice_: FileSlice) -> int | None:
        """The same for any slice: rows that logs inserted are added, those that they deleted taken away."""
        if slice_.base_file is not None:
            rows = self._of_base(slice_)
            return rows if rows is None or not slice_.delta_files else max(rows + self.change(slice_), 0)
        logs = [self._of_logs().get(ref.path) for ref in slice_.delta_files]
        # Some indexes call every record an update: all that was written counts, and a key that came twice does twice.
        return None if None in logs else max(sum(log.records - log.deletes for log in logs if log is not None), 0)

    def change(self, slice_: FileSlice) -> int:
        """How many more rows a slice has than its base file, as far as commits that were read tell it."""
        logs = [log for ref in slice_.delta_files if (log := self._of_logs().get(ref.path)) is not None]
        return sum(log.inserts - log.deletes for log in logs)

    def learn(self) -> None:
        """Read commits that nobody needed so far, the newest first, as long as these are small."""
        left = _MOST_BYTES
        for instant in reversed(self._timeline.commits):
            if self._timeline.known_metadata(instant) is not None:
                continue
            file = self._timeline.files.get(instant, {}).get(InstantState.COMPLETED)
            left -= _MOST_BYTES if file is None else file.size
            if left < 0:
                break
            try:
                self._timeline.metadata(instant)
            except HeadwaterError:
                continue  # an estimate needs no whole timeline; what the rows need is told by whoever reads them
        self._rows.clear()
        self._logs = None

    def _of_base(self, slice_: FileSlice) -> int | None:
        base = slice_.base_file
        return None if base is None else self._written(slice_.base_instant).get(base.path)

    def _written(self, requested_at: str) -> dict[str, int]:
        found = self._rows.get(requested_at)
        if found is None:
            instant = self._instants.get(requested_at)
            known = None if instant is None else self._timeline.known_metadata(instant)
            found = {} if known is None else {stat.path: stat.num_writes for stat in known.write_stats}
            self._rows[requested_at] = found
        return found

    def _of_logs(self) -> dict[str, _Written]:
        """What was written to each log file, by all commits that did."""
        if self._logs is None:
            self._logs = {}
            for instant in self._timeline.commits:
                known = self._timeline.known_metadata(instant)
                for stat in () if known is None else known.write_stats:
                    if parse_base_file(stat.name) is None:
                        before = self._logs.get(stat.path, _Written(0, 0, 0))
                        self._logs[stat.path] = _Written(
                            before.records + stat.num_writes,
                            before.inserts + stat.num_inserts,
                            before.deletes + stat.num_deletes,
                        )
        return self._logs
