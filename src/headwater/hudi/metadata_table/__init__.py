"""Hudi's metadata table: what its records say and how they merge."""
