"""What people said of a set so far, as the review page needs it: followed line by line, never recomputed."""

from __future__ import annotations

from collections.abc import Iterable

from builders.agreement import JudgmentTarget
from builders.decisions import Decision


class ReviewState:
    """All that stands, by target, and one reviewer's own words. `final`: ids that the version on the page holds
    already; those are not shown as said, and cannot be taken back."""

    def __init__(self, reviewer: str, published_ids: frozenset[str] = frozenset()) -> None:
        self.reviewer, self.published_ids = reviewer, published_ids
        self.decisions_by_target: dict[JudgmentTarget, list[Decision]] = {}
        self._own: list[Decision] = []  # in their order, without what was taken back

    def apply_entries(self, decisions: Iterable[Decision]) -> None:
        """Follow the log by its next lines."""
        for decision in decisions:
            if decision.undoes is None:
                self.decisions_by_target.setdefault(decision.target, []).append(decision)
                if decision.reviewer == self.reviewer and decision.decision_id not in self.published_ids:
                    self._own.append(decision)
            elif decision.undoes not in self.published_ids:
                _remove_last(self.decisions_by_target.get(decision.target, []), decision.undoes)
                _remove_last(self._own, decision.undoes)

    def get_own_decision(self, target: JudgmentTarget) -> Decision | None:
        """The reviewer's last word on a target that is not in the version yet."""
        for decision in reversed(self.decisions_by_target.get(target, [])):
            if decision.reviewer == self.reviewer:
                return None if decision.decision_id in self.published_ids else decision
        return None

    def get_last_action(self) -> list[Decision]:
        """What the next undo takes back: the reviewer's last words, those that were taken together."""
        if not self._own:
            return []
        at, source = self._own[-1].at, self._own[-1].source
        first = len(self._own)
        while first and (self._own[first - 1].at, self._own[first - 1].source) == (at, source):
            first -= 1
        return self._own[first:]

    def effective_decisions(self) -> list[Decision]:
        """All that stands, target by target, each in its order."""
        return [decision for decisions in self.decisions_by_target.values() for decision in decisions]


def _remove_last(decisions: list[Decision], decision_id: str) -> None:
    """The last of that id."""
    for place in range(len(decisions) - 1, -1, -1):
        if decisions[place].decision_id == decision_id:
            del decisions[place]
            return
