"""Queries that fit more than their own picture, and what becomes of them.

An ambiguous query makes right answers count as wrong. Four ways out: it goes (`drop`); its rivals become relevant, too
(`merge`); it is asked for again with the rivals' captions beside it (`to_ask_again`, twice at most, then one of the
others); or it stays, marked, for people to judge (`review`). One that a person wants stays in any case.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from builders.ledger import turned_away
from builders.recall.answers import number_answers
from builders.recall.neighbours import Members
from builders.recall.rivals import Rivals

POLICIES = ("drop", "merge", "review")
REVIEW = ["query_id", "text", "image_id", "score", "evidence"]


@dataclass(frozen=True, slots=True)
class Settled:
    """`away`: the ledger's rows of queries that went; `marked`: query and rival of those that stayed ambiguous, for
    people (columns REVIEW); `figures`: shares before and after."""

    queries: pd.DataFrame
    qrels: pd.DataFrame
    away: pd.DataFrame
    marked: pd.DataFrame
    figures: dict[str, Any]


def settle(
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    images: pd.DataFrame,
    rivals: Rivals,
    policy: str,
    *,
    duplicates: pd.DataFrame | None = None,
    wanted: frozenset[str] = frozenset(),
) -> Settled:
    """The tables after the policy, sorted by id.

    `merge`: each rival of at least the cut becomes relevant (grade 1, judged by caption), with all pictures of its
    duplicate group. A query with more rivals than are listed goes (`too_many_rivals`: its truth would have holes), and
    so does one that now has the words and the truth of another (`repeated_query`; the smallest id stays).

    `wanted`: ids of queries that people want all the same. They stay, ambiguous, with the truth that they came with.
    """
    if policy not in POLICIES:
        raise ValueError(f"policy {policy!r} is none of {', '.join(POLICIES)}")
    turned = {"drop": rivals.ambiguous, "merge": rivals.crowded, "review": frozenset()}[policy]
    gone, rescued = turned - wanted, turned & wanted
    away = [_away(queries, gone, "ambiguous" if policy == "drop" else "too_many_rivals", rivals)]
    kept, truth = _without(queries, qrels, gone)
    if policy == "merge":
        truth = _merged(kept, truth, images, rivals, duplicates, alone=rescued)
        repeated = _repeated(kept, truth, wanted)
        away.append(_away(kept, repeated, "repeated_query", rivals))
        kept, truth = _without(kept, truth, repeated)
    left = rivals.ambiguous if policy == "review" else rescued
    figures: dict[str, Any] = {
        "policy": policy,
        "before": shares(queries, rivals.ambiguous),
        "after": shares(kept, left),
    }
    figures["rivals"] = len(rivals.certain())
    if rescued:
        figures["rescued"] = len(rescued)
    marked = _marked(kept, rivals) if policy == "review" else _marked(kept.iloc[:0], rivals)
    used = {name: truth[name].cat.remove_unused_categories() for name in truth if truth[name].dtype == "category"}
    return Settled(kept, truth.assign(**used), pd.concat(away, ignore_index=True), marked, figures)


def shares(queries: pd.DataFrame, ambiguous: frozenset[str]) -> dict[str, Any]:
    """How many queries there are, and how many of them are ambiguous."""
    count = int(queries["query_id"].isin(ambiguous).sum())
    return {
        "queries": len(queries),
        "ambiguous": count,
        "share": round(count / len(queries), 4) if len(queries) else 0.0,
    }


def to_ask_again(
    queries: pd.DataFrame,
    rivals: Rivals,
    descriptions: pd.DataFrame | None = None,
    *,
    settled: Collection[str] = (),
) -> pd.DataFrame:
    """A row per ambiguous query: query_id, text, rivals (the captions of its rivals, the surest first, each once):
    what a model is shown to say what tells this picture apart. Of a rival that has no caption the description. The
    queries that are `settled` have the words that people want."""
    texts = dict(zip(queries["query_id"], queries["text"], strict=True))
    described = {} if descriptions is None else dict(zip(descriptions["image_id"], descriptions["text"], strict=True))
    shown: dict[str, dict[str, None]] = {name: {} for name in sorted(rivals.ambiguous.difference(settled))}
    for row in rivals.certain().itertuples(index=False):
        if row.query_id not in shown:
            continue
        text = described.get(row.image_id) if pd.isna(row.rival_query_id) else texts[row.rival_query_id]
        if text is not None:
            shown[row.query_id][text] = None
    return pd.DataFrame(
        {
            "query_id": list(shown),
            "text": [texts[name] for name in shown],
            "rivals": pd.Series([list(captions) for captions in shown.values()], dtype=object),
        }
    )


def _without(queries: pd.DataFrame, qrels: pd.DataFrame, gone: frozenset[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    kept = queries[~queries["query_id"].isin(gone)].sort_values("query_id", ignore_index=True)
    return kept, qrels[~qrels["query_id"].isin(gone)].reset_index(drop=True)


def _away(queries: pd.DataFrame, gone: frozenset[str], reason: str, rivals: Rivals) -> pd.DataFrame:
    items = sorted(queries.loc[queries["query_id"].isin(gone), "query_id"])
    texts = dict(zip(queries["query_id"], queries["text"], strict=True))
    first = rivals.certain().drop_duplicates("query_id").set_index("query_id")
    names, says = first["image_id"].to_dict(), first["evidence"].to_dict()
    details = [f"{texts[item]} — fits {names[item]}: {says[item]}" if item in names else texts[item] for item in items]
    return turned_away(items, "rejected", reason, details)


def _merged(
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    images: pd.DataFrame,
    rivals: Rivals,
    duplicates: pd.DataFrame | None,
    *,
    alone: frozenset[str],
) -> pd.DataFrame:
    """The judgments, and one more for each picture of each rival that has none yet, but not of the queries that are
    left `alone`."""
    sure = rivals.certain()
    sure = sure[sure["query_id"].isin(queries["query_id"]) & ~sure["query_id"].isin(alone)]
    answers = number_answers(queries, qrels, images, duplicates)
    code = answers.answer[pd.Index(answers.image_ids).get_indexer(sure["image_id"])]
    place, image = Members(answers.answer, answers.count).of(code)
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


def _repeated(queries: pd.DataFrame, qrels: pd.DataFrame, wanted: frozenset[str]) -> frozenset[str]:
    """All but the first of the queries that read the same and have the same relevant pictures; the wanted ones come
    before all others, and none of them is left out."""
    relevant = qrels[qrels["relevance"] > 0].astype({"query_id": "object", "image_id": "object"})
    truth = relevant.sort_values("image_id").groupby("query_id")["image_id"].agg(tuple).to_dict()
    first: dict[tuple[Any, ...], str] = {}
    repeated = []
    # Sorted by id: which one stays is no matter of order.
    for row in sorted(queries.itertuples(index=False), key=lambda row: row.query_id not in wanted):
        key = (row.language, str(row.text).casefold().strip(), truth.get(row.query_id))
        if first.setdefault(key, row.query_id) != row.query_id and row.query_id not in wanted:
            repeated.append(row.query_id)
    return frozenset(repeated)


def _marked(queries: pd.DataFrame, rivals: Rivals) -> pd.DataFrame:
    return rivals.certain().merge(queries[["query_id", "text"]], on="query_id")[REVIEW]
