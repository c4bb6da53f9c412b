"""The outcome of people's decisions in a build, and which rejections a person can override."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from querytruth.backends.files.text_formats import read_package_yaml
from querytruth.sets.decision_agreement import DecisionConflict
from querytruth.sets.decision_records import ImagePairDecision, Override, SetDecision, latest_by_target
from querytruth.sets.manifest import Decisions, StaleDecision
from querytruth.sets.text_sieve import PRIVATE_KINDS

_ADVICE: dict[str, str] = read_package_yaml(Path(__file__).with_name("decision_advice.yaml"))
# By stage and kind of the ledger, the reasons that an override lifts; None: all of them.
_OVERRIDABLE: dict[tuple[str, str], frozenset[str] | None] = {
    ("filter", "image"): None,
    ("coverage", "image"): frozenset({"already_covered"}),
    ("select", "image"): frozenset({"not_selected"}),
    ("caption", "caption"): None,
    ("clean", "caption"): None,
    ("texts", "query"): None,
    ("ambiguity", "caption"): frozenset({"ambiguous", "too_many_rivals"}),
    ("search", "query"): frozenset({"too_few_results", "results_not_reported"}),
    ("batches", "query"): frozenset({"too_few_images"}),
    ("queries", "query"): frozenset({"too_few_images", "url_used_before", "image_used_before"}),
    ("results", "result"): frozenset(
        {"advertisement", "too_small", "too_elongated", "licence_unknown", "licence_not_allowed"}
    ),
    ("images", "result"): frozenset({"too_small", "too_elongated", "placeholder"}),
}


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """Decisions that were applied now or in an earlier version, those that are stale (with the reason), and those that
    fit, but are superseded by a later decision on their target. `conflicts`: differing decisions on equivalent queries;
    `shared_count`: number of judgments that got a decision on an equivalent query."""

    applied: Sequence[SetDecision] = ()
    stale: Sequence[tuple[SetDecision, str]] = ()
    earlier: Sequence[SetDecision] = ()
    superseded: Sequence[SetDecision] = ()
    conflicts: Sequence[DecisionConflict] = ()
    shared_count: int = 0

    def __add__(self, other: DecisionOutcome) -> DecisionOutcome:
        return DecisionOutcome(
            [*self.applied, *other.applied],
            [*self.stale, *other.stale],
            [*self.earlier, *other.earlier],
            [*self.superseded, *other.superseded],
            [*self.conflicts, *other.conflicts],
            self.shared_count + other.shared_count,
        )

    @property
    def in_effect(self) -> list[str]:
        """Return the sorted ids of all decisions that fit, including superseded ones: a later decision may refer to a
        text that one of them set."""
        return sorted({decision.decision_id for decision in (*self.applied, *self.earlier, *self.superseded)})

    def as_record(self) -> Decisions:
        """Return the manifest's `decisions`; `conflicts` only where there are some."""
        stale = [
            cast(StaleDecision, {"decision": decision.decision_id, **decision.about, "why": reason})
            for decision, reason in self.stale
        ]
        record: Decisions = {"in_effect": self.in_effect, "stale": sorted(stale, key=lambda row: row["decision"])}
        if self.conflicts:
            record["conflicts"] = [conflict.as_record() for conflict in self.conflicts]
        return record


def carry_over(
    log: Sequence[ImagePairDecision | Override], record: Mapping[str, Any]
) -> tuple[DecisionOutcome, set[str]]:
    """Return the outcome of decisions on images and rejected items in a published version, and the ids of those that
    wait for the next build: new ones, and ones undone since. `record`: the manifest's `decisions`."""
    reasons = {row["decision"]: row["why"] for row in record["stale"]}
    in_effect = {*record["in_effect"]}
    published = {decision.decision_id: decision for decision in log if decision.decision_id in in_effect}
    latest = {decision.decision_id: decision for decision in latest_by_target(log).values()}
    stale = {name: reasons[name] for name in latest if name in reasons and name not in published}
    outcome = DecisionOutcome(stale=[(latest[name], why) for name, why in stale.items()], earlier=[*published.values()])
    return outcome, (latest.keys() ^ published.keys()) - stale.keys()


def is_overridable(stage: str, kind: str, bucket: str, reason: str) -> bool:
    """Return whether an override makes the next build accept an item that was rejected at that stage for that
    reason."""
    overridable = _OVERRIDABLE.get((stage, kind), frozenset())
    in_bucket = bucket == "rejected" or (bucket == "quarantined" and reason in PRIVATE_KINDS)
    return in_bucket and (overridable is None or reason in overridable)


def advise_fix(stage: str, kind: str, bucket: str, reason: str) -> str:
    """Return what to do about an item that cannot be overridden; "" where it can be, or the reason is unknown."""
    if bucket == "pending":
        return "run the same command again to retry the failed items"
    if is_overridable(stage, kind, bucket, reason):
        return ""
    place = f"{_generic_stage(stage)}/{kind}"
    return _ADVICE.get(f"{place}/{reason}") or _ADVICE.get(place, "")


def _generic_stage(stage: str) -> str:
    """Return one name for mixes_of_2, mixes_of_3 …, one for topics_rows and objects_rows, and one for all families."""
    if stage.startswith("family_"):
        return "family"
    return stage.rstrip("0123456789").rstrip("_").removeprefix("topics_").removeprefix("objects_")
