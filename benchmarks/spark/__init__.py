"""The Spark part of the benchmark: every way to read a table, side by side with Spark's own Parquet source."""
