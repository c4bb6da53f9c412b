"""A summary of the decisions on captions, duplicates and rejections, for the view of decisions."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from builders.decisions.effective import effective, latest_by_target
from builders.decisions.outcome import carry_over
from builders.decisions.records import HumanCaption, ImagePairDecision, Override


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """The reviewer of each effective decision, by the kind's name on the page. Of decisions that only a build can
    apply: how many are in the version, how many wait for the next build, and the stale ones as table rows."""

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
    """Summarize the logs of a set. `record`: the `decisions` of the version's manifest; `image_names`: file names by
    image_id."""
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
    """Return the number of decisions of each kind per reviewer, sorted by name."""
    counts = [Counter(name or "nobody named" for name in names) for names in reviewers_by_kind.values()]
    return [(name, [count[name] for count in counts]) for name in sorted(set().union(*counts))]
