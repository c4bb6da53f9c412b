"""Comparison of systems on the same queries of a set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from builders.errors import UserError
from evaluation.evaluation_result import TEXT_TO_IMAGE, EvaluationResult, SystemComparison
from evaluation.leaked_difference import compare_leaked_of_systems
from evaluation.pairwise_comparison import compare_all_pairs, compare_two_systems, make_unique_names
from evaluation.phrasing_spread import compare_phrasing_spread
from evaluation.run_evaluation import choose_metrics
from evaluation.statistics import align_clusters
from flows.evaluation_run import score_on_common_queries
from flows.pages.result_pages import write_comparison_page
from flows.scoring.judged_sets import JudgedSet, build_evaluation_view
from flows.scoring.query_slices import is_in_slice, parse_slices
from querytruth.api.evaluations import AnyRun, load_judgments, load_run
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet
from review.notebook_views import render_table

_SHOWN = ["one", "other", "metric", "difference", "low", "high", "p_holm", "wins", "ties", "losses", "detectable"]


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Systems on the same queries. `table`: a row per pair and metric with the difference, its interval, p_holm
    (corrected for all pairs), wins, ties and losses, and the smallest difference that the set can show; `pair`: the
    comparison query by query, of two systems; `leaked`: by system and pair the leaked queries less the clean ones, no
    row where `querytruth overlap` has not compared this version; `phrasings`: by pair how far the figures differ
    between phrasings of one question, no row where no question has two."""

    judged_set: JudgedSet
    results: list[EvaluationResult]
    table: pd.DataFrame
    pair: SystemComparison | None = None
    leaked: pd.DataFrame = field(default_factory=pd.DataFrame)
    phrasings: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def most_different(self) -> pd.DataFrame:
        """The queries on which two systems differ most by the first metric: query_id, text, both figures, difference.
        Raises UserError for more than two systems."""
        if self.pair is None:
            raise UserError("compare", f"{len(self.results)} systems", "are more than two", "compare two of them")
        metric, ids = str(self.table["metric"].iloc[0]), self.pair.most_different_queries
        texts, sides = self.texts, (self.pair.first, self.pair.second)
        figures = {str(side.system["name"]): side.per_query[metric].reindex(ids).tolist() for side in sides}
        differences = self.pair.differences.reindex(ids).tolist()
        return pd.DataFrame(
            {"query_id": ids, "text": [texts.get(one, one) for one in ids], **figures, "difference": differences}
        )

    @property
    def texts(self) -> dict[str, str]:
        """The texts of queries and the file names of images, by id; empty for bare judgments."""
        queries, images = self.judged_set.queries, self.judged_set.images
        if queries is None or images is None:
            return {}
        texts = dict(zip(queries["query_id"], queries["text"], strict=True))
        return texts | dict(zip(images["image_id"], images["file_name"].fillna(""), strict=True))

    def __repr__(self) -> str:
        """A line per pair and metric."""
        return "\n".join(
            f"{row.one} less {row.other}: {row.metric} {row.difference:+.4f} [{row.low:+.4f}, {row.high:+.4f}], "
            f"p {row.p_holm:.3f}"
            for row in self.table.itertuples()
        )

    def _repr_html_(self) -> str:
        names = ", ".join(dict.fromkeys(str(result.system["name"]) for result in self.results))
        return render_table(f"{names} on {len(self.results[0].per_query):,} queries", self.table[_SHOWN])


def compare(
    set_: AnySet | None,
    runs: Mapping[str, AnyRun] | Sequence[AnyRun],
    *,
    metrics: Iterable[str] = (),
    direction: str = TEXT_TO_IMAGE,
    qrels: str | Path | None = None,
    page: str | Path | None = None,
    slice_: str | None = None,
    out: str | Path = DATASETS_FOLDER,
) -> Comparison:
    """Compare two or more systems, on the queries that all their runs have. `runs`: files, result folders, data
    frames, results of `evaluate`, or a dict of these by the names of the systems. `page`: an HTML file about two
    systems; `slice_`: only the queries of an aspect=value, such as overlap=clean. Raises UserError."""
    named = list(runs.items()) if isinstance(runs, Mapping) else [(None, run) for run in runs]
    if len(named) < 2 or (page is not None and len(named) > 2):
        how_many = "two" if page is not None else "two or more"
        raise UserError("compare", f"{len(named)} runs", f"are not {how_many}", f"give {how_many} runs")
    judged = load_judgments(set_, qrels, out)
    view = build_evaluation_view(judged, direction, choose_metrics(metrics), ())
    excluded: frozenset[str] = frozenset()
    for aspect, value in parse_slices([slice_] if slice_ else [], "compare"):
        ids = pd.Index(view.query_ids.to_pylist())
        excluded |= set(ids[~is_in_slice(judged.queries, ids, aspect, value, "compare")])
    scored = score_on_common_queries(view, [load_run(run, judged, name) for name, run in named], excluded)
    results = [one.result for one in scored]
    table = compare_all_pairs(results, view.spec.clusters)
    pair = compare_two_systems(results[0], results[1], view.spec.clusters) if len(results) == 2 else None
    figures = {name: one.per_query for name, one in zip(make_unique_names(results), results, strict=True)}
    shared = align_clusters(view.spec.clusters, results[0].per_query.index)
    metric_names = list(dict.fromkeys(table["metric"]))
    leaked = compare_leaked_of_systems(figures, judged.overlap, metric_names, clusters=shared)
    phrasings = compare_phrasing_spread(figures, view.spec.queries, metric_names)
    if pair is not None and page is not None:
        write_comparison_page(replace(pair, phrasings=phrasings), view, Path(page))
    return Comparison(judged, results, table, pair, leaked, phrasings)
