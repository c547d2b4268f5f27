"""The `headwater` command."""

from headwater.cli.app import main

__all__ = ["main"]
