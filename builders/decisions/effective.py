"""Which decisions of a log count: those that nobody undid."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from builders.decisions.records import Decision

DecisionT = TypeVar("DecisionT", bound=Decision)


class EffectiveDecisions(Generic[DecisionT]):
    """The effective decisions of a log, by target; the log is followed line by line.

    An undo removes the last decision with the id that it names. One that finds none, or only one of `published_ids`
    (decisions that a published version holds), changes nothing and stays in `by_target`.
    """

    def __init__(self, published_ids: Collection[str] = frozenset()) -> None:
        self.published_ids = published_ids
        self.by_target: dict[Any, list[DecisionT]] = {}

    def apply_entry(self, entry: DecisionT) -> None:
        """Follow the log by its next line."""
        of_target = self.by_target.setdefault(entry.target, [])
        if entry.undoes in self.published_ids or not remove_last(of_target, entry.undoes):
            of_target.append(entry)

    def on_target(self, target: Any) -> list[DecisionT]:
        """The decisions on a target, in their order."""
        return [decision for decision in self.by_target.get(target, []) if decision.undoes is None]


def effective(log: Iterable[DecisionT], published_ids: Collection[str] = frozenset()) -> list[DecisionT]:
    """The log without what was undone, target by target; undos that change nothing stay in it."""
    decisions = EffectiveDecisions[DecisionT](published_ids)
    for entry in log:
        decisions.apply_entry(entry)
    return [decision for of_target in decisions.by_target.values() for decision in of_target]


def latest_by_target(log: Iterable[DecisionT]) -> dict[Any, DecisionT]:
    """By target, sorted, the last effective decision: the order of the log counts for no more. Images come before the
    items of overrides."""
    latest = {decision.target: decision for decision in effective(log) if decision.undoes is None}
    return {target: latest[target] for target in sorted(latest, key=lambda target: (isinstance(target, str), target))}


def remove_last(decisions: list[DecisionT], decision_id: str | None) -> bool:
    """Remove the last decision with this id; False where there is none."""
    for place in range(len(decisions) - 1, -1, -1) if decision_id is not None else ():
        if decisions[place].decision_id == decision_id:
            del decisions[place]
            return True
    return False
