"""The process beside a JVM that thinks for it: tables, planning, merging, over pipes (docs/spark-connector.md)."""
