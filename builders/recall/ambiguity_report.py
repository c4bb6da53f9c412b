"""What a manifest's notes say of ambiguous captions, in words for the card and the page."""

from __future__ import annotations

from typing import Any

import pandas as pd

POLICY_TEXTS = {
    "drop": "A caption that fits another picture, too, is left out.",
    "merge": "Where a caption fits other pictures, too, those are right answers, like its own.",
    "recaption": "A caption that fits other pictures, too, was asked for again, with their captions beside it.",
    "review": "A caption that fits other pictures, too, stays, and people are asked about each pair.",
}
_THEN = {
    "drop": "One that was ambiguous even then is left out.",
    "merge": "One that was ambiguous even then has all those pictures as right answers.",
    "review": "One that was ambiguous even then stays, and people are asked about each pair.",
}
OUTCOME_TEXTS = {
    "dropped": "left out",
    "merged": "its rivals are right, too",
    "marked": "left for people to judge",
    "asked_again": "clear by its new words",
    "kept": "clear, now that its rivals have other words",
    "rescued": "ambiguous still, and in the set because a person wants it",
}
_LEFT_OUT = {
    "too_many_rivals": "left out: it fits more pictures than are looked at",
    "repeated_query": "left out: another query reads the same and has the same right pictures",
}
_STAGE = "ambiguity"  # in the ledger


def describe_policy(ambiguity: dict[str, Any]) -> str:
    """What was done about ambiguous captions."""
    then = _THEN.get(ambiguity["then"] or "", "")
    return " ".join(part for part in (POLICY_TEXTS.get(ambiguity["policy"], ""), then) if part)


def describe_outcome(example: dict[str, Any], ledger: pd.DataFrame) -> str:
    """What became of an ambiguous query; of one that was left out the ledger may say why."""
    reasons = ledger.loc[(ledger["item"] == example["query_id"]) & (ledger["stage"] == _STAGE), "reason"]
    became = OUTCOME_TEXTS.get(example["outcome"], str(example["outcome"]).replace("_", " "))
    return _LEFT_OUT.get(str(reasons.iloc[0]), became) if len(reasons) else became


def describe_comparisons(ambiguity: dict[str, Any]) -> list[str]:
    """By what rivals were found; what the captions say counts in any case."""
    seen = ambiguity["seen"]
    ways = {"captions": "nearness of captions", "pictures": "nearness of pictures", "descriptions": "descriptions"}
    return ["what the captions say", *[f"{ways[name]} ({seen[name]})" for name in ways if seen.get(name)]]


def format_share(part: dict[str, Any]) -> str:
    """The share of ambiguous queries, in percent; a few among many are not none."""
    if not part["ambiguous"]:
        return "0%"
    percent = 100 * part["ambiguous"] / part["queries"]
    if percent >= 1:
        return f"{percent:.1f}".removesuffix(".0") + "%"
    return f"{percent:.2g}%" if percent >= 0.01 else "under 0.01%"
