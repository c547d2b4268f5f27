"""Writing through Spark, side by side with Spark's own Parquet writer, Apache Hudi and Apache Iceberg."""
