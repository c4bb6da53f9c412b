"""Append-only files of long runs, with the summaries and tables beside them."""
