"""Writes the pages of evaluations and comparisons, each one HTML file with thumbnails inside."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.durable_files import write_page
from backends.sets.set_thumbnails import make_set_thumbnails
from review.evaluation.comparison_page import render_comparison_page
from review.evaluation.comparison_selection import select_largest_differences
from review.evaluation.evaluation_page import REVIEW_DEPTH, render_evaluation_page
from review.evaluation.query_selection import select_report_queries

if TYPE_CHECKING:
    from evaluation.evaluation_result import EvaluationResult, SystemComparison
    from flows.scoring.judged_sets import EvaluationView

_OTHER_FOLDER = "or give another folder with --report"


def write_evaluation_page(result: EvaluationResult, view: EvaluationView, page: Path) -> None:
    """Write the page of one system on one set. Raises UserError where it cannot be written."""
    tables, manifest = _tables_and_manifest(view)
    shown = select_report_queries(result.per_query.index.tolist(), result.ranked, view.qrels)
    command = "" if view.judged_set.stored is None else _review_command(view.judged_set.stored.path, page.parent)
    html = render_evaluation_page(result, tables, manifest, _thumbnails(view, shown.ids), shown, command)
    write_page(page, html, _OTHER_FOLDER)


def _review_command(set_path: Path, result_folder: Path) -> str:
    """The command that judges the results that nobody judged."""
    return shlex.join(
        ["querytruth", "review", str(set_path), "--run", str(result_folder), "--depth", str(REVIEW_DEPTH)]
    )


def write_comparison_page(comparison: SystemComparison, view: EvaluationView, page: Path) -> None:
    """Write the page of two systems on one set. Raises UserError where it cannot be written."""
    tables, manifest = _tables_and_manifest(view)
    ranked = comparison.first.ranked, comparison.second.ranked
    shown = select_largest_differences(comparison.most_different_queries, comparison.differences, *ranked, view.qrels)
    html = render_comparison_page(comparison, tables, manifest, _thumbnails(view, shown.ids), shown)
    write_page(page, html, _OTHER_FOLDER)


def _tables_and_manifest(view: EvaluationView) -> tuple[Any, Any]:
    """The set's tables, with the view's judgments, and its manifest; None for bare judgments."""
    stored = view.judged_set.stored
    return (None, None) if stored is None else (replace(stored.tables, qrels=view.qrels), stored.manifest)


def _thumbnails(view: EvaluationView, ids: list[str]) -> dict[str, bytes]:
    return {} if view.judged_set.stored is None else make_set_thumbnails(view.judged_set.stored, ids)
