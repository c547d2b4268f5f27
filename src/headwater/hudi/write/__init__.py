"""Writing Hudi tables: files, commits, and what undoes them after a crash."""
