"""Making the benchmark's tables: the same rows as plain Parquet, as real Hudi tables, as generated Hudi tables."""
