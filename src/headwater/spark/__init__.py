"""Headwater in Spark: the session, the sidecar of the Java connector, the Python Data Source."""
