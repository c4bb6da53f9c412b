"""Writes the pages of evaluations and comparisons: the pictures they show are made small and put into one HTML file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends import durable_files
from builders.errors import UserError
from querytruth.thumbnails import locations_of_pictures, thumbnails
from review.evaluation.comparison_page import comparison_page, select_different
from review.evaluation.page import evaluation_page, select_asked

if TYPE_CHECKING:
    from evaluation.evaluated import Compared, Evaluated
    from flows.scoring.judged_sets import View


def write_evaluation_page(found: Evaluated, view: View, page: Path) -> None:
    """One file about one system on one set."""
    tables, manifest = _known(view)
    shown = select_asked(found.per_query.index.tolist(), found.ranked, view.qrels)
    _write(evaluation_page(found, tables, manifest, _small(view, shown.ids), shown), page)


def write_comparison_page(found: Compared, view: View, page: Path) -> None:
    """One file about two systems on one set."""
    tables, manifest = _known(view)
    ranked = found.one.ranked, found.other.ranked
    shown = select_different(found.different, found.differences, *ranked, view.qrels)
    _write(comparison_page(found, tables, manifest, _small(view, shown.ids), shown), page)


def _write(html: str, page: Path) -> None:
    try:
        durable_files.write_atomically(page, html.encode("utf-8", "replace"))
    except OSError as error:
        reason = f"cannot be written ({error.strerror})"
        raise UserError("write page", page, reason, "give another folder with --report") from None


def _known(view: View) -> tuple[Any, Any]:
    """The set's tables, their judgments as they are searched, and its manifest; nothing of bare judgments."""
    stored = view.judged.stored
    return (None, None) if stored is None else (replace(stored.tables, qrels=view.qrels), stored.manifest)


def _small(view: View, ids: list[str]) -> dict[str, bytes]:
    return {} if view.judged.stored is None else thumbnails(locations_of_pictures(view.judged.stored, ids))
