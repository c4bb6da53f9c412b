"""Decisions on judgments, shared by equivalent queries: a decision on one holds for all of them.

A query with a decision of its own on an image keeps that one. Where such decisions differ, each holds for its own query
only, and the difference is a conflict for people to resolve.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from builders.decisions.agreement import decision_category
from builders.decisions.records import QueryDecision

JudgmentDecisions = dict[tuple[str, str], list[QueryDecision]]  # by query and image
EquivalentIds = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class DecisionConflict:
    """The last decisions on one image for equivalent queries, one per query; not all of them agree."""

    image_id: str
    decisions: tuple[QueryDecision, ...]

    def describe(self) -> str:
        """Returns the decisions in one line: “狗” 2, “dog” 0."""
        return ", ".join(f"“{decision.text}” {decision_category(decision)}" for decision in self.decisions)

    def as_record(self) -> dict[str, Any]:
        """Returns the conflict for a manifest."""
        grades = {decision.query_id: decision_category(decision) for decision in self.decisions}
        return {"image_id": self.image_id, "grades": grades}


def share_decisions(
    new: Sequence[QueryDecision],
    published: Sequence[QueryDecision],
    equivalent: EquivalentIds,
    positions: Mapping[str, int],
) -> JudgmentDecisions:
    """Returns by query and image the decisions to apply to the judgment, in order: its own ones, and before the first
    of them those on equivalent queries.

    `new`: the decisions to apply; `published`: those that the tables contain; `positions`: the place of each in the
    log, by decision_id. Decisions on whole queries are left out.
    """
    owners = {(decision.query_id, decision.image_id) for decision in published}
    latest_published: dict[tuple[str, str], int] = {}
    for group, image_id, decision in _by_group(published, equivalent):
        place = positions[decision.decision_id]
        latest_published[group, image_id] = max(place, latest_published.get((group, image_id), -1))
    shared: JudgmentDecisions = {}
    in_order = sorted(new, key=lambda decision: positions[decision.decision_id])
    for group, image_id, decision in _by_group(in_order, equivalent):
        is_latest = positions[decision.decision_id] > latest_published.get((group, image_id), -1)
        for query_id in equivalent[group]:
            target = query_id, image_id
            if query_id == decision.query_id:
                owners.add(target)
                shared.setdefault(target, []).append(decision)
            elif is_latest and target not in owners:
                shared.setdefault(target, []).append(_for_equivalent(decision, query_id))
    return shared


def find_conflicts(decisions: Iterable[QueryDecision], equivalent: EquivalentIds) -> list[DecisionConflict]:
    """Returns the conflicts of decisions that fit the set, given in the log's order."""
    last: dict[tuple[str, str], dict[str, QueryDecision]] = {}
    for group, image_id, decision in _by_group(decisions, equivalent):
        last.setdefault((group, image_id), {})[decision.query_id] = decision
    return [
        DecisionConflict(image_id, tuple(by_query[query_id] for query_id in equivalent[group] if query_id in by_query))
        for (group, image_id), by_query in sorted(last.items())
        if len({decision_category(decision) for decision in by_query.values()}) > 1
    ]


def _by_group(
    decisions: Iterable[QueryDecision], equivalent: EquivalentIds
) -> Iterator[tuple[str, str, QueryDecision]]:
    """Yields the first query of the group, the image and the decision, of each decision on a judgment of the set."""
    for decision in decisions:
        if decision.image_id is not None and decision.query_id in equivalent:
            yield equivalent[decision.query_id][0], decision.image_id, decision


def _for_equivalent(decision: QueryDecision, query_id: str) -> QueryDecision:
    """Returns the decision as one on an equivalent query, with its origin as the note, which becomes evidence."""
    reason = decision.note or f"{decision.decision} by {decision.reviewer or 'a person'}"
    return replace(decision, query_id=query_id, note=f"{reason} (asked as “{decision.text}”)")
