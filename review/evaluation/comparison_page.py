"""The page of two systems on one set: their differences, how certain these are, and on which queries."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from builders.benchmark_set import Tables
from evaluation.evaluation_result import EvaluationResult, SystemComparison
from review.evaluation import display_text, plots
from review.evaluation.cards import (
    TemplateData,
    build_item_views,
    build_query_card,
    build_result_tile,
    get_query_figures,
    render_frame,
)
from review.evaluation.comparison_selection import ONE, SIDES, ComparisonSelection, QueryDifference
from review.evaluation.display_text import format_interval
from review.evaluation.failure_context import FailureContext, collect_failure_context
from review.evaluation.family_profile import draw_family_profile
from review.evaluation.phrasing_spread import describe_phrasings

_SURE = 0.05  # the p value below which two systems differ


def render_comparison_page(
    comparison: SystemComparison,
    tables: Tables | None,
    manifest: Mapping[str, Any] | None,
    thumbnails: Mapping[str, bytes],
    selection: ComparisonSelection,
) -> str:
    """Return one HTML document without other files. `tables` and `manifest` are those of the set, None for bare files;
    `tables.qrels` are transposed where texts are searched. `thumbnails`: JPEGs by image id; `selection`: that of
    select_largest_differences."""
    sides = (comparison.first, comparison.second)
    names = _names(sides)
    by_name = dict(zip(names, sides, strict=True))
    items = build_item_views(selection.queries, selection.ids, comparison.first.direction, tables, manifest, thumbnails)
    contexts = [collect_failure_context(selection.queries, side.ranked, tables) for side in sides]
    lead = str(comparison.table["metric"].iloc[0])
    figures = {name: side.figures for name, side in by_name.items()}
    cards = [_card(one, sides, names, items, contexts, lead) for one in selection.differences]
    return render_frame(
        "comparison_page.html",
        comparison.first.set,
        tables,
        items,
        thumbnails,
        manifest,
        names=names,
        direction=display_text.DIRECTION_NAMES[comparison.first.direction],
        queries=len(comparison.first.per_query),
        lead_metric=lead,
        verdict=_verdict(comparison.table.iloc[0], names),
        warnings=[
            {**one, "system": name}
            for name, side in by_name.items()
            for one in display_text.describe_warnings(side.warnings)
        ],
        rows=_rows(comparison, names),
        cmc=plots.draw_cmc_curves({name: side.cmc for name, side in by_name.items()}, figures),
        precision_recall=plots.draw_precision_recall_curves(
            {name: side.precision_recall for name, side in by_name.items()}, comparison.first.figures
        ),
        profile=draw_family_profile(by_name, lead),
        phrasings=_phrasings(comparison, by_name, tables),
        slices=plots.draw_slice_plots(by_name, lead),
        bins=_bins(cards, names),
        different=len(cards),
        systems=[(name, display_text.format_facts(side.system)) for name, side in by_name.items()],
        conventions=list(comparison.first.conventions.items()),
    )


def _phrasings(
    comparison: SystemComparison, by_name: Mapping[str, EvaluationResult], tables: Tables | None
) -> TemplateData | None:
    """Return what describe_phrasings returns, with the difference of the two spreads by each metric."""
    described = describe_phrasings(by_name, None if tables is None else tables.queries)
    if described is None:
        return None
    differences = {
        row["metric"]: {
            "difference": f"{row['difference']:+.3f}",
            "interval": format_interval(row["low"], row["high"], "+.3f"),
            "p": _p(row["p_holm"]),
        }
        for row in comparison.phrasings.to_dict("records")
        if row["metric"] in {one["metric"] for one in described["rows"]}
    }
    return described | {"differences": differences}


def _names(sides: tuple[EvaluationResult, EvaluationResult]) -> list[str]:
    """Return the names of the two systems, numbered where they are equal."""
    names = [display_text.get_system_name(side.system) for side in sides]
    return names if names[0] != names[1] else [f"{names[0]} (1)", f"{names[1]} (2)"]


def _verdict(row: pd.Series, names: list[str]) -> str:
    size = f"{abs(row['difference']):.3f}"
    if row["p_holm"] < _SURE:
        better, worse = names if row["difference"] > 0 else names[::-1]
        low, high = sorted([abs(row["low"]), abs(row["high"])])
        return f"{better} is better than {worse} by {size} ({low:.3f} to {high:.3f}), p {_equals(row['p_holm'])}."
    sentence = f"The two are not told apart: they differ by {size}, p {_equals(row['p_holm'])}."
    if pd.isna(row["detectable"]):
        return sentence
    return f"{sentence} A difference of {row['detectable']:.3f} would be found four times out of five."


def _p(value: float) -> str:
    if pd.isna(value):
        return "not known"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _equals(value: float) -> str:
    return _p(value) if value < 0.001 else f"= {_p(value)}"


def _rows(comparison: SystemComparison, names: list[str]) -> list[TemplateData]:
    """Return a table row per metric."""
    widest = float(comparison.table[["difference", "low", "high"]].abs().max().max()) or 1.0
    values = [side.figures.set_index("metric") for side in (comparison.first, comparison.second)]
    rows = []
    for row in comparison.table.to_dict("records"):
        sure = row["p_holm"] < _SURE
        rows.append(
            {
                "metric": str(row["metric"]),
                "figures": [_figure(frame, row["metric"]) for frame in values],
                "difference": f"{row['difference']:+.3f}",
                "interval": format_interval(row["low"], row["high"], "+.3f"),
                "strip": plots.draw_difference_strip(row["low"], row["difference"], row["high"], widest),
                "p": _p(row["p"]),
                "p_holm": _p(row["p_holm"]),
                "better": "" if not sure else names[0] if row["difference"] > 0 else names[1],
                "counts": [int(row[name]) for name in ("wins", "ties", "losses")],
                "detectable": f"{row['detectable']:.3f}" if pd.notna(row["detectable"]) else "",
            }
        )
    return rows


def _figure(frame: pd.DataFrame, metric: str) -> tuple[str, str]:
    if metric not in frame.index:
        return "", ""
    row = frame.loc[metric]
    return f"{row['value']:.3f}", format_interval(row["low"], row["high"])


def _card(
    one: QueryDifference,
    sides: tuple[EvaluationResult, EvaluationResult],
    names: list[str],
    items: Mapping[str, TemplateData],
    contexts: list[FailureContext],
    lead: str,
) -> TemplateData:
    pairs = [
        build_query_card(query, items, facts, get_query_figures(side.per_query, query.query_id, [lead]))
        for query, side, facts in zip((one.one, one.other), sides, contexts, strict=True)
    ]
    losing = 1 if one.better == ONE else 0
    return {
        **pairs[0],
        "better": one.better,
        "difference": f"{one.difference:+.3f}",
        "sides": [{**pair, "name": name} for pair, name in zip(pairs, names, strict=True)],
        "missed": [build_result_tile(result, items) for result in one.missed_by_both],
        "hidden_missed_count": one.hidden_missed_count,
        "causes": pairs[losing]["causes"],
        "loser": names[losing],
    }


def _bins(cards: list[TemplateData], names: list[str]) -> list[TemplateData]:
    """Return the query cards by the better system."""
    bins = []
    for side, name, sign in zip(SIDES, names, "◀▶", strict=True):
        mine = [card for card in cards if card["better"] == side]
        bins.append({"bin": side, "title": f"{name} is better", "sign": sign, "cards": mine, "count": len(mine)})
    return bins
