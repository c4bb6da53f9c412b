"""The outcome of overrides of rejected queries and of rejected results of the image search."""

from collections.abc import Mapping

import pandas as pd

from builders.decisions.outcome import DecisionOutcome
from builders.decisions.records import Override
from builders.ledger import Ledger

_NOT_CHOSEN = "nobody accepted that query in the table of the objects"
_NOT_FOUND = "no query that is searched for has it among its first results"
_STILL_PENDING = "some of its pictures may come yet: run the same command again"
_STILL_REJECTED = {
    "too_few_images": "no good picture was found for it",
    "not_needed": "the pictures before it were enough (collect.keep)",
    "query_dropped": "its query was rejected",
    "repeated_url": "its query has the same URL at a better rank",
    "near_duplicate": "its query has another result that shows the same image",
}


def summarize_overrides(overrides: Mapping[str, Override], kept: pd.DataFrame, ledger: Ledger) -> DecisionOutcome:
    """Returns the overrides that the set follows, and why the others are stale. `kept`: a row per query and relevant
    image of the set."""
    if not overrides:
        return DecisionOutcome()
    rows = ledger.rows()
    inside = {*kept["query_id"], *kept["url"]}
    ordered = sorted(overrides.items())
    rows_of_overrides = rows[rows["kind"].isin(["query", "result"]) & rows["item"].isin(list(overrides))]
    rejections = {row.item: (str(row.bucket), str(row.reason)) for row in rows_of_overrides.itertuples(index=False)}
    stale = [(override, _stale_reason(item, rejections.get(item))) for item, override in ordered if item not in inside]
    return DecisionOutcome([override for item, override in ordered if item in inside], stale)


def _stale_reason(item: str, rejection: tuple[str, str] | None) -> str:
    if rejection is None:
        return _NOT_CHOSEN if item.startswith("q_") else _NOT_FOUND
    bucket, reason = rejection
    return _STILL_PENDING if bucket == "pending" else _STILL_REJECTED.get(reason, f"rejected again: {reason}")
