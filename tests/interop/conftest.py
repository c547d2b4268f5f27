"""Nothing here is a pytest test: `make interop` runs it, with Spark and Apache Hudi."""

collect_ignore_glob = ["*.py"]
