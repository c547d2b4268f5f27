"""File groups that a planned table service is about to rewrite."""

from __future__ import annotations

from headwater.hudi.timeline import HudiTimeline
from headwater.hudi.timeline.instants import CLUSTERING, COMPACTION, REPLACE_COMMIT
from headwater.spec.model import FileGroupId, InstantState


def groups_in_pending_clustering(timeline: HudiTimeline) -> dict[FileGroupId, str]:
    """File group → the clustering that will replace it. What is written to the group meanwhile would be lost."""
    found: dict[FileGroupId, str] = {}
    for action in (CLUSTERING, REPLACE_COMMIT):
        for instant in timeline.pending(action):
            if InstantState.REQUESTED not in timeline.files.get(instant, {}):
                continue
            plan = (timeline.read(instant, InstantState.REQUESTED) or {}).get("clusteringPlan") or {}
            for inputs in plan.get("inputGroups") or ():
                for slice_ in inputs.get("slices") or ():
                    group = FileGroupId(str(slice_.get("partitionPath") or ""), str(slice_.get("fileId") or ""))
                    found[group] = instant.requested_at
    return found


def groups_in_pending_compaction(timeline: HudiTimeline) -> dict[FileGroupId, str]:
    """File group → the compaction that is planned for it."""
    found: dict[FileGroupId, str] = {}
    for instant in timeline.pending(COMPACTION):
        if InstantState.REQUESTED not in timeline.files.get(instant, {}):
            continue
        for operation in timeline.read(instant, InstantState.REQUESTED).get("operations") or ():
            group = FileGroupId(str(operation.get("partitionPath") or ""), str(operation.get("fileId") or ""))
            found[group] = instant.requested_at
    return found
