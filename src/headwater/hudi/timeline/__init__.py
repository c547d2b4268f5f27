"""The history of a Hudi table: active instants of both layouts, archive, what each action wrote down."""

from headwater.hudi.timeline.instants import as_instant_text
from headwater.hudi.timeline.metadata import CommitMetadata, WriteStat
from headwater.hudi.timeline.timeline import HudiTimeline, load_timeline

__all__ = ["CommitMetadata", "HudiTimeline", "WriteStat", "as_instant_text", "load_timeline"]
