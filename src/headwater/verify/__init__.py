"""Walking a whole table to see whether everything that its metadata names is there, opens and agrees."""

from headwater.verify.report import Finding, Progress, Severity, VerifyReport
from headwater.verify.walk import verify

__all__ = ["Finding", "Progress", "Severity", "VerifyReport", "verify"]
