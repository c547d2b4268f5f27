"""Merging log records with each other and with the base file's rows."""

from headwater.hudi.merge.custom import Merger, register_merger
from headwater.hudi.merge.rules import MergeRules, merge_rules

__all__ = ["MergeRules", "Merger", "merge_rules", "register_merger"]
