"""Writing Spark data frames: ordinary PySpark up to the files, and the same commit as without Spark."""
