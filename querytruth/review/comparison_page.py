"""The page of two systems on one set: their differences, how certain these are, and the queries that differ most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from querytruth.evaluation.evaluation_result import EvaluationResult, SystemComparison
from querytruth.review import evaluation_plots, query_selection, result_cards
from querytruth.review.evaluation_page import describe_phrasings
from querytruth.review.failure_causes import FailureContext, collect_failure_context
from querytruth.review.page_parts import format_interval, translate
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.manifest import Manifest

ONE, OTHER = SIDES = ("one", "other")
_RESULTS, _MISSED = 10, 4  # shown of a query
_SURE = 0.05  # the p value below which two systems differ


@dataclass(frozen=True, slots=True)
class QueryDifference:
    """A query with the results of both systems. `difference`: the figure of `one` minus that of `other`;
    `missed_by_both`: relevant items that neither returned, and `hidden_missed_count` more of them."""

    difference: float
    one: query_selection.SelectedQuery
    other: query_selection.SelectedQuery
    missed_by_both: tuple[query_selection.RankedItem, ...]
    hidden_missed_count: int

    @property
    def better(self) -> str:
        return ONE if self.difference > 0 else OTHER


@dataclass(frozen=True, slots=True)
class ComparisonSelection:
    """The queries shown, the largest difference first."""

    differences: list[QueryDifference]

    @property
    def queries(self) -> list[query_selection.SelectedQuery]:
        return [side for one in self.differences for side in (one.one, one.other)]

    @property
    def ids(self) -> list[str]:
        """Return the ids of all queries and items shown, once, in the order of the page."""
        missed = [result.item_id for one in self.differences for result in one.missed_by_both]
        return list(dict.fromkeys([*query_selection.collect_ids(self.queries), *missed]))


def select_largest_differences(
    query_ids: Sequence[str],
    differences: pd.Series,
    one: pd.DataFrame,
    other: pd.DataFrame,
    qrels: pd.DataFrame | None,
    queries: int = 20,
) -> ComparisonSelection:
    """Select the first of `query_ids`, which are sorted by difference, largest first; `one` and `other` are ranked
    results."""
    chosen = list(query_ids[:queries])
    ones, others = (
        query_selection.build_selected_queries(chosen, ranked, qrels, results=_RESULTS, missed=1 << 30)
        for ranked in (one, other)
    )
    pairs = zip(chosen, ones, others, strict=True)
    return ComparisonSelection([_query_difference(float(differences[name]), a, b) for name, a, b in pairs])


def _query_difference(
    difference: float, one: query_selection.SelectedQuery, other: query_selection.SelectedQuery
) -> QueryDifference:
    retrieved_ids = {result.item_id for query in (one, other) for result in query.results}
    neither = [
        replace(result, rank=None, score=float("nan"))
        for result in one.missed_relevant
        if result.item_id not in retrieved_ids
    ]
    bare = [replace(query, missed_relevant=(), hidden_missed_count=0) for query in (one, other)]
    return QueryDifference(difference, bare[0], bare[1], tuple(neither[:_MISSED]), len(neither[_MISSED:]))


def render_comparison_page(
    comparison: SystemComparison,
    tables: Tables | None,
    manifest: Manifest | None,
    thumbnails: Mapping[str, bytes],
    selection: ComparisonSelection,
) -> str:
    """Return one self-contained HTML document. `tables` and `manifest` describe the set, None for bare files;
    `tables.qrels` are transposed for text search. `thumbnails`: JPEGs by image id; `selection`: from
    select_largest_differences."""
    sides = (comparison.first, comparison.second)
    names = _names(sides)
    by_name = dict(zip(names, sides, strict=True))
    items = result_cards.build_item_views(
        selection.queries, selection.ids, comparison.first.direction, tables, manifest, thumbnails
    )
    contexts = [collect_failure_context(selection.queries, side.ranked, tables) for side in sides]
    lead = str(comparison.table["metric"].iloc[0])
    figures = {name: side.figures for name, side in by_name.items()}
    cards = [_card(one, sides, names, items, contexts, lead) for one in selection.differences]
    return result_cards.render_frame(
        "comparison_page.html",
        comparison.first.set,
        tables,
        items,
        thumbnails,
        manifest,
        names=names,
        direction=translate(result_cards.DIRECTION_NAMES[comparison.first.direction]),
        queries=len(comparison.first.per_query),
        lead_metric=lead,
        verdict=_verdict(comparison.table.iloc[0], names),
        warnings=[
            {**one, "system": name}
            for name, side in by_name.items()
            for one in result_cards.describe_warnings(side.warnings)
        ],
        rows=_rows(comparison, names),
        cmc=evaluation_plots.draw_cmc_curves({name: side.cmc for name, side in by_name.items()}, figures),
        precision_recall=evaluation_plots.draw_precision_recall_curves(
            {name: side.precision_recall for name, side in by_name.items()}, comparison.first.figures
        ),
        profile=query_selection.draw_family_profile(by_name, lead),
        phrasings=_phrasings(comparison, by_name, tables),
        slices=evaluation_plots.draw_slice_plots(by_name, lead),
        bins=_bins(cards, names),
        different=len(cards),
        systems=[(name, result_cards.format_facts(side.system)) for name, side in by_name.items()],
        conventions=list(comparison.first.conventions.items()),
    )


def _phrasings(
    comparison: SystemComparison, by_name: Mapping[str, EvaluationResult], tables: Tables | None
) -> result_cards.TemplateData | None:
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
    names = [result_cards.get_system_name(side.system) for side in sides]
    return names if names[0] != names[1] else [f"{names[0]} (1)", f"{names[1]} (2)"]


def _verdict(row: pd.Series, names: list[str]) -> str:
    size = f"{abs(row['difference']):.3f}"
    if row["p_holm"] < _SURE:
        better, worse = names if row["difference"] > 0 else names[::-1]
        low, high = sorted([abs(row["low"]), abs(row["high"])])
        figures = {"size": size, "low": f"{low:.3f}", "high": f"{high:.3f}", "p": _equals(row["p_holm"])}
        return translate(
            "%(better)s is better than %(worse)s by %(size)s (%(low)s to %(high)s), p %(p)s.",
            better=better, worse=worse, **figures,
        )  # fmt: skip
    sentence = translate(
        "No significant difference: they differ by %(size)s, p %(p)s.", size=size, p=_equals(row["p_holm"])
    )
    if pd.isna(row["detectable"]):
        return sentence
    found = "A difference of %(size)s would be detected with a power of 0.8."
    return f"{sentence} {translate(found, size=format(row['detectable'], '.3f'))}"


def _p(value: float) -> str:
    if pd.isna(value):
        return translate("unknown")
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _equals(value: float) -> str:
    return _p(value) if value < 0.001 else f"= {_p(value)}"


def _rows(comparison: SystemComparison, names: list[str]) -> list[result_cards.TemplateData]:
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
                "strip": evaluation_plots.draw_difference_strip(row["low"], row["difference"], row["high"], widest),
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
    items: Mapping[str, result_cards.TemplateData],
    contexts: list[FailureContext],
    lead: str,
) -> result_cards.TemplateData:
    pairs = [
        result_cards.build_query_card(
            query, items, facts, result_cards.get_query_figures(side.per_query, query.query_id, [lead])
        )
        for query, side, facts in zip((one.one, one.other), sides, contexts, strict=True)
    ]
    losing = 1 if one.better == ONE else 0
    return {
        **pairs[0],
        "better": one.better,
        "difference": f"{one.difference:+.3f}",
        "sides": [{**pair, "name": name} for pair, name in zip(pairs, names, strict=True)],
        "missed": [result_cards.build_result_tile(result, items) for result in one.missed_by_both],
        "hidden_missed_count": one.hidden_missed_count,
        "causes": pairs[losing]["causes"],
        "loser": names[losing],
    }


def _bins(cards: list[result_cards.TemplateData], names: list[str]) -> list[result_cards.TemplateData]:
    """Return the query cards by the better system."""
    bins = []
    for side, name, sign in zip(SIDES, names, "◀▶", strict=True):
        mine = [card for card in cards if card["better"] == side]
        bins.append(
            {
                "bin": side,
                "title": translate("%(name)s is better", name=name),
                "sign": sign,
                "cards": mine,
                "count": len(mine),
            }
        )
    return bins
