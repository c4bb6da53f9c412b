"""The queries that the page of an evaluation shows, the same whenever the figures are, and a drawing of where it fails.

A query is a success where a relevant image ranks first, in the middle where one is among the first five, else a
failure. The drawing has the families and kinds of questions.
"""

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from querytruth.evaluation.comparison import SHORTCUT_COLUMNS
from querytruth.evaluation.evaluation_result import EvaluationResult
from querytruth.records import stable_hash
from querytruth.review.page_parts import name_part, text_or_empty
from querytruth.review.vega_lite import ACCENT, SOFT, WARM, VegaSpec, draw_svg, shorten_labels

SUCCESS, MIDDLE, FAILURE = BINS = ("success", "middle", "failure")
MIDDLE_MAX_RANK = 5  # the last rank of the middle
_QUERIES = {SUCCESS: 6, MIDDLE: 10, FAILURE: 16}  # failures are more informative than successes
_JUDGMENTS = ["query_id", "image_id", "relevance", "evidence"]
_WIDTH, _STEP = 170, 22
_MOST_KINDS = 6  # of a family, that have a line each
_NAME = 24  # columns of the longest name of a system
_NEGATIVES = re.compile(r"neg@(\d+)")
_DEPTH = 10  # or the cut next to it
_EXPLAINED = {
    "right": "relevant images: more is better",
    "negatives": "explicit negatives among the first results: fewer is better",
    "kept": "wrong images that stay when number, size, place, “without” or attribute is added: fewer is better",
}
_AXIS = {"ticks": False, "domain": False, "labelPadding": 8}  # beside a dot at 0
_Q: VegaSpec = {"type": "quantitative"}


@dataclass(frozen=True, slots=True)
class ItemJudgment:
    """The judgment of an image: its grade, -1 where it is unjudged, and the evidence."""

    relevance: int
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class RankedItem:
    """A returned image. For a relevant image that was not returned, `score` is NaN and `rank` is None."""

    item_id: str
    rank: int | None
    score: float
    judgment: ItemJudgment


@dataclass(frozen=True, slots=True)
class SelectedQuery:
    """A query with its first results and the relevant images that are not among them. `first_relevant_rank`: None where
    no result is relevant; `relevant_count`: the number of relevant images of the query."""

    query_id: str
    bin: str
    first_relevant_rank: int | None
    relevant_count: int
    results: tuple[RankedItem, ...]
    missed_relevant: tuple[RankedItem, ...]
    hidden_missed_count: int  # missed ones that are not shown


@dataclass(frozen=True, slots=True)
class EvaluationSelection:
    """The queries shown and the number of queries per bin; `run_depth`: the number of results per query in the run."""

    queries_by_bin: dict[str, list[SelectedQuery]]
    bin_sizes: dict[str, int]
    run_depth: int

    @property
    def queries(self) -> list[SelectedQuery]:
        return [one for queries in self.queries_by_bin.values() for one in queries]

    @property
    def ids(self) -> list[str]:
        """Return the ids of all queries and items shown, once, in the order of the page."""
        return collect_ids(self.queries)


def collect_ids(queries: Sequence[SelectedQuery]) -> list[str]:
    """Return the ids of the queries and their items, once, in order."""
    ids: list[str] = []
    for one in queries:
        ids += [one.query_id, *(item.item_id for item in one.results + one.missed_relevant)]
    return list(dict.fromkeys(ids))


def assign_bins(query_ids: Sequence[str], ranked: pd.DataFrame) -> pd.Series:
    """Return the bin of each query by id; a query without results is a failure."""
    right = ranked[ranked["relevance"] > 0]
    first = right.groupby(right["query_id"].astype("str"))["rank"].min().reindex(list(query_ids))
    bins = np.select([first == 1, first <= MIDDLE_MAX_RANK], [SUCCESS, MIDDLE], FAILURE)
    return pd.Series(bins, index=pd.Index(query_ids, dtype="str"), dtype="str")


