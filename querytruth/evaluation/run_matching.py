"""Matches runs with a set: results that it does not know keep their ranks, results that nobody judged are pooled.

A result that the set never listed is an unjudged image: without it the next one would move up, and the figure would be
better than what a person saw. Images of another version, and those that a sample of a larger collection listed and left
out, are left out and counted (Sakai, "Alternatives to Bpref", SIGIR 2007: condensed lists). The pool is the set of
unjudged images that several runs returned first (Sparck Jones and van Rijsbergen, "Report on the need for and provision
of an 'ideal' information retrieval test collection", 1975).
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from querytruth.errors import UserError
from querytruth.evaluation.comparison import EvaluationWarning
from querytruth.evaluation.evaluation_result import LEFT_OUT_COLUMNS
from querytruth.evaluation.ground_truth import Codes, argsort_ids, factorize_ids, find_positions, mark_occurring

DEFAULT_MAX_UNKNOWN = 0.1  # of the queries, and of results that look like another form of the set's ids
_MAX_STRANGE = 0.5  # of results that look like nothing of the set's: an index may hold more than the set does
_STAGE = "read run"
_NEXT_STEP = "rank the queries and images of this set, or allow more with --max-unknown"
_PAIR = ["query_id", "image_id"]
_SHOWN = 10  # results of which it is stated how many were left out
LISTED = "ledger"  # where results stand that the set listed and left out
_UNKNOWN = {
    "query": "queries of the run are not in the set and are left out",
    "result": "result ids of the run are not in the set: they keep their ranks and count as unjudged",
}


Suggestion = Callable[[list[str]], tuple[str, bool]]  # what to do about results, and whether they are the set's


@dataclass(frozen=True, slots=True)
class RunVersion:
    """A version of the set, or LISTED: its name, such as v1, and the ids that could be queries and results."""

    name: str
    query_ids: Set[str]
    result_ids: Set[str]


@dataclass(frozen=True, slots=True)
class MatchedRun:
    """A run without queries that the set does not know. `left_out` (LEFT_OUT_COLUMNS) lists ids that are not in the
    set; unknown results stay in the run. `new_queries`: queries of the set that the run's version lacks, so that the
    run cannot answer them; `other_gallery`: the name of that version where it has other images."""

    run: pd.DataFrame
    left_out: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=LEFT_OUT_COLUMNS))
    new_queries: frozenset[str] = frozenset()
    other_gallery: str = ""
    counts: dict[str, Any] = field(default_factory=dict)
    warnings: list[EvaluationWarning] = field(default_factory=list)


def match_run(
    run: pd.DataFrame,
    query_ids: pa.Array,
    result_ids: pa.Array,
    known: Sequence[RunVersion],
    max_unknown: float | None,
    suggest: Suggestion,
) -> MatchedRun:
    """Match a run (query_id, image_id, score) with the queries and the gallery of a set. `known`: the version
    that the run was made for, if not this one, and what the set listed and left out (named LISTED). Raises
    UserError, with an id, where more than `max_unknown` (None: a tenth) of the queries, or of the results of the other
    queries (None: half, if no form of the set's ids explains them), are unknown to all of them, and where no query is
    known."""
    query, queries = factorize_ids(run["query_id"])
    image, images = factorize_ids(run["image_id"])
    is_known = find_positions(query_ids, queries) >= 0
    version = next((one for one in known if one.name != LISTED), None)
    left_out = [_list_left_out("query", query, queries, is_known, {one.name: one.query_ids for one in known})]
    _refuse_unknown(left_out[0], int(mark_occurring(query, len(queries)).sum()), max_unknown, "query", suggest)
    matched = is_known[query] | (query < 0)
    if len(run) and not matched.any():
        raise UserError(_STAGE, "run", "has no query in common with the set", "give the set that the run was made for")
    is_found = find_positions(result_ids, images) >= 0
    sources = {one.name: one.result_ids for one in known}
    left_out.append(_list_left_out("result", image[matched], images, is_found, sources))
    _refuse_unknown(left_out[1], int(matched.sum()), max_unknown, "result", suggest)
    removed = set(left_out[1].loc[left_out[1]["known_in"] != "", "id"])
    first_removed = 0
    if removed:
        first_removed = int(rank_first_results(run[matched], _SHOWN)["image_id"].isin(removed).sum())
        is_removed = np.array([name in removed for name in images.to_pylist()])
        matched &= ~is_removed[image] | (image < 0)
    new_queries: frozenset[str] = frozenset()
    other_gallery = ""
    if version is not None:
        new_queries = frozenset(name for name in query_ids.to_pylist() if name not in version.query_ids)
        other_gallery = "" if version.result_ids == set(result_ids.to_pylist()) else version.name
    table = pd.concat(left_out, ignore_index=True)
    counts = _count(table, version, new_queries, len(query_ids)) | {f"left_out_of_the_first_{_SHOWN}": first_removed}
    kept = run if matched.all() else run[matched].reset_index(drop=True)
    return MatchedRun(kept, table, new_queries, other_gallery, counts, _warn(counts, table))


def _list_left_out(
    kind: str, codes: Codes, ids: pa.Array, is_known: NDArray[np.bool_], sources: Mapping[str, Set[str]]
) -> pd.DataFrame:
    """Return the ids of the run that the set does not have (LEFT_OUT_COLUMNS); `sources`: by name of a place the ids
    that it has."""
    rows = np.bincount(codes[codes >= 0], minlength=len(ids))
    places = np.flatnonzero((rows > 0) & ~is_known)
    names = ids.take(pa.array(places)).to_pylist()
    columns = {"kind": kind, "id": names, "rows": rows[places]}
    found = [next((place for place, known in sources.items() if name in known), "") for name in names]
    return pd.DataFrame({**columns, "known_in": found}, columns=LEFT_OUT_COLUMNS).sort_values("id", ignore_index=True)


def _refuse_unknown(
    left_out: pd.DataFrame, total: int, max_unknown: float | None, kind: str, suggest: Suggestion
) -> None:
    unknown = left_out[left_out["known_in"] == ""]
    count = int(unknown["rows"].sum()) if kind == "result" else len(unknown)
    limit = DEFAULT_MAX_UNKNOWN if max_unknown is None else max_unknown
    if count <= limit * total:
        return
    reason, next_step = "is a query that is not in the set", _NEXT_STEP
    if kind == "result":
        reason, (next_step, is_explained) = "is not in the gallery", suggest(unknown["id"].astype(str).tolist())
        limit = _MAX_STRANGE if max_unknown is None and not is_explained else limit
        if count <= limit * total:
            return
    more = f", like {count:,} of {total:,} {'queries' if kind == 'query' else 'results'} of the run"
    raise UserError(_STAGE, unknown["id"].iloc[0], f"{reason}{more}; the limit is {limit:.1%}", next_step)


def _count(table: pd.DataFrame, version: RunVersion | None, new: frozenset[str], queries: int) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    if version is not None:
        counts = {"run_of_version": version.name, "queries_in_both_versions": queries - len(new)}
        counts["queries_only_in_this_version"] = len(new)
    for kind, plural in (("query", "queries"), ("result", "results")):
        places = table.loc[table["kind"] == kind, "known_in"]
        if version is not None:
            counts[f"{plural}_only_in_the_other_version"] = int((places == version.name).sum())
        counts[f"unknown_{plural}"] = int((places == "").sum())
    counts["results_left_out"] = int(table.loc[table["known_in"] == LISTED, "rows"].sum())
    return counts


def _warn(counts: dict[str, Any], table: pd.DataFrame) -> list[EvaluationWarning]:
    warnings = []
    if (name := counts.get("run_of_version")) is not None:
        detail = (
            f"the run was made on {name}: the figures cover the {counts['queries_in_both_versions']:,} queries that "
            f"both versions have; {counts['queries_only_in_this_version']:,} are only in this version, "
            f"{counts['queries_only_in_the_other_version']:,} only in {name}"
        )
        warnings.append(EvaluationWarning("other_version", "", detail))
    for kind, what in _UNKNOWN.items():
        unknown = table[(table["kind"] == kind) & (table["known_in"] == "")]
        if len(unknown):
            detail = f"{len(unknown):,} {what} (such as {unknown['id'].iloc[0]})"
            warnings.append(EvaluationWarning("unknown_ids", "", detail))
    if removed := counts["results_left_out"]:
        closes = f"({counts[f'left_out_of_the_first_{_SHOWN}']:,} of them in the first {_SHOWN})"
        detail = f"{removed:,} results that the set left out are removed, and the ranks close up {closes}"
        warnings.append(EvaluationWarning("condensed", "", detail))
    return warnings


def rank_first_results(run: pd.DataFrame, depth: int) -> pd.DataFrame:
    """Return the first `depth` results of each query of a run (query_id, image_id, score) with their `rank` from 1:
    by score, ties by image id, highest first, as `rank_run` does."""
    query, query_ids = factorize_ids(run["query_id"])
    image, image_ids = factorize_ids(run["image_id"])
    id_rank = np.argsort(argsort_ids(image_ids))
    order = np.lexsort((-id_rank[image], -run["score"].to_numpy(dtype=np.float64), query))
    query, image = query[order], image[order]
    rank = np.arange(1, len(query) + 1) - np.searchsorted(query, query)
    first = rank <= depth
    ids = (query_ids.take(pa.array(query[first])), image_ids.take(pa.array(image[first])))
    return pd.DataFrame(
        {**{name: part.to_pylist() for name, part in zip(_PAIR, ids, strict=True)}, "rank": rank[first]}
    )


def pool_unjudged_pairs(
    ranked_runs: Sequence[pd.DataFrame], qrels: pd.DataFrame, equivalent: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    """Return the pairs of all runs (query_id, image_id, rank) that `qrels` does not have: query_id, image_id and
    `best_rank`, by that rank, then by id. The source run of a pair stays hidden.

    `equivalent`: queries with the same meaning by query id; their pairs count once, for the first of them. It waits
    where the pair of any of them does.
    """
    results = pd.concat([pd.DataFrame({name: [] for name in [*_PAIR, "rank"]}), *ranked_runs], ignore_index=True)
    best = results.groupby(_PAIR, sort=False)["rank"].min()
    judged = qrels.loc[qrels["query_id"].isin(results["query_id"]), _PAIR].astype("str")
    unjudged = best[~best.index.isin(pd.MultiIndex.from_frame(judged))].rename("best_rank").reset_index()
    unjudged["query_id"] = [equivalent.get(query_id, (query_id,))[0] for query_id in unjudged["query_id"]]
    pool = unjudged.groupby(_PAIR, sort=False, as_index=False)["best_rank"].min()
    return pool.astype({"best_rank": "int64"}).sort_values(["best_rank", *_PAIR], ignore_index=True)
