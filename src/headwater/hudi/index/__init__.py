"""Hudi's indexes: which file group a record key belongs to, and which files may hold it."""
