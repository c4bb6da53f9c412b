"""What people said of a set beside its queries, for the view of decisions: how much, and what of it builds follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

StaleRow = dict[str, str]


class LoggedDecision(Protocol):
    """What decisions about pictures and about rejects have in common."""

    @property
    def decision_id(self) -> str: ...
    @property
    def decision(self) -> str: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class BuildStatus:
    """Words that only a build can follow: how many this version holds, how many wait for the next build, and those
    that it could not follow, with the reason."""

    held: int = 0
    waiting: int = 0
    stale: list[StaleRow] = field(default_factory=list)

    @property
    def any(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.held or self.waiting or self.stale)


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """Per kind of word, by its name on the page, whose each one is that stands; and what builds make of them."""

    reviewers_by_kind: dict[str, list[str]] = field(default_factory=dict)
    build_status: BuildStatus = field(default_factory=BuildStatus)


def summarize_build_status(
    entries: Iterable[LoggedDecision],
    effective: Sequence[LoggedDecision],
    manifest_decisions: Mapping[str, Any],
    text_of: Callable[[LoggedDecision], str],
) -> BuildStatus:
    """`said`: all lines of the log; `last`: those that count; `decided`: the decisions of the version's manifest. A
    word that the version holds and that was taken back since waits, too: the next build is without it."""
    in_effect = set(manifest_decisions["in_effect"])
    stale_reasons = {row["decision"]: row["why"] for row in manifest_decisions["stale"]}
    effective_ids = {decision.decision_id for decision in effective}
    published_ids = {decision.decision_id for decision in entries} & in_effect
    stale = [
        decision
        for decision in effective
        if decision.decision_id in stale_reasons and decision.decision_id not in published_ids
    ]
    rows = [
        {"decision": one.decision, "text": text_of(one), "why": str(stale_reasons[one.decision_id])} for one in stale
    ]
    return BuildStatus(
        len(published_ids & effective_ids),
        len((effective_ids ^ published_ids) - {decision.decision_id for decision in stale}),
        rows,
    )


def count_by_reviewer(reviewers_by_kind: Mapping[str, Iterable[str]]) -> list[tuple[str, list[int]]]:
    """Per person, by name, how many words of each kind."""
    counts = [Counter(name or "nobody named" for name in names) for names in reviewers_by_kind.values()]
    return [(name, [count[name] for count in counts]) for name in sorted(set().union(*counts))]
