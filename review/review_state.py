"""The effective decisions on a set, for one view of the review page."""

from collections.abc import Collection, Iterable
from typing import Any

from builders.decisions.effective import DecisionT, EffectiveDecisions, remove_last


class ReviewState(EffectiveDecisions[DecisionT]):
    """All effective decisions, and those of one reviewer. `published_ids`: decisions that the version on the page
    already holds; they are not shown as the reviewer's own and cannot be undone."""

    def __init__(self, reviewer: str, published_ids: Collection[str] = frozenset()) -> None:
        super().__init__(published_ids)
        self.reviewer = reviewer
        self.own: list[DecisionT] = []  # in their order, without undone ones

    def apply_entries(self, entries: Iterable[DecisionT]) -> None:
        """Apply the next entries of the log."""
        for entry in entries:
            self.apply_entry(entry)
            if entry.undoes is not None and entry.undoes not in self.published_ids:
                remove_last(self.own, entry.undoes)
            elif entry.undoes is None and entry.reviewer == self.reviewer:
                self.own += [entry] if entry.decision_id not in self.published_ids else []

    def get_own_decision(self, target: Any) -> DecisionT | None:
        """Return the reviewer's last decision on a target, None without one or where the version holds it."""
        own = [decision for decision in self.on_target(target) if decision.reviewer == self.reviewer]
        return own[-1] if own and own[-1].decision_id not in self.published_ids else None

    def list_decisions(self) -> list[DecisionT]:
        """Return all effective decisions, target by target, each in its order."""
        return [decision for target in self.by_target for decision in self.on_target(target)]
