"""The page of one system on one set: figures with their bounds, curves, slices, and queries with their results."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from builders.benchmark_set import Tables
from evaluation.evaluation_result import TEXT_TO_IMAGE, EvaluationResult
from evaluation.ranking import UNJUDGED
from review.evaluation import display_text, plots
from review.evaluation.cards import TemplateData, build_item_views, build_query_card, get_query_figures, render_frame
from review.evaluation.display_text import format_interval
from review.evaluation.failure_context import collect_failure_context
from review.evaluation.family_profile import draw_family_profile
from review.evaluation.phrasing_spread import describe_phrasings
from review.evaluation.query_selection import EvaluationSelection

REVIEW_DEPTH = 10  # results of each query that the page proposes to judge

_MAX_LEFT_OUT = 50  # ids of the run that the set does not have


def render_evaluation_page(
    result: EvaluationResult,
    tables: Tables | None,
    manifest: Mapping[str, Any] | None,
    thumbnails: Mapping[str, bytes],
    selection: EvaluationSelection,
    review_command: str = "",
) -> str:
    """Return one HTML document without other files. `tables` and `manifest` are those of the set, None for bare files;
    `tables.qrels` are transposed where texts are searched. `thumbnails`: JPEGs by image id; `selection`: that of
    select_report_queries; `review_command`: judges the unjudged results, "" where that is not possible."""
    items = build_item_views(selection.queries, selection.ids, result.direction, tables, manifest, thumbnails)
    figures = _figures(result)
    lead = display_text.select_headline_metrics([figure["metric"] for figure in figures])
    name, first_metric = display_text.get_system_name(result.system), str(result.figures["metric"].iloc[0])
    thresholds = [one.threshold for one in result.thresholds.values() if one is not None]
    return render_frame(
        "evaluation_page.html",
        result.set,
        tables,
        items,
        thumbnails,
        manifest,
        name=name,
        direction=display_text.DIRECTION_NAMES[result.direction],
        queries=len(result.per_query),
        warnings=display_text.describe_warnings(result.warnings),
        headline=[figure for figure in figures if figure["metric"] in lead],
        figures=figures,
        thresholds=list(_thresholds(result)),
        slice_rows=plots.build_slice_table(result.slices, lead),
        slice_metrics=lead,
        bins=_bins(result, tables, selection, items, lead),
        query_total=sum(selection.bin_sizes.values()),
        run_depth=selection.run_depth,
        unjudged=_count_unjudged(result) if review_command else 0,
        review_depth=REVIEW_DEPTH,
        review_command=review_command,
        conventions=list(result.conventions.items()),
        definitions=[(figure["metric"], figure["definition"]) for figure in figures],
        system=display_text.format_facts(result.system),
        counts=display_text.format_facts(result.counts),
        left_out=result.left_out.head(_MAX_LEFT_OUT).to_dict("records"),
        left_out_total=len(result.left_out),
        cmc=plots.draw_cmc_curves({name: result.cmc}, {name: result.figures}),
        precision_recall=plots.draw_precision_recall_curves({name: result.precision_recall}, result.figures),
        open_set=plots.draw_open_set_curves(result.open_set, thresholds) if len(result.open_set) > 1 else None,
        lead_metric=first_metric,
        profile=draw_family_profile({name: result}, first_metric),
        phrasings=describe_phrasings({name: result}, None if tables is None else tables.queries),
        slices=plots.draw_slice_plots({name: result}, first_metric),
    )


def _count_unjudged(result: EvaluationResult) -> int:
    """Return the number of unjudged images among the first results; 0 where texts are searched."""
    first = result.ranked[result.ranked["rank"] <= REVIEW_DEPTH]
    return int((first["relevance"] == UNJUDGED).sum()) if result.direction == TEXT_TO_IMAGE else 0


def _bins(
    result: EvaluationResult,
    tables: Tables | None,
    selection: EvaluationSelection,
    items: Mapping[str, TemplateData],
    lead: list[str],
) -> list[TemplateData]:
    context = collect_failure_context(selection.queries, result.ranked, tables)
    cards = {
        name: [
            build_query_card(one, items, context, get_query_figures(result.per_query, one.query_id, lead))
            for one in queries
        ]
        for name, queries in selection.queries_by_bin.items()
    }
    return [{**one, "cards": cards[one["bin"]]} for one in display_text.describe_bins(selection.bin_sizes)]


def _figures(result: EvaluationResult) -> list[TemplateData]:
    """Return every figure with its interval, bounds and chance, and a plot of these on a line."""
    return [
        {
            "metric": str(row["metric"]),
            "value": f"{row['value']:.3f}",
            "interval": format_interval(row["low"], row["high"]),
            "bounds": format_interval(row["at_least"], row["at_most"]),
            "chance": f"{row['chance']:.3f}" if pd.notna(row["chance"]) else "",
            "strip": plots.draw_interval_strip(row),
            "definition": result.definitions.get(str(row["metric"]), ""),
        }
        for row in result.figures.to_dict("records")
    ]


def _thresholds(result: EvaluationResult) -> Iterator[TemplateData]:
    queries = max(len(result.per_query), 1)
    for target, one in result.thresholds.items():
        if one is None:
            yield {"target": target, "threshold": None}
            continue
        yield {
            "target": target,
            "threshold": f"{one.threshold:.4g}",
            "precision": f"{one.precision:.2f}",
            "upper": f"{one.precision_upper:.2f}" if one.precision_upper > one.precision else "",
            "recall": f"{one.recall:.2f}",
            "shown": one.shown,
            "empty": f"{100 * one.queries_empty / queries:.0f}%",
            "cut_off": one.queries_cut_off,
            "elsewhere": f"{one.elsewhere:.2f}" if pd.notna(one.elsewhere) else "",
        }
