"""Queries that fit more than their own picture, and what becomes of them.

An ambiguous query makes right answers count as wrong. Four ways out: it goes (`drop`); its rivals become relevant, too
(`merge`); it is asked for again with the rivals' captions beside it (`build_recaption_requests`, twice at most, then
one of the others); or it stays, marked, for people to judge (`review`). One that a person wants stays in any case.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from builders.ledger import rejection_rows
from builders.recall.answer_index import build_answer_index
from builders.recall.confusable_images import ConfusableImages
from builders.recall.member_index import MemberIndex

AMBIGUITY_POLICIES = ("drop", "merge", "review")
REVIEW_COLUMNS = ["query_id", "text", "image_id", "score", "evidence"]


@dataclass(frozen=True, slots=True)
class ResolvedAmbiguity:
    """`rejections`: the ledger's rows of queries that went; `ambiguous_pairs`: query and rival of those that stayed
    ambiguous, for people (columns REVIEW); `figures`: shares before and after."""

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
    """The tables after the policy, sorted by id.

    `merge`: each rival of at least the cut becomes relevant (grade 1, judged by caption), with all pictures of its
    duplicate group. A query with more rivals than are listed goes (`too_many_rivals`: its truth would have holes), and
    so does one that now has the words and the truth of another (`repeated_query`; the smallest id stays).

    `override_ids`: ids of queries that people want all the same. They stay, ambiguous, with the truth that they came
    with.
    """
    if policy not in AMBIGUITY_POLICIES:
        raise ValueError(f"policy {policy!r} is none of {', '.join(AMBIGUITY_POLICIES)}")
    to_reject = {
        "drop": confusables.ambiguous_query_ids,
        "merge": confusables.crowded_query_ids,
        "review": frozenset(),
    }[policy]
    rejected_ids, overridden = to_reject - override_ids, to_reject & override_ids
    rejections = [
        _rejections(queries, rejected_ids, "ambiguous" if policy == "drop" else "too_many_rivals", confusables)
    ]
    kept, truth = _without(queries, qrels, rejected_ids)
    if policy == "merge":
        truth = _merged(kept, truth, images, confusables, duplicates, unmerged_ids=overridden)
        repeated = _repeated(kept, truth, override_ids)
        rejections.append(_rejections(kept, repeated, "repeated_query", confusables))
        kept, truth = _without(kept, truth, repeated)
    left = confusables.ambiguous_query_ids if policy == "review" else overridden
    figures: dict[str, Any] = {
        "policy": policy,
        "before": count_ambiguous(queries, confusables.ambiguous_query_ids),
        "after": count_ambiguous(kept, left),
    }
    figures["rivals"] = len(confusables.above_threshold())
    if overridden:
        figures["rescued"] = len(overridden)
    marked = _ambiguous_pairs(kept, confusables) if policy == "review" else _ambiguous_pairs(kept.iloc[:0], confusables)
    used = {name: truth[name].cat.remove_unused_categories() for name in truth if truth[name].dtype == "category"}
    return ResolvedAmbiguity(kept, truth.assign(**used), pd.concat(rejections, ignore_index=True), marked, figures)


def count_ambiguous(queries: pd.DataFrame, ambiguous: frozenset[str]) -> dict[str, Any]:
    """How many queries there are, and how many of them are ambiguous."""
    count = int(queries["query_id"].isin(ambiguous).sum())
    return {
        "queries": len(queries),
        "ambiguous": count,
        "share": round(count / len(queries), 4) if len(queries) else 0.0,
    }


def build_recaption_requests(
    queries: pd.DataFrame,
    confusables: ConfusableImages,
    descriptions: pd.DataFrame | None = None,
    *,
    final_query_ids: Collection[str] = (),
) -> pd.DataFrame:
    """A row per ambiguous query: query_id, text, rivals (the captions of its rivals, the surest first, each once):
    what a model is shown to say what tells this picture apart. Of a rival that has no caption the description. The
    queries that are `final_query_ids` have the words that people want."""
    texts = dict(zip(queries["query_id"], queries["text"], strict=True))
    described = {} if descriptions is None else dict(zip(descriptions["image_id"], descriptions["text"], strict=True))
    texts_by_query: dict[str, dict[str, None]] = {
        name: {} for name in sorted(confusables.ambiguous_query_ids.difference(final_query_ids))
    }
    for row in confusables.above_threshold().itertuples(index=False):
        if row.query_id not in texts_by_query:
            continue
        text = described.get(row.image_id) if pd.isna(row.confusable_query_id) else texts[row.confusable_query_id]
        if text is not None:
            texts_by_query[row.query_id][text] = None
    return pd.DataFrame(
        {
            "query_id": list(texts_by_query),
            "text": [texts[name] for name in texts_by_query],
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
    surest = confusables.above_threshold().drop_duplicates("query_id").set_index("query_id")
    confusable = surest.reindex(rejected["query_id"]).set_axis(rejected.index)
    return rejection_rows(
        rejected["query_id"],
        "rejected",
        reason,
        item_id=rejected["query_id"],
        measure=pd.Series("confusability", rejected.index).where(confusable["score"].notna()),
        value=confusable["score"],
        threshold=pd.Series(confusables.min_score, rejected.index).where(confusable["score"].notna()),
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
    """The judgments, and one more for each picture of each rival that has none yet, but not of the queries that are
    left `unmerged_ids`."""
    sure = confusables.above_threshold()
    sure = sure[sure["query_id"].isin(queries["query_id"]) & ~sure["query_id"].isin(unmerged_ids)]
    answers = build_answer_index(queries, qrels, images, duplicates)
    code = answers.answer[pd.Index(answers.image_ids).get_indexer(sure["image_id"])]
    place, image = MemberIndex(answers.answer, answers.count).members_of(code)
    more = pd.DataFrame(
        {
            "query_id": sure["query_id"].to_numpy(dtype=object)[place],
            "image_id": answers.image_ids[image],
            "relevance": np.ones(len(place), dtype=np.int8),
            "judged_by": "caption",
            "evidence": sure["evidence"].to_numpy(dtype=object)[place],
        }
    )
    names = ["query_id", "image_id", "judged_by", "evidence"]
    plain = qrels.astype(dict.fromkeys(names, "object"))
    both = pd.concat([plain, more], ignore_index=True).drop_duplicates(["query_id", "image_id"])
    both = both.sort_values(["query_id", "image_id"], ignore_index=True)
    return both.astype({**dict.fromkeys(names, "category"), "relevance": np.int8})[list(qrels.columns)]


def _repeated(queries: pd.DataFrame, qrels: pd.DataFrame, override_ids: frozenset[str]) -> frozenset[str]:
    """All but the first of the queries that read the same and have the same relevant pictures; the wanted ones come
    before all others, and none of them is left out."""
    relevant = qrels[qrels["relevance"] > 0].astype({"query_id": "object", "image_id": "object"})
    truth = relevant.sort_values("image_id").groupby("query_id")["image_id"].agg(tuple).to_dict()
    first: dict[tuple[Any, ...], str] = {}
    repeated = []
    # Sorted by id: which one stays is no matter of order.
    for row in sorted(queries.itertuples(index=False), key=lambda row: row.query_id not in override_ids):
        key = (row.language, str(row.text).casefold().strip(), truth.get(row.query_id))
        if first.setdefault(key, row.query_id) != row.query_id and row.query_id not in override_ids:
            repeated.append(row.query_id)
    return frozenset(repeated)


def _ambiguous_pairs(queries: pd.DataFrame, confusables: ConfusableImages) -> pd.DataFrame:
    return confusables.above_threshold().merge(queries[["query_id", "text"]], on="query_id")[REVIEW_COLUMNS]
