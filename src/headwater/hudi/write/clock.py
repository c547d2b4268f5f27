"""Times of instants: each larger than all that the table has seen, whatever the clock says."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

from headwater.hudi.timeline.instants import format_instant
from headwater.hudi.timeline.timeline import HudiTimeline

_TIME = re.compile(r"^\d{14}(?:\d{3})?")
_START_OF_TIME = "00000000000000"


def next_time(timeline: HudiTimeline, *after: str) -> str:
    """A new instant's or completion's time, in the table's zone: now, or a millisecond past the newest time known.

    Clocks of writers differ, and local clocks go back an hour each autumn; the order of instants does not.

    >>> next_time(HudiTimeline(None, _Utc, (), {}), "29990101000000000")
    '29990101000000001'
    """
    now = format_instant(time.time_ns() // 1_000_000, in_utc=timeline.config.timeline_in_utc)
    known = [*after]
    for instant in timeline.instants:
        known += [instant.requested_at, instant.completed_at or ""]
    newest = max((text for text in known if not text.startswith(_START_OF_TIME)), default="")
    return now if now > newest else later(newest)


def later(instant: str) -> str:
    """The time a millisecond after an instant's.

    >>> later("20261231235959999"), later("20260101000000")
    ('20270101000000000', '20260101000001000')
    """
    found = _TIME.match(instant)
    if found is None:
        return instant + "1"
    digits = found[0] if len(found[0]) == 17 else found[0] + "999"
    when = datetime.strptime(digits[:14], "%Y%m%d%H%M%S") + timedelta(milliseconds=int(digits[14:]) + 1)
    return f"{when.year:04d}{when:%m%d%H%M%S}{when.microsecond // 1000:03d}"


class _Utc:
    """For the example above."""

    timeline_in_utc = True