def select_report_queries(
    query_ids: Sequence[str],
    ranked: pd.DataFrame,
    qrels: pd.DataFrame | None,
    *,
    queries: Mapping[str, int] = _QUERIES,
    results: int = 10,
    missed: int = 4,
) -> EvaluationSelection:
    """Select queries of each bin by a hash of their ids. `ranked`: query_id, rank, image_id, score, relevance; `qrels`
    are None without a set."""
    bins = assign_bins(query_ids, ranked)
    chosen = {name: _sample([str(one) for one in bins.index[bins == name]], queries[name]) for name in BINS}
    ids = [one for sampled in chosen.values() for one in sampled]
    shown = build_selected_queries(ids, ranked, qrels, results=results, missed=missed)
    by_id = {one.query_id: one for one in shown}
    return EvaluationSelection(
        {name: [by_id[one] for one in sampled] for name, sampled in chosen.items()},
        {name: int((bins == name).sum()) for name in BINS},
        int(ranked["rank"].max()) if len(ranked) else 0,
    )


def build_selected_queries(
    query_ids: Sequence[str], ranked: pd.DataFrame, qrels: pd.DataFrame | None, *, results: int, missed: int
) -> list[SelectedQuery]:
    """Return these queries with their results, in this order."""
    mine = ranked[ranked["query_id"].isin(query_ids)].sort_values(["query_id", "rank"])
    rows = {str(name): list(part.itertuples(index=False)) for name, part in mine.groupby("query_id", observed=True)}
    truth = collect_judgments(query_ids, qrels)
    return [_selected_query(name, rows.get(name, []), truth.get(name, {}), results, missed) for name in query_ids]


def collect_judgments(query_ids: Sequence[str], qrels: pd.DataFrame | None) -> dict[str, dict[str, ItemJudgment]]:
    """Return the judgments by query and image."""
    by_query: dict[str, dict[str, ItemJudgment]] = {}
    if qrels is None:
        return by_query
    columns = [name for name in _JUDGMENTS if name in qrels]
    for row in qrels.loc[qrels["query_id"].isin(query_ids), columns].astype("object").itertuples(index=False):
        judged = ItemJudgment(int(row.relevance), text_or_empty(getattr(row, "evidence", "")))
        by_query.setdefault(str(row.query_id), {})[str(row.image_id)] = judged
    return by_query


def _sample(query_ids: list[str], number: int) -> list[str]:
    return heapq.nsmallest(number, query_ids, key=lambda name: (stable_hash("report", name), name))


def _selected_query(
    query_id: str, rows: list[Any], truth: dict[str, ItemJudgment], number: int, missed: int
) -> SelectedQuery:
    listed = [_result(row, truth) for row in rows]
    first = next((result.rank for result in listed if result.judgment.relevance > 0), None)
    shown = tuple(listed[:number])
    missed_items = _missed(query_id, listed, {result.item_id for result in shown}, truth)
    right = {name for name, judged in truth.items() if judged.relevance > 0}
    right |= {result.item_id for result in listed if result.judgment.relevance > 0}
    where = SUCCESS if first == 1 else MIDDLE if first is not None and first <= MIDDLE_MAX_RANK else FAILURE
    return SelectedQuery(
        query_id, where, first, len(right), shown, tuple(missed_items[:missed]), len(missed_items[missed:])
    )


def _result(row: Any, truth: dict[str, ItemJudgment]) -> RankedItem:
    """Return a result with the grade of the ranking and the evidence of the set."""
    name, grade = str(row.image_id), int(row.relevance)
    judged = replace(truth.get(name, ItemJudgment(grade)), relevance=grade)
    return RankedItem(name, int(row.rank), float(row.score), judged)


def _missed(
    query_id: str, listed: list[RankedItem], shown: set[str], truth: dict[str, ItemJudgment]
) -> list[RankedItem]:
    """Return the relevant items not shown: the highest grade first, then by rank, then by hash."""
    known = {result.item_id: result for result in listed}
    missed_items = [
        known.get(name, RankedItem(name, None, float("nan"), judged))
        for name, judged in truth.items()
        if judged.relevance > 0 and name not in shown
    ]
    missed_items += [
        r for r in listed if r.judgment.relevance > 0 and r.item_id not in shown and r.item_id not in truth
    ]

    def order(one: RankedItem) -> tuple[Any, ...]:
        rank = one.rank if one.rank is not None else np.inf
        return -one.judgment.relevance, rank, stable_hash("report", query_id, one.item_id), one.item_id

    return sorted(missed_items, key=order)


