"""The page of one system on one set: figures with their bounds, curves, slices, phrasings, and queries."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from markupsafe import Markup

from querytruth.evaluation import evaluation_result
from querytruth.evaluation.metrics import CUTS
from querytruth.evaluation.ranking import UNJUDGED
from querytruth.review import evaluation_plots, result_cards
from querytruth.review.failure_causes import collect_failure_context
from querytruth.review.page_parts import format_interval, translate
from querytruth.review.query_selection import EvaluationSelection, draw_family_profile
from querytruth.review.vega_lite import draw_intervals
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.manifest import Manifest

_MOST_QUESTIONS = 8
_EQUAL = 1e-9
REVIEW_DEPTH = 10  # results of each query that the page proposes to judge

_MAX_LEFT_OUT = 50  # ids of the run that the set does not have


def describe_phrasings(
    systems: Mapping[str, evaluation_result.EvaluationResult], queries: pd.DataFrame | None
) -> dict[str, Any] | None:
    """Return the plot, a row per metric and system, and, of one system, the questions that differ most by the first
    metric with the texts of their phrasings. None where no question has two phrasings."""
    tables = {name: one.phrasings for name, one in systems.items()}
    first = next(iter(systems.values()))
    if queries is None or any(table.empty for table in tables.values()):
        return None
    metrics = result_cards.select_headline_metrics(first.metrics)
    rows = [
        {"metric": metric, "system": name, **table.set_index("metric").loc[metric].to_dict()}
        for metric in metrics
        for name, table in tables.items()
    ]
    counts = first.phrasings.iloc[0]
    return {
        "questions": int(counts["questions"]),
        "queries": int(counts["queries"]),
        "metric": first.metrics[0],
        "plot": _draw(tables, metrics),
        "rows": rows,
        "widest": _list_widest(first, queries) if len(systems) == 1 else [],
    }


def _list_widest(result: evaluation_result.EvaluationResult, queries: pd.DataFrame) -> list[list[tuple[str, str, str]]]:
    """Return for each of the questions with the largest spread the text, the style and the figure of each phrasing, the
    best first."""
    metric = result.metrics[0]
    question = evaluation_result.number_questions(queries, result.per_query.index)
    spread = evaluation_result.find_spreads(result.per_query, question, [metric])[metric]
    chosen = spread[spread > _EQUAL].sort_values(ascending=False, kind="stable").index[:_MOST_QUESTIONS]
    known = queries.set_index("query_id")
    listed = []
    for number in chosen:
        figures = result.per_query.loc[question.index[question == number], metric]
        ordered = figures.sort_values(ascending=False, kind="stable")
        listed.append(
            [(known.at[one, "text"], known.at[one, "style"], f"{value:.3f}") for one, value in ordered.items()]
        )
    return listed


def _draw(tables: Mapping[str, pd.DataFrame], metrics: list[str]) -> Markup:
    """Return a dot per metric and system at the mean, on a line from the worst to the best phrasing."""
    rows = [
        {"name": metric, "system": name, "value": row.mean, "low": row.worst, "high": row.best}
        for metric in metrics
        for name, table in tables.items()
        for row in table[table["metric"] == metric].itertuples(index=False)
    ]
    return draw_intervals(
        rows,
        "; ".join(f"{one['name']} {one['low']:.2f} to {one['high']:.2f} {one['system']}" for one in rows),
        list(tables),
    )


def render_evaluation_page(
    result: evaluation_result.EvaluationResult,
    tables: Tables | None,
    manifest: Manifest | None,
    thumbnails: Mapping[str, bytes],
    selection: EvaluationSelection,
    review_command: str = "",
) -> str:
    """Return one self-contained HTML document. `tables` and `manifest` describe the set, None for bare files;
    `tables.qrels` are transposed for text search. `thumbnails`: JPEGs by image id; `selection`: from
    select_report_queries; `review_command`: command that judges the unjudged results, "" where that is not possible."""
    items = result_cards.build_item_views(
        selection.queries, selection.ids, result.direction, tables, manifest, thumbnails
    )
    figures = _figures(result)
    lead = result_cards.select_headline_metrics([figure["metric"] for figure in figures])
    name, first_metric = result_cards.get_system_name(result.system), str(result.figures["metric"].iloc[0])
    thresholds = [one.threshold for one in result.thresholds.values() if one is not None]
    return result_cards.render_frame(
        "evaluation_page.html",
        result.set,
        tables,
        items,
        thumbnails,
        manifest,
        name=name,
        direction=result_cards.DIRECTION_NAMES[result.direction],
        queries=len(result.per_query),
        of_set=evaluation_result.find_other_queries(result.counts),
        warnings=result_cards.describe_warnings(result.warnings),
        headline=[figure for figure in figures if figure["metric"] in lead],
        figures=figures,
        thresholds=result.thresholds,
        slice_rows=evaluation_plots.build_slice_table(result.slices, lead),
        slice_metrics=lead,
        bins=_bins(result, tables, selection, items, lead),
        query_total=sum(selection.bin_sizes.values()),
        run_depth=selection.run_depth,
        unjudged=_count_unjudged(result) if review_command else 0,
        review_depth=REVIEW_DEPTH,
        review_command=review_command,
        conventions=list(result.conventions.items()),
        definitions=[(figure["metric"], figure["definition"]) for figure in figures],
        system=result_cards.format_facts(result.system),
        counts=result_cards.format_facts(result.counts),
        left_out=result.left_out.head(_MAX_LEFT_OUT).to_dict("records"),
        left_out_total=len(result.left_out),
        cmc=evaluation_plots.draw_cmc_curves({name: result.cmc}, {name: result.figures}),
        precision_recall=evaluation_plots.draw_precision_recall_curves({name: result.precision_recall}, result.figures),
        open_set=evaluation_plots.draw_open_set_curves(result.open_set, thresholds)
        if len(result.open_set) > 1
        else None,
        lead_metric=first_metric,
        profile=draw_family_profile({name: result}, first_metric),
        phrasings=describe_phrasings({name: result}, None if tables is None else tables.queries),
        slices=evaluation_plots.draw_slice_plots({name: result}, first_metric),
        traffic=[(name, rows.to_dict("records")) for name, rows in result.traffic.groupby("metric", sort=False)],
        absent=absent if "auroc" in (absent := result.counts.get("absent") or {}) else None,
    )


def _count_unjudged(result: evaluation_result.EvaluationResult) -> int:
    """Return the number of unjudged images among the first results; 0 where texts are searched."""
    first = result.ranked[result.ranked["rank"] <= REVIEW_DEPTH]
    return int((first["relevance"] == UNJUDGED).sum()) if result.direction == evaluation_result.TEXT_TO_IMAGE else 0


def _bins(
    result: evaluation_result.EvaluationResult,
    tables: Tables | None,
    selection: EvaluationSelection,
    items: Mapping[str, result_cards.TemplateData],
    lead: list[str],
) -> list[result_cards.TemplateData]:
    context = collect_failure_context(selection.queries, result.ranked, tables)
    cards = {
        name: [
            result_cards.build_query_card(
                one, items, context, result_cards.get_query_figures(result.per_query, one.query_id, lead)
            )
            for one in queries
        ]
        for name, queries in selection.queries_by_bin.items()
    }
    return [{**one, "cards": cards[one["bin"]]} for one in result_cards.describe_bins(selection.bin_sizes)]


def _translate_definition(text: str) -> str:
    says, separator, options = text.partition(" Here: ")
    for cut in CUTS:
        options = options.replace(cut, translate(cut))
    return translate(says) + (translate(" Here: %(options)s", options=options) if separator else "")


def _figures(result: evaluation_result.EvaluationResult) -> list[result_cards.TemplateData]:
    """Return every figure with its interval, bounds and chance, and a plot of these on a line."""
    return [
        {
            "metric": str(row["metric"]),
            "value": f"{row['value']:.3f}",
            "interval": format_interval(row["low"], row["high"]),
            "bounds": format_interval(row["at_least"], row["at_most"]),
            "chance": f"{row['chance']:.3f}" if pd.notna(row["chance"]) else "",
            "strip": evaluation_plots.draw_interval_strip(row),
            "definition": _translate_definition(result.definitions.get(str(row["metric"]), "")),
        }
        for row in result.figures.to_dict("records")
    ]
