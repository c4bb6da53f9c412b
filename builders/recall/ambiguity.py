"""Resolves the ambiguity of queries that fit other images than their own.

An ambiguous query makes relevant images count as wrong. The policies: `drop` rejects the query, `merge` makes its
confusable images relevant, `review` leaves the pairs to reviewers, `judge` merges what a judge is sure of
(`see_through_judge`). `recaption` first requests another caption
(`build_recaption_requests`), then applies one of the others. A query with an override is never rejected.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from builders.judged_pairs import JudgedPairs
from builders.recall.caption_index import group_images
from builders.recall.confusable_images import ConfusableImages
from querytruth.records import drop_unused_categories
from querytruth.sets.ledger import rejection_rows

AMBIGUITY_POLICIES = ("drop", "merge", "review")
REVIEW_COLUMNS = ["query_id", "text", "image_id", "score", "evidence"]


@dataclass(frozen=True, slots=True)
class ResolvedAmbiguity:
    """The tables after the policy. `rejections`: ledger rows of the rejected queries; `ambiguous_pairs`: pairs of query
    and image that may fit and that nobody judged (REVIEW_COLUMNS); `figures`: counts and shares before and after."""

    queries: pd.DataFrame
    qrels: pd.DataFrame
    rejections: pd.DataFrame
    ambiguous_pairs: pd.DataFrame
    figures: dict[str, Any]


def resolve_ambiguity(
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    images: pd.DataFrame,
    confusables: ConfusableImages,
    policy: str,
    *,
    duplicates: pd.DataFrame | None = None,
    override_ids: frozenset[str] = frozenset(),
) -> ResolvedAmbiguity:
    """Return the tables after the policy, sorted by id. Raises ValueError for an unknown policy.

    `merge` makes each confusable image above the threshold whose words agree with the query (`is_mergeable`) relevant
    (grade 1, judged by caption), with all images of its duplicate group; the others wait for people. It rejects a query
    with more confusable images than are listed (`too_many_rivals`: its ground truth would be incomplete) and a query
    with the text and the ground truth of another (`repeated_query`; the smallest id is accepted). The queries
    `override_ids` are accepted with their ground truth unchanged.
    """
    if policy not in AMBIGUITY_POLICIES:
        raise ValueError(f"unknown policy {policy!r}; use one of {', '.join(AMBIGUITY_POLICIES)}")
    to_reject = {
        "drop": confusables.ambiguous_query_ids,
        "merge": confusables.crowded_query_ids,
        "review": frozenset(),
    }[policy]
    rejected_ids, overridden = to_reject - override_ids, to_reject & override_ids
    reason = "ambiguous" if policy == "drop" else "too_many_rivals"
    rejections = [_rejections(queries, rejected_ids, reason, confusables)]
    kept, truth = _without(queries, qrels, rejected_ids)
    if policy == "merge":
        truth = _merged(kept, truth, images, confusables, duplicates, unmerged_ids=overridden)
        repeated = _repeated(kept, truth, override_ids)
        rejections.append(_rejections(kept, repeated, "repeated_query", confusables))
        kept, truth = _without(kept, truth, repeated)
    left = confusables.ambiguous_query_ids if policy == "review" else overridden
    if policy == "merge":
        is_mergeable = confusables.table["is_mergeable"].to_numpy(dtype=bool)
        left = left | frozenset(confusables.table.loc[~is_mergeable, "query_id"])
    figures: dict[str, Any] = {
        "policy": policy,
        "before": count_ambiguous(queries, confusables.ambiguous_query_ids),
        "after": count_ambiguous(kept, left),
        "rivals": len(confusables.table),
    }
    if overridden:
        figures["rescued"] = len(overridden)
    marked = _ambiguous_pairs(kept, confusables, policy)
    truth = drop_unused_categories(truth)
    return ResolvedAmbiguity(kept, truth, pd.concat(rejections, ignore_index=True), marked, figures)


def see_through_judge(confusables: ConfusableImages, judged: JudgedPairs) -> ConfusableImages:
    """Return the candidates with the probabilities of a judge, in the order of these; a pair is mergeable where it is
    sure."""
    pairs, seen = confusables.candidates, judged.pairs
    is_known = seen["chance"].notna().to_numpy()
    table = pairs.assign(
        score=np.where(is_known, seen["chance"], pairs["score"]),
        is_mergeable=seen["is_sure"].to_numpy(),
        evidence=[f"{own} ({why})" if own else why for own, why in zip(seen["says"], pairs["evidence"], strict=True)],
    ).sort_values(["query_id", "score", "image_id"], ascending=[True, False, True], ignore_index=True)
    sure = table[table["score"] >= confusables.min_score]
    ids = frozenset(sure["query_id"])
    return ConfusableImages(sure, ids, frozenset(), confusables.min_score, table, confusables.lines, "judge")


def count_ambiguous(queries: pd.DataFrame, ambiguous: frozenset[str]) -> dict[str, Any]:
    """Return the number of queries, and the number and share of the ambiguous ones."""
    count = int(queries["query_id"].isin(ambiguous).sum())
    share = round(count / len(queries), 4) if len(queries) else 0.0
    return {"queries": len(queries), "ambiguous": count, "share": share}


def build_recaption_requests(
    queries: pd.DataFrame,
    confusables: ConfusableImages,
    descriptions: pd.DataFrame | None = None,
    *,
    final_query_ids: Collection[str] = (),
) -> pd.DataFrame:
    """Return a row per ambiguous query: query_id, text, rivals (the distinct captions of its confusable images, the
    highest score first; the description where an image has no caption). The queries `final_query_ids` are left out."""
    texts = dict(zip(queries["query_id"], queries["text"], strict=True))
    described = {} if descriptions is None else dict(zip(descriptions["image_id"], descriptions["text"], strict=True))
    requested_ids = sorted(confusables.ambiguous_query_ids.difference(final_query_ids))
    texts_by_query: dict[str, dict[str, None]] = {query_id: {} for query_id in requested_ids}
    for row in confusables.table.itertuples(index=False):
        if row.query_id not in texts_by_query:
            continue
        text = described.get(row.image_id) if pd.isna(row.confusable_query_id) else texts[row.confusable_query_id]
        if text is not None:
            texts_by_query[row.query_id][text] = None
    return pd.DataFrame(
        {
            "query_id": requested_ids,
            "text": [texts[query_id] for query_id in requested_ids],
            "rivals": pd.Series([list(captions) for captions in texts_by_query.values()], dtype=object),
        }
    )


def _without(
    queries: pd.DataFrame, qrels: pd.DataFrame, removed_ids: frozenset[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    kept = queries[~queries["query_id"].isin(removed_ids)].sort_values("query_id", ignore_index=True)
    return kept, qrels[~qrels["query_id"].isin(removed_ids)].reset_index(drop=True)


def _rejections(
    queries: pd.DataFrame, rejected_ids: frozenset[str], reason: str, confusables: ConfusableImages
) -> pd.DataFrame:
    rejected = queries[queries["query_id"].isin(rejected_ids)].sort_values("query_id")
    best = confusables.table.drop_duplicates("query_id").set_index("query_id")
    confusable = best.reindex(rejected["query_id"]).set_axis(rejected.index)
    has_score = confusable["score"].notna()
    return rejection_rows(
        rejected["query_id"],
        "rejected",
        reason,
        item_id=rejected["query_id"],
        measure=pd.Series("confusability", rejected.index).where(has_score),
        value=confusable["score"],
        threshold=pd.Series(confusables.min_score, rejected.index).where(has_score),
        related_item=confusable["image_id"],
        image_id=rejected.get("source_image_id"),
        language=rejected["language"],
        text=rejected["text"],
        detail=confusable["evidence"],
    )


def _merged(
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    images: pd.DataFrame,
    confusables: ConfusableImages,
    duplicates: pd.DataFrame | None,
    *,
    unmerged_ids: frozenset[str],
) -> pd.DataFrame:
    """Return the judgments with one more for each unjudged confusable image; the queries `unmerged_ids` get none."""
    sure = confusables.table
    sure = sure[sure["is_mergeable"].to_numpy(dtype=bool)]
    sure = sure[sure["query_id"].isin(queries["query_id"]) & ~sure["query_id"].isin(unmerged_ids)]
    groups = pd.DataFrame({"image_id": images["image_id"], "group": group_images(images, duplicates)})
    grouped = sure[["query_id", "image_id", "evidence"]].merge(groups, on="image_id")
    more = grouped.drop(columns="image_id").merge(groups, on="group").drop(columns="group")
    more = more.assign(relevance=np.int8(1), judged_by=confusables.judged_by)
    names = ["query_id", "image_id", "judged_by", "evidence"]
    plain = qrels.astype(dict.fromkeys(names, "object"))
    both = pd.concat([plain, more], ignore_index=True).drop_duplicates(["query_id", "image_id"])
    both = both.sort_values(["query_id", "image_id"], ignore_index=True)
    return both.astype({**dict.fromkeys(names, "category"), "relevance": np.int8})[list(qrels.columns)]


def _repeated(queries: pd.DataFrame, qrels: pd.DataFrame, override_ids: frozenset[str]) -> frozenset[str]:
    """Return all but the first of the queries with the same text and the same relevant images; never one of
    `override_ids`, which come first."""
    relevant = qrels[qrels["relevance"] > 0].astype({"query_id": "object", "image_id": "object"})
    truth = relevant.sort_values("image_id").groupby("query_id")["image_id"].agg(tuple).to_dict()
    first: dict[tuple[Any, ...], str] = {}
    repeated = []
    for row in sorted(queries.itertuples(index=False), key=lambda row: row.query_id not in override_ids):
        key = (row.language, str(row.text).casefold().strip(), truth.get(row.query_id))
        if first.setdefault(key, row.query_id) != row.query_id and row.query_id not in override_ids:
            repeated.append(row.query_id)
    return frozenset(repeated)


def _ambiguous_pairs(queries: pd.DataFrame, confusables: ConfusableImages, policy: str) -> pd.DataFrame:
    """Return the candidates of the queries; those that the policy resolves are left out."""
    pairs = confusables.candidates
    if policy != "review":
        is_open = pairs["score"] < confusables.min_score
        is_open |= (policy == "merge") & ~pairs["is_mergeable"].to_numpy(dtype=bool)
        pairs = pairs[is_open]
    return pairs.merge(queries[["query_id", "text"]], on="query_id")[REVIEW_COLUMNS]
