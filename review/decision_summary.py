"""The decisions on a set besides those on its queries, for the view of decisions: how many, and what builds make of
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from builders.decisions.effective import effective, latest_by_target
from builders.decisions.outcome import carry_over
from builders.decisions.records import HumanCaption, ImagePairDecision, Override


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """By kind of decision, by its name on the page, the reviewer of each effective one. Of those that only a build can
    apply: how many the version holds, how many wait for the next build, and the stale ones as rows of a table."""

    reviewers_by_kind: dict[str, list[str]]
    in_version: int
    waiting: int
    stale: list[dict[str, str]]


def summarize_decisions(
    pairs: list[ImagePairDecision],
    overrides: list[Override],
    captions: list[HumanCaption],
    record: Mapping[str, Any],
    image_names: Mapping[str, str],
) -> DecisionSummary:
    """The summary of a set's logs. `record`: the `decisions` of the version's manifest; `image_names`: by image_id
    the names that people know."""
    reviewers_by_kind = {
        "Captions": [caption.reviewer for caption in latest_by_target(captions).values() if caption.lines],
        "Near-duplicates": [one.reviewer for one in effective(pairs) if one.undoes is None],
        "Rejects": [one.reviewer for one in effective(overrides) if one.undoes is None],
    }
    outcome, waiting_ids = carry_over([*pairs, *overrides], record)
    latest_ids = {one.decision_id for log in (pairs, overrides) for one in latest_by_target(log).values()}
    stale = []
    for decision, reason in outcome.stale:
        text = decision.text
        if isinstance(decision, ImagePairDecision):
            text = " and ".join(image_names.get(image_id, image_id) for image_id in decision.images)
        stale.append({"decision": decision.decision, "text": text, "why": reason})
    return DecisionSummary(
        {kind: reviewers for kind, reviewers in reviewers_by_kind.items() if reviewers},
        len(latest_ids.intersection(outcome.in_effect)),
        len(waiting_ids),
        stale,
    )


def count_by_reviewer(reviewers_by_kind: Mapping[str, Iterable[str]]) -> list[tuple[str, list[int]]]:
    """Per person, by name, how many decisions of each kind."""
    counts = [Counter(name or "nobody named" for name in names) for names in reviewers_by_kind.values()]
    return [(name, [count[name] for count in counts]) for name in sorted(set().union(*counts))]
