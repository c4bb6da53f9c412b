"""Pairs of a query and a picture that nobody judged and that may well be right."""

from __future__ import annotations

import pandas as pd

from builders.benchmark_set import Tables


def open_candidate_judgments(tables: Tables) -> pd.DataFrame:
    """Those that still wait for a judgment, the surest first: without pairs that have one by now, and without those
    of a query or picture that is gone."""
    candidates = tables.candidate_judgments
    if candidates.empty:  # as in sets of millions of judgments, which need not be looked through
        return candidates
    inside = candidates["query_id"].isin(tables.queries["query_id"]) & candidates["image_id"].isin(
        tables.images["image_id"]
    )
    candidates = candidates[inside]
    judged = tables.qrels[tables.qrels["query_id"].isin(candidates["query_id"])]
    pairs = pd.MultiIndex.from_arrays([candidates["query_id"].astype("str"), candidates["image_id"].astype("str")])
    known = pd.MultiIndex.from_arrays([judged["query_id"].astype("str"), judged["image_id"].astype("str")])
    waiting = candidates[~pairs.isin(known)]
    return waiting.sort_values(["score", "query_id", "image_id"], ascending=[False, True, True], ignore_index=True)
