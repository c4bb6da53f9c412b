"""How far the people who judged one set agree: Cohen's kappa of each two of them, and what they disagree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from builders.decisions.records import QueryDecision

DISAGREEMENTS_VIEW = "disagreements"  # the view in which a person decides between two others
JudgmentTarget = tuple[str, str | None]
DecisionsByTarget = dict[JudgmentTarget, dict[str, QueryDecision]]


@dataclass(frozen=True, slots=True)
class PairwiseAgreement:
    """Of two people on what both judged: `about` queries or judgments. kappa is 1 for full agreement and 0 for what
    chance gives; None where both always gave one and the same category, or judged nothing in common."""

    first: str
    second: str
    about: str
    both: int
    same: int
    kappa: float | None


def latest_decisions(log: Iterable[QueryDecision]) -> DecisionsByTarget:
    """Per target what each person decided last, of a log without what was undone (`effective`)."""
    latest: DecisionsByTarget = {}
    for decision in log:
        if decision.undoes is None:
            latest.setdefault(decision.target, {}).pop(decision.reviewer, None)  # later decisions go to the end
            latest[decision.target][decision.reviewer] = decision
    return latest


def compute_agreements(decisions: DecisionsByTarget) -> list[PairwiseAgreement]:
    """Of each two people who judged something both, by name."""
    people = sorted({person for by_reviewer in decisions.values() for person in by_reviewer})
    agreements_found = []
    for first, second in combinations(people, 2):
        for about, is_pair in (("queries", False), ("judgments", True)):
            both = [
                (decision_category(by_reviewer[first]), decision_category(by_reviewer[second]))
                for (_, image), by_reviewer in decisions.items()
                if first in by_reviewer and second in by_reviewer and (image is not None) == is_pair
            ]
            if both:
                same = sum(a == b for a, b in both)
                agreements_found.append(PairwiseAgreement(first, second, about, len(both), same, cohen_kappa(both)))
    return agreements_found


def find_disagreements(decisions: DecisionsByTarget) -> list[JudgmentTarget]:
    """The targets, sorted, on which people differ and which nobody decided in the view of disagreements after that."""
    return sorted(
        (target for target, by_reviewer in decisions.items() if _is_disputed(by_reviewer)),
        key=lambda t: (t[0], t[1] or ""),
    )


def cohen_kappa(both: list[tuple[str, str]]) -> float | None:
    """Cohen's kappa, (observed - expected) / (1 - expected), of two people's categories for the same items; Cohen,
    Educational and Psychological Measurement 20 (1960). None where it is not defined."""
    if not both:
        return None
    count = len(both)
    observed = sum(first == second for first, second in both) / count
    firsts, seconds = Counter(first for first, _ in both), Counter(second for _, second in both)
    expected = sum(firsts[name] * seconds[name] for name in firsts) / count**2
    return None if expected >= 1 else (observed - expected) / (1 - expected)


def decision_category(decision: QueryDecision) -> str:
    """The decision as a category that people share: of a judgment its grade (1 for a keep that names none), of a
    query keep, drop or the new text."""
    if decision.image_id is None:
        return f"edit: {decision.new_text}" if decision.decision == "edit" else decision.decision
    if decision.decision == "drop":
        return "0"
    return "1" if decision.relevance is None else str(decision.relevance)


def _is_disputed(by_reviewer: dict[str, QueryDecision]) -> bool:
    is_resolved = next(reversed(by_reviewer.values())).view == DISAGREEMENTS_VIEW
    return not is_resolved and len({decision_category(decision) for decision in by_reviewer.values()}) > 1
