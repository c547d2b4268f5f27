"""The Apache Hudi table format."""
