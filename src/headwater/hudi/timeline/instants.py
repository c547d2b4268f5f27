"""Names of timeline files, and the instants that they add up to (facts 2.1–2.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone

from headwater.errors import InvalidArgument
from headwater.spec.model import Instant, InstantState
from headwater.storage import FileEntry

# Facts 2.3. `T.inflight` has no action: it is a commit's.
_NAME = re.compile(r"^(\d+)(?:_(\d+))?\.([a-z]+)(?:\.(requested|inflight))?$")

COMMIT, DELTA_COMMIT, REPLACE_COMMIT = "commit", "deltacommit", "replacecommit"
COMPACTION, LOG_COMPACTION, CLUSTERING = "compaction", "logcompaction", "clustering"
SAVEPOINT, CLEAN, ROLLBACK, RESTORE, INDEXING = "savepoint", "clean", "rollback", "restore", "indexing"

# A pending action and the name under which it completes.
COMPLETES_AS = {COMPACTION: COMMIT, LOG_COMPACTION: DELTA_COMMIT, CLUSTERING: REPLACE_COMMIT}
WRITE_ACTIONS = frozenset({COMMIT, DELTA_COMMIT, REPLACE_COMMIT})
KNOWN_ACTIONS = WRITE_ACTIONS | set(COMPLETES_AS) | {SAVEPOINT, CLEAN, ROLLBACK, RESTORE, INDEXING}

_RANK = {InstantState.REQUESTED: 0, InstantState.INFLIGHT: 1, InstantState.COMPLETED: 2}


@dataclass(frozen=True, slots=True)
class TimelineFile:
    """One state of one action, and the file that says so."""

    path: str
    requested_at: str
    action: str
    state: InstantState
    completed_at: str | None
    size: int


def parse_timeline_file(entry: FileEntry, *, in_utc: bool) -> TimelineFile | None:
    """None where the name is not a timeline file's."""
    match = _NAME.match(entry.name)
    if match is None:
        return None
    requested_at, completed_at, action, state_text = match.groups()
    if action == "inflight" and state_text is None:
        return TimelineFile(entry.path, requested_at, COMMIT, InstantState.INFLIGHT, None, entry.size)
    if action not in KNOWN_ACTIONS:
        return None
    state = InstantState(state_text) if state_text else InstantState.COMPLETED
    if state is InstantState.COMPLETED and completed_at is None:
        # Releases before 1.0 did not write the completion time down: the file's modification time stands for it.
        completed_at = max(requested_at, format_instant(entry.modified_at, in_utc=in_utc))
    return TimelineFile(entry.path, requested_at, action, state, completed_at, entry.size)


def format_instant(milliseconds: int, *, in_utc: bool) -> str:
    """An instant's text from a time; tables write them in the writer's own zone unless told to use UTC.

    >>> format_instant(1767225600123, in_utc=True)
    '20260101000000123'
    """
    seconds, millis = divmod(min(max(milliseconds, _FIRST_MILLISECOND), _LAST_MILLISECOND), 1000)
    zone = timezone.utc if in_utc else None
    return _digits(datetime.fromtimestamp(seconds, tz=zone)) + f"{millis:03d}"


# What Python's dates can hold in every zone. A file may claim to be of any time: a listing does not fail over it.
_FIRST_MILLISECOND = round(datetime(1, 1, 3, tzinfo=timezone.utc).timestamp() * 1000)
_LAST_MILLISECOND = round(datetime(9999, 12, 29, tzinfo=timezone.utc).timestamp() * 1000)


def _digits(when: datetime) -> str:
    # strftime gives years before 1000 fewer digits
    return f"{when.year:04d}{when:%m%d%H%M%S}"


def combine(
    files: Iterable[TimelineFile],
) -> tuple[tuple[Instant, ...], dict[Instant, dict[InstantState, TimelineFile]]]:
    """One instant per action, in its furthest state, and the files of each state.

    A pending compaction and the commit that completes it are one action.
    """
    grouped: dict[tuple[str, str], dict[InstantState, TimelineFile]] = {}
    for file in files:
        states = grouped.setdefault((file.requested_at, COMPLETES_AS.get(file.action, file.action)), {})
        # The same state twice is a table in mid-upgrade; the file that names its completion time is the newer one.
        known = states.get(file.state)
        if known is None or (file.completed_at or "") < (known.completed_at or ""):
            states[file.state] = file
    instants: list[Instant] = []
    by_instant: dict[Instant, dict[InstantState, TimelineFile]] = {}
    for states in grouped.values():
        last = max(states.values(), key=lambda file: _RANK[file.state])
        instant = Instant(last.requested_at, last.action, last.state, last.completed_at)
        instants.append(instant)
        by_instant[instant] = states
    return tuple(sorted(instants)), by_instant


_DATE_FORMS = (
    "%Y-%m-%d %H:%M:%S.%f",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M",
)


def as_instant_text(when: str | datetime | object, *, in_utc: bool) -> str:
    """An instant's text from an instant, a timestamp or a date.

    >>> as_instant_text("2026-01-02", in_utc=True)
    '20260102000000000'
    >>> as_instant_text("2026-01-02T03:04:05Z", in_utc=True)
    '20260102030405000'
    """
    from datetime import date

    if isinstance(when, datetime):
        if when.tzinfo is not None:
            return format_instant(round(when.timestamp() * 1000), in_utc=in_utc)
        return _digits(when) + f"{when.microsecond // 1000:03d}"
    if isinstance(when, date):
        return f"{when.year:04d}{when:%m%d}000000000"
    text = str(when).strip()
    if re.fullmatch(r"\d{1,20}", text) and (len(text) >= 14 or set(text) == {"0"}):
        return text
    if re.fullmatch(r"\d{8}", text):
        return text + "000000000"
    zoned = re.fullmatch(r"(.*\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)\s*(Z|[+-]\d{2}:?\d{2})", text)
    for form in _DATE_FORMS:
        try:
            parsed = datetime.strptime(zoned[1] if zoned else text, form)
            if zoned:
                offset = "+0000" if zoned[2] == "Z" else zoned[2].replace(":", "")
                parsed = parsed.replace(tzinfo=datetime.strptime(offset, "%z").tzinfo)
        except ValueError:
            continue
        return as_instant_text(parsed, in_utc=in_utc)
    raise InvalidArgument(
        f"{text!r} is no point in time; give an instant (yyyyMMddHHmmss[SSS]), a date (2026-01-31) "
        "or a timestamp (2026-01-31 12:00:00, with a zone if need be)"
    )
