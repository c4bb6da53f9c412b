"""Matches runs with a set: ids that nothing knows are left out and counted, results that nobody judged are pooled.

What neither the set nor an earlier version of it knows is left out of the figures, up to a stated share. The pool is
what several runs returned first and nobody judged (Sparck Jones and van Rijsbergen, "Report on the need for and
provision of an 'ideal' information retrieval test collection", 1975).
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

DEFAULT_MAX_UNKNOWN = 0.1
_STAGE = "read run"
_NEXT_STEP = "rank this set's queries and images, or allow more with --max-unknown"
_PAIR = ["query_id", "image_id"]
_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".heic", ".tif", ".tiff")


Suggestion = Callable[[list[str]], str | None]  # what to do about results of these ids


def _knows_none(_ids: list[str]) -> None:
    return None


@dataclass(frozen=True, slots=True)
class RunVersion:
    """The version of the set that a run was made for: its name, such as v1, and the ids that could be queries and
    results."""

    name: str
    query_ids: Set[str]
    result_ids: Set[str]


@dataclass(frozen=True, slots=True)
class MatchedRun:
    """A run without the rows that the set does not know. `left_out` (LEFT_OUT_COLUMNS) lists their ids; `new_queries`:
    queries of the set that the run's version lacks, so that the run cannot answer them."""

    run: pd.DataFrame
    left_out: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=LEFT_OUT_COLUMNS))
    new_queries: frozenset[str] = frozenset()
    counts: dict[str, Any] = field(default_factory=dict)
    warnings: list[EvaluationWarning] = field(default_factory=list)


def match_run(
    run: pd.DataFrame,
    query_ids: pa.Array,
    result_ids: pa.Array,
    version: RunVersion | None = None,
    max_unknown: float = DEFAULT_MAX_UNKNOWN,
    suggest: Suggestion = _knows_none,
) -> MatchedRun:
    """Matches a run (query_id, image_id, score) with the queries and the gallery of a set. `version`: the one that the
    run was made for, None for this one. Raises UserError, with an id, where more than `max_unknown` of the queries, or
    of the results of the other queries, are unknown to the set and to `version`, and where no query is known.
    `suggest`: the next step for results of these ids, None where it knows none."""
    query, queries = factorize_ids(run["query_id"])
    image, images = factorize_ids(run["image_id"])
    is_known = find_positions(query_ids, queries) >= 0
    earlier = version or RunVersion("", frozenset(), frozenset())
    left_out = [_list_left_out("query", query, queries, is_known, earlier.query_ids, earlier.name)]
    _refuse_unknown(left_out[0], int(mark_occurring(query, len(queries)).sum()), max_unknown, "query")
    matched = is_known[query] | (query < 0)
    if not matched.any():
        raise UserError(_STAGE, "run", "has no query in common with the set", "name the set that it was made for")
    is_found = find_positions(result_ids, images) >= 0
    left_out.append(_list_left_out("result", image[matched], images, is_found, earlier.result_ids, earlier.name))
    _refuse_unknown(left_out[1], int(matched.sum()), max_unknown, "result", suggest)
    matched &= is_found[image] | (image < 0)
    new_queries: frozenset[str] = frozenset()
    if version is not None:
        new_queries = frozenset(name for name in query_ids.to_pylist() if name not in version.query_ids)
    table = pd.concat(left_out, ignore_index=True)
    counts = _count(table, version, new_queries, len(query_ids)) | {"max_unknown_share": max_unknown}
    kept = run if matched.all() else run[matched].reset_index(drop=True)
    return MatchedRun(kept, table, new_queries, counts, _warn(counts, table))


def _list_left_out(
    kind: str, codes: Codes, ids: pa.Array, is_known: NDArray[np.bool_], earlier: Set[str], version: str
) -> pd.DataFrame:
    rows = np.bincount(codes[codes >= 0], minlength=len(ids))
    places = np.flatnonzero((rows > 0) & ~is_known)
    names = ids.take(pa.array(places)).to_pylist()
    columns = {"kind": kind, "id": names, "rows": rows[places]}
    found = [version if name in earlier else "" for name in names]
    return pd.DataFrame({**columns, "known_in": found}, columns=LEFT_OUT_COLUMNS).sort_values("id", ignore_index=True)


