"""Effective decisions of a log: those that nobody undid."""

from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from builders.decisions.records import Decision

DecisionT = TypeVar("DecisionT", bound=Decision)


class EffectiveDecisions(Generic[DecisionT]):
    """The effective decisions of a log by target, updated line by line.

    An undo removes the last decision with the id that it names. One that finds none, or only one of `published_ids`
    (decisions in a published version), changes nothing and stays in `by_target`.
    """

    def __init__(self, published_ids: Collection[str] = frozenset()) -> None:
        self.published_ids = published_ids
        self.by_target: dict[Any, list[DecisionT]] = {}

    def apply_entry(self, entry: DecisionT) -> None:
        """Apply the next line of the log."""
        of_target = self.by_target.setdefault(entry.target, [])
        if entry.undoes in self.published_ids or not remove_last(of_target, entry.undoes):
            of_target.append(entry)

    def on_target(self, target: Any) -> list[DecisionT]:
        """Returns the decisions on a target in their order."""
        return [decision for decision in self.by_target.get(target, []) if decision.undoes is None]


def effective(log: Iterable[DecisionT], published_ids: Collection[str] = frozenset()) -> list[DecisionT]:
    """Returns the log, grouped by target, without undone decisions; undos that change nothing stay."""
    decisions = EffectiveDecisions[DecisionT](published_ids)
    for entry in log:
        decisions.apply_entry(entry)
    return [decision for of_target in decisions.by_target.values() for decision in of_target]


def latest_by_target(log: Iterable[DecisionT]) -> dict[Any, DecisionT]:
    """Returns the last effective decision by target, sorted by target, so that the order of the log has no influence.
    Pairs of images precede the items of overrides."""
    latest = {decision.target: decision for decision in effective(log) if decision.undoes is None}
    return {target: latest[target] for target in sorted(latest, key=lambda target: (isinstance(target, str), target))}


def remove_last(decisions: list[DecisionT], decision_id: str | None) -> bool:
    """Remove the last decision with this id. Returns False where there is none."""
    for place in range(len(decisions) - 1, -1, -1) if decision_id is not None else ():
        if decisions[place].decision_id == decision_id:
            del decisions[place]
            return True
    return False
