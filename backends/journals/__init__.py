"""Append-only files of long runs, with the summaries and exported tables beside them."""