def _refuse_unknown(
    left_out: pd.DataFrame, total: int, limit: float, kind: str, suggest: Suggestion = _knows_none
) -> None:
    unknown = left_out[left_out["known_in"] == ""]
    count = int(unknown["rows"].sum()) if kind == "result" else len(unknown)
    if count <= limit * total:
        return
    reason = "is a query that the set does not know" if kind == "query" else "is not in the gallery"
    more = f", like {count:,} of {total:,} {'queries' if kind == 'query' else 'results'} of the run"
    first = str(unknown["id"].iloc[0])
    next_step = suggest(unknown["id"].astype(str).tolist()) or _NEXT_STEP
    if next_step == _NEXT_STEP and kind == "result" and first.lower().endswith(_IMAGE_SUFFIXES):
        next_step = "say that the run names files: --ids file_name"
    raise UserError(_STAGE, first, f"{reason}{more}; at most {limit:.1%} may be", next_step)


def _count(table: pd.DataFrame, version: RunVersion | None, new: frozenset[str], queries: int) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    if version is not None:
        counts = {"run_of_version": version.name, "queries_in_both_versions": queries - len(new)}
        counts["queries_only_in_this_version"] = len(new)
    for kind, plural in (("query", "queries"), ("result", "results")):
        is_unknown = table.loc[table["kind"] == kind, "known_in"] == ""
        if version is not None:
            counts[f"{plural}_only_in_the_other_version"] = int((~is_unknown).sum())
        counts[f"unknown_{plural}"] = int(is_unknown.sum())
    return counts


def _warn(counts: dict[str, Any], table: pd.DataFrame) -> list[EvaluationWarning]:
    warnings = []
    if (name := counts.get("run_of_version")) is not None:
        detail = (
            f"the run is one of {name}: the figures are of the {counts['queries_in_both_versions']:,} queries that "
            f"both versions have; {counts['queries_only_in_this_version']:,} are only in this version, "
            f"{counts['queries_only_in_the_other_version']:,} only in {name}"
        )
        warnings.append(EvaluationWarning("other_version", "", detail))
    unknown = table[table["known_in"] == ""]
    if len(unknown):
        detail = (
            f"{counts['unknown_queries']:,} queries and {counts['unknown_results']:,} result ids of the run are not in "
            f"the set and are left out (such as {unknown['id'].iloc[0]})"
        )
        warnings.append(EvaluationWarning("unknown_ids", "", detail))
    return warnings


def rank_first_results(run: pd.DataFrame, depth: int) -> pd.DataFrame:
    """Returns the first `depth` results of each query of a run (query_id, image_id, score) with their `rank` from 1:
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
    """Returns the pairs of all runs (query_id, image_id, rank) that `qrels` does not have: query_id, image_id and
    `best_rank`, by that rank, then by id. Nothing tells which run returned a pair.

    `equivalent`: by query id the queries that ask the same; their pairs are one, of the first of them. It waits where
    the pair of any of them does.
    """
    results = pd.concat([pd.DataFrame({name: [] for name in [*_PAIR, "rank"]}), *ranked_runs], ignore_index=True)
    best = results.groupby(_PAIR, sort=False)["rank"].min()
    judged = qrels.loc[qrels["query_id"].isin(results["query_id"]), _PAIR].astype("str")
    unjudged = best[~best.index.isin(pd.MultiIndex.from_frame(judged))].rename("best_rank").reset_index()
    unjudged["query_id"] = [equivalent.get(query_id, (query_id,))[0] for query_id in unjudged["query_id"]]
    pool = unjudged.groupby(_PAIR, sort=False, as_index=False)["best_rank"].min()
    return pool.astype({"best_rank": "int64"}).sort_values(["best_rank", *_PAIR], ignore_index=True)
