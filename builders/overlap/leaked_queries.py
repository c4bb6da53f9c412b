"""Which queries of a set are leaked: their text, or an image that is relevant for them, is in the other collection."""

import pandas as pd


def classify_queries(
    queries: pd.DataFrame, qrels: pd.DataFrame, image_ids: set[str], query_ids: set[str]
) -> pd.DataFrame:
    """Returns query_id, overlap (`leaked` or `clean`), by_image and by_text, in the order of the queries. `image_ids`
    and `query_ids` are those that have a pair."""
    relevant = qrels[(qrels["relevance"] > 0) & qrels["image_id"].astype(str).isin(image_ids)]
    by_image = queries["query_id"].isin(set(relevant["query_id"].astype(str)))
    by_text = queries["query_id"].isin(query_ids)
    overlap = (by_image | by_text).map({True: "leaked", False: "clean"})
    return pd.DataFrame(
        {"query_id": queries["query_id"], "overlap": overlap, "by_image": by_image, "by_text": by_text}
    ).reset_index(drop=True)
