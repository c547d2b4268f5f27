"""Real tables that ship with Headwater, and a tour of them: `python -m headwater.demo`."""

from headwater.demo.empty import empty_table
from headwater.demo.shipped import DEMO_TABLES, DemoTable, demo_table

__all__ = ["DEMO_TABLES", "DemoTable", "demo_table", "empty_table"]
