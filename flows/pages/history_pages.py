"""Writes the page of a set's evaluations over time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from backends.durable_files import write_atomically
from backends.file_errors import translate_write_errors
from review.history_page import render_history


def write_history_page(
    name: str, entries: Sequence[Mapping[str, Any]], metric: str, page: Path, language: str = "en"
) -> None:
    """Writes the page of the entries of read_history. Raises UserError where it cannot be written."""
    with translate_write_errors("history", page, "or give another --to"):
        page.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(page, render_history(name, entries, metric, language).encode())
