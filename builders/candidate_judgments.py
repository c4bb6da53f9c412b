"""Pairs of a query and an image that nobody judged and that may be relevant."""

import pandas as pd

from builders.benchmark_set import Tables


def open_candidate_judgments(tables: Tables) -> pd.DataFrame:
    """Returns the candidate judgments that still wait, those with the highest score first: without pairs that are
    judged by now, and without those of a query or image that the set no longer has."""
    candidates = tables.candidate_judgments
    if candidates.empty:  # skips the search in millions of judgments
        return candidates
    queries, images = tables.queries["query_id"], tables.images["image_id"]
    candidates = candidates[candidates["query_id"].isin(queries) & candidates["image_id"].isin(images)]
    judged = tables.qrels[tables.qrels["query_id"].isin(candidates["query_id"])]
    pairs = pd.MultiIndex.from_arrays([candidates["query_id"].astype("str"), candidates["image_id"].astype("str")])
    known = pd.MultiIndex.from_arrays([judged["query_id"].astype("str"), judged["image_id"].astype("str")])
    waiting = candidates[~pairs.isin(known)]
    return waiting.sort_values(["score", "query_id", "image_id"], ascending=[False, True, True], ignore_index=True)
