"""Matches the ids of a run with those of a set: what neither the set nor an earlier version of it knows is left out of
the figures, counted and listed, up to a stated share."""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from builders.errors import UserError
from evaluation.comparison import EvaluationWarning
from evaluation.evaluation_result import LEFT_OUT_COLUMNS
from evaluation.identifiers import Codes, factorize_ids, find_positions, mark_occurring

DEFAULT_MAX_UNKNOWN = 0.1
_STAGE = "read run"
_NEXT_STEP = "rank this set's queries and images, or allow more with --max-unknown"


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
) -> MatchedRun:
    """Matches a run (query_id, image_id, score) with the queries and the gallery of a set. `version`: the one that the
    run was made for, None for this one. Raises UserError, with an id, where more than `max_unknown` of the queries, or
    of the results of the other queries, are unknown to the set and to `version`, and where no query is known."""
    query, queries = factorize_ids(run["query_id"])
    image, images = factorize_ids(run["image_id"])
    is_known = find_positions(query_ids, queries) >= 0
    earlier = version or RunVersion("", frozenset(), frozenset())
    left_out = [_list_left_out("query", query, queries, is_known, earlier.query_ids, earlier.name)]
    _refuse_unknown(left_out[0], int(mark_occurring(query, len(queries)).sum()), max_unknown, "query", weights=False)
    matched = is_known[query] | (query < 0)
    if not matched.any():
        raise UserError(_STAGE, "run", "has no query in common with the set", "name the set that it was made for")
    is_found = find_positions(result_ids, images) >= 0
    left_out.append(_list_left_out("result", image[matched], images, is_found, earlier.result_ids, earlier.name))
    _refuse_unknown(left_out[1], int(matched.sum()), max_unknown, "result", weights=True)
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


def _refuse_unknown(left_out: pd.DataFrame, total: int, limit: float, kind: str, *, weights: bool) -> None:
    unknown = left_out[left_out["known_in"] == ""]
    count = int(unknown["rows"].sum()) if weights else len(unknown)
    if count <= limit * total:
        return
    reason = "is a query that the set does not know" if kind == "query" else "is not in the gallery"
    more = f", like {count:,} of {total:,} {'queries' if kind == 'query' else 'results'} of the run"
    raise UserError(_STAGE, unknown["id"].iloc[0], f"{reason}{more}; at most {limit:.1%} may be", _NEXT_STEP)


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
