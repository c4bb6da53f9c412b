"""What became of people's words on queries that would have gone, and on results of the image search."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from builders.ledger import Ledger
from builders.rescues import Rescue
from builders.told import Told

_NOT_CHOSEN = "nobody kept that query in the table of the objects"
_NOT_FOUND = "no query that is searched for has it among its first results"
_MAY_COME = "some of its pictures may come yet: run the same command again"
_STILL = {
    "too_few_pictures": "no good picture was found for it",
    "not_needed": "the pictures before it were enough (collect.keep)",
    "query_dropped": "its query was turned away",
    "repeated_url": "its query has that address at a better rank",
    "near_duplicate": "its query has another result that shows the same",
}


def told_of(rescues: Mapping[str, Rescue], kept: pd.DataFrame, ledger: Ledger) -> Told:
    """The words that the set follows, and why the others are stale. `kept` (a row per query and picture of the set, as
    of the collection) is the truth."""
    if not rescues:
        return Told()
    rows = ledger.rows()
    inside = {*kept["query_id"], *kept["url"]}
    words = sorted(rescues.items())
    near = rows[rows["kind"].isin(["query", "result"]) & rows["item"].isin(list(rescues))]
    away = {row.item: (str(row.bucket), str(row.reason)) for row in near.itertuples(index=False)}
    stale = [(word, _why(item, away.get(item))) for item, word in words if item not in inside]
    return Told([word.decision_id for item, word in words if item in inside], stale)


def _why(item: str, away: tuple[str, str] | None) -> str:
    if away is None:
        return _NOT_CHOSEN if item.startswith("q_") else _NOT_FOUND
    bucket, reason = away
    return _MAY_COME if bucket == "pending" else _STILL.get(reason, f"turned away all the same: {reason}")
