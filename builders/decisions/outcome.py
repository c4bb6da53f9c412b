"""The outcome of people's decisions in a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builders.decisions.effective import latest_by_target
from builders.decisions.records import ImagePairDecision, Override, SetDecision
from builders.decisions.shared_decisions import DecisionConflict


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
        """The sorted ids of all that fit, superseded ones too: a later decision may refer to a text that one of them
        gave."""
        return sorted({decision.decision_id for decision in (*self.applied, *self.earlier, *self.superseded)})

    def as_record(self) -> dict[str, Any]:
        """Returns the manifest's `decisions`; `conflicts` only where there are some."""
        stale = [{"decision": decision.decision_id, **decision.about, "why": reason} for decision, reason in self.stale]
        record = {"in_effect": self.in_effect, "stale": sorted(stale, key=lambda row: row["decision"])}
        conflicts = [conflict.as_record() for conflict in self.conflicts]
        return record | ({"conflicts": conflicts} if conflicts else {})


def carry_over(
    log: Sequence[ImagePairDecision | Override], record: Mapping[str, Any]
) -> tuple[DecisionOutcome, set[str]]:
    """Returns the outcome of decisions on images and rejected items in a published version, and the ids of those that
    wait for the next build: new ones, and ones undone since. `record`: the manifest's `decisions`."""
    reasons = {row["decision"]: row["why"] for row in record["stale"]}
    in_effect = {*record["in_effect"]}
    published = {decision.decision_id: decision for decision in log if decision.decision_id in in_effect}
    latest = {decision.decision_id: decision for decision in latest_by_target(log).values()}
    stale = {name: reasons[name] for name in latest if name in reasons and name not in published}
    outcome = DecisionOutcome(stale=[(latest[name], why) for name, why in stale.items()], earlier=[*published.values()])
    return outcome, (latest.keys() ^ published.keys()) - stale.keys()