def draw_family_profile(systems: Mapping[str, EvaluationResult], metric: str) -> dict[str, Any] | None:
    """Return the panels (metric, explanation) and their plot: for each kind of question (of a family with many, for
    all together) the mean and the interval of p@10 (else of the metric), of the explicit negatives among the first
    results, and of those that a shortcut keeps. None where the set has no families."""
    rows = pd.concat([one.slices.assign(system=name) for name, one in systems.items()], ignore_index=True)
    rows = _choose_rows(rows)
    if not len(rows):
        return None
    best = f"p@{_DEPTH}" if (rows["metric"] == f"p@{_DEPTH}").any() else metric
    chosen = {"right": best, "negatives": _choose_cut(rows["metric"]), "kept": SHORTCUT_COLUMNS[1]}
    label = shorten_labels(systems, _NAME)
    kinds = [name_part("kind", value) for value in sorted(rows["value"].unique().tolist())]
    panels, plots, descriptions = [], [], []
    for name, shown in chosen.items():
        mine = rows[rows["metric"] == shown]
        if len(mine):
            panels.append((shown, _EXPLAINED[name]))
            plots.append(_panel(mine, shown, label, kinds))
            descriptions.append(f"{shown}: {_describe(mine, len(systems) > 1)}")
    return {"panels": panels, "plot": draw_svg({"vconcat": plots, "spacing": 14}, "; ".join(descriptions))}


def _choose_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the kinds; of a family with many (attribute/red, attribute/wooden …) those of the family."""
    is_kind, is_family = rows["slice"] == "kind", rows["slice"] == "family"
    family = rows["value"].astype("str").str.split("/").str[0]
    kinds = rows["value"][is_kind].groupby(family[is_kind]).nunique()
    has_many = family.isin(kinds.index[kinds > _MOST_KINDS])
    return rows[(is_kind & ~has_many) | (is_family & has_many)]


def _choose_cut(metrics: pd.Series) -> str:
    cuts = [int(match[1]) for name in metrics.unique() if (match := _NEGATIVES.fullmatch(name))]
    return f"neg@{min(cuts, key=lambda cut: (abs(cut - _DEPTH), cut))}" if cuts else ""


def _panel(rows: pd.DataFrame, title: str, label: Mapping[str, str], kinds: list[str]) -> VegaSpec:
    """Return a dot per kind and system on the line of its interval."""
    values = [
        {"kind": name_part("kind", row.value), "system": label[row.system], "queries": f"{row.queries:,}"}
        | {name: float(getattr(row, name)) for name in ("mean", "low", "high")}
        for row in rows.itertuples(index=False)
    ]
    names = list(label.values())
    scale = {"domain": names, "range": [ACCENT, WARM][: len(names)]}
    legend = {} if len(names) > 1 else {"legend": None}
    colour = {"color": {"field": "system", "type": "nominal", "scale": scale, "title": None, **legend}}
    shape = {"shape": {"field": "system", "type": "nominal", "scale": {"domain": names}, "title": None, **legend}}
    y = {"field": "kind", "type": "nominal", "sort": kinds, "title": None, "axis": _AXIS}
    offset = {"yOffset": {"field": "system", "type": "nominal", "sort": names}} if len(names) > 1 else {}
    middle = {"yOffset": {"value": _STEP / 2}} if len(names) > 1 else {}
    share = {"domain": [0, 1]}
    x = {"field": "mean", **_Q, "scale": share, "title": None, "axis": {"tickCount": 5, "grid": True}}
    layers: list[VegaSpec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.45},
            "encoding": {"x": {"field": "low", **_Q, "scale": share, "title": None}, "x2": {"field": "high"}, **colour},
        },
        {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1}, "encoding": {"x": x, **colour, **shape}},
        {
            "transform": [{"filter": {"field": "system", "equal": names[0]}}],
            "mark": {"type": "text", "align": "right", "color": SOFT, "fontSize": 11},
            "encoding": {"x": {"value": _WIDTH + 34}, "text": {"field": "queries"}, **middle},
        },
    ]
    return {
        "title": {"text": title, "fontSize": 12, "fontWeight": "normal", "color": SOFT, "anchor": "start"},
        "data": {"values": values},
        "width": _WIDTH,
        "height": _STEP * len(kinds),
        "encoding": {"y": {**y, "scale": {"domain": kinds}}, **offset},
        "layer": layers,
    }


def _describe(rows: pd.DataFrame, is_pair: bool) -> str:
    return ", ".join(
        f"{name_part('kind', row.value)} {row.mean:.2f}" + (f" {row.system}" if is_pair else "")
        for row in rows.itertuples(index=False)
    )
