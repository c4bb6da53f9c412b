"""The logic: pure functions from tables to tables. Nothing here opens a file, a socket or a model."""
