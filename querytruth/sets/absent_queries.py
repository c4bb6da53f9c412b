"""Queries that the gallery has no answer to: judged as deep as a pool goes, and nothing is relevant.

People ask for what an album does not hold. In a set of own queries that is an answer, not a defect: a search that shows
nothing is right. Sets whose queries were written of their images have no such query: one without a relevant image left
is rejected there.
"""

import pandas as pd

ABSENT_DEPTH = 10  # judged images from which nothing relevant means that there is none: what `review` pools of a run


def is_sampled(queries: pd.DataFrame) -> pd.Series:
    """Return whether each query was drawn from people's own queries."""
    return queries["stratum"].notna() if "stratum" in queries else pd.Series(False, index=queries.index)


def list_absent(queries: pd.DataFrame, qrels: pd.DataFrame, gallery_size: int) -> list[str]:
    """Return the sorted ids of the set's own queries without a relevant image of which ABSENT_DEPTH images or more are
    judged (or the whole gallery, if that is smaller)."""
    rows = qrels[qrels["query_id"].isin(queries.loc[is_sampled(queries), "query_id"])]
    judged = rows.groupby(rows["query_id"].astype("str"))["relevance"].agg(["size", "max"])
    return sorted(judged.index[(judged["size"] >= min(ABSENT_DEPTH, gallery_size)) & (judged["max"] <= 0)])
