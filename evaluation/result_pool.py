"""The pool of results to judge: what several runs returned first and nobody judged (Sparck Jones and van Rijsbergen,
"Report on the need for and provision of an 'ideal' information retrieval test collection", 1975)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from evaluation.identifiers import argsort_ids, factorize_ids

_PAIR = ["query_id", "image_id"]


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
