"""Texts about ambiguous captions for the card and the set page, from the notes of a manifest."""

from typing import Any

import pandas as pd

POLICY_TEXTS = {
    "drop": "A caption that also fits another picture is left out.",
    "merge": "Where a caption also fits other pictures, those are relevant, like its own.",
    "recaption": "A caption that also fits other pictures was requested again, with their captions in the prompt.",
    "review": "A caption that also fits other pictures stays, and people judge each pair.",
}
_THEN = {
    "drop": "A caption that is still ambiguous is left out.",
    "merge": "For a caption that is still ambiguous, all those pictures are relevant.",
    "review": "A caption that is still ambiguous stays, and people judge each pair.",
}
OUTCOME_TEXTS = {
    "dropped": "left out",
    "merged": "the other pictures are relevant, too",
    "marked": "left for people to judge",
    "asked_again": "unambiguous with its new caption",
    "kept": "unambiguous, because the other pictures have new captions",
    "rescued": "still ambiguous, and in the set because of a person's override",
}
_LEFT_OUT = {
    "too_many_rivals": "left out: it fits more pictures than are listed",
    "repeated_query": "left out: another query has the same text and the same relevant pictures",
}


def describe_policy(ambiguity: dict[str, Any]) -> str:
    """Returns how the policy resolved ambiguous captions."""
    parts = (POLICY_TEXTS.get(ambiguity["policy"], ""), _THEN.get(ambiguity["then"] or "", ""))
    return " ".join(part for part in parts if part)


def describe_outcome(example: dict[str, Any], ledger: pd.DataFrame) -> str:
    """Returns the outcome of an ambiguous query, with the reason from the ledger where the query was rejected."""
    reasons = ledger.loc[(ledger["item"] == example["query_id"]) & (ledger["stage"] == "ambiguity"), "reason"]
    outcome = OUTCOME_TEXTS.get(example["outcome"], str(example["outcome"]).replace("_", " "))
    return _LEFT_OUT.get(str(reasons.iloc[0]), outcome) if len(reasons) else outcome


def describe_comparisons(ambiguity: dict[str, Any]) -> list[str]:
    """Returns the comparisons that found confusable images; the captions are always compared."""
    seen = ambiguity["seen"]
    ways = {"captions": "nearness of captions", "pictures": "nearness of pictures", "descriptions": "descriptions"}
    return ["what the captions say", *[f"{ways[name]} ({seen[name]})" for name in ways if seen.get(name)]]


def format_share(part: dict[str, Any]) -> str:
    """Returns the share of ambiguous queries in percent; it is never rounded to 0%."""
    if not part["ambiguous"]:
        return "0%"
    percent = 100 * part["ambiguous"] / part["queries"]
    if percent >= 1:
        return f"{percent:.1f}".removesuffix(".0") + "%"
    return f"{percent:.2g}%" if percent >= 0.01 else "under 0.01%"


def describe_measurement(ambiguity: dict[str, Any]) -> list[str]:
    """Returns a sentence or two per language: what the scores were fitted to, and what is expected of them."""
    return [_describe_language(one) for one in ambiguity.get("measured", ())]


def _describe_language(measured: dict[str, Any]) -> str:
    language = measured["language"]
    if not measured["is_calibrated"]:
        return f"{language}: not calibrated ({measured['reason']}); the score is a rule of thumb, no probability."
    fitted, cut = measured["fitted_on"], measured["cut"]
    by = f"the embedder {measured['embedder']}" if measured["embedder"] else "words alone, without an embedder"
    parts = [
        f"{language}: probabilities by {by}, fitted to {fitted['pairs']:,} pairs of {fitted['source']}"
        f"{_describe_unselected(fitted)}.",
        f"On held-out pairs no tenth of the scale is wrong by more than {100 * measured['greatest_error']:.1f} points.",
    ]
    if cut is not None and cut["precision"] is not None:
        parts.append(
            f"At {cut['at_least']:g} or more, {_percent(cut['precision'])} of them fit, and they are"
            f" {_percent(cut['recall'])} of {_describe_all(fitted)} that fit."
        )
    if measured["expected_wrong"] is not None:
        wrong = measured["expected_wrong"]
        parts.append(
            f"Of this set's {measured['found']:,} such pairs, {wrong['count']:.0f} are expected to be wrong"
            f" ({wrong['low']:.0f} to {wrong['high']:.0f})."
        )
    return " ".join(parts)


def _describe_unselected(fitted: dict[str, Any]) -> str:
    """Returns to what a calibration was corrected; '' for one that was fitted to such pairs alone."""
    read = fitted.get("unselected")
    return "" if read is None else f", and corrected to {read['pairs']:,} {read['source']}"


def _describe_all(fitted: dict[str, Any]) -> str:
    return "all pairs" if fitted.get("unselected") is None else "the pairs of the first source"


def _percent(share: dict[str, float]) -> str:
    low, high = 100 * share["low"], 100 * share["high"]
    return f"{100 * share['share']:.0f}% ({low:.0f} to {high:.0f})"
