"""Agreement of the reviewers of a set: Cohen's kappa of each two, and the targets on which they disagree."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from builders.decisions.records import QueryDecision

DISAGREEMENTS_VIEW = "disagreements"  # the view in which a person resolves a disagreement
JudgmentTarget = tuple[str, str | None]
DecisionsByTarget = dict[JudgmentTarget, dict[str, QueryDecision]]


@dataclass(frozen=True, slots=True)
class PairwiseAgreement:
    """Agreement of two people on the queries or judgments (`about`) that both decided. kappa is 1 for full agreement, 0
    for the agreement of chance, None where both gave one and the same category to everything."""

    first: str
    second: str
    about: str
    both: int
    same: int
    kappa: float | None


def latest_decisions(log: Iterable[QueryDecision]) -> DecisionsByTarget:
    """Returns by target each person's last decision, from a log without undone decisions (`effective`)."""
    latest: DecisionsByTarget = {}
    for decision in log:
        if decision.undoes is None:
            latest.setdefault(decision.target, {}).pop(decision.reviewer, None)  # later decisions go to the end
            latest[decision.target][decision.reviewer] = decision
    return latest


def compute_agreements(decisions: DecisionsByTarget) -> list[PairwiseAgreement]:
    """Returns the agreement of each two people who have targets in common, sorted by name."""
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
    """Returns the sorted targets on which people differ, without those resolved in the view of disagreements."""
    disputed = [target for target, by_reviewer in decisions.items() if _is_disputed(by_reviewer)]
    return sorted(disputed, key=lambda target: (target[0], target[1] or ""))


def cohen_kappa(both: list[tuple[str, str]]) -> float | None:
    """Returns Cohen's kappa, (observed - expected) / (1 - expected), of two people's categories for the same items
    (Cohen, Educational and Psychological Measurement 20, 1960). None where it is not defined."""
    if not both:
        return None
    count = len(both)
    observed = sum(first == second for first, second in both) / count
    firsts, seconds = Counter(first for first, _ in both), Counter(second for _, second in both)
    expected = sum(firsts[name] * seconds[name] for name in firsts) / count**2
    return None if expected >= 1 else (observed - expected) / (1 - expected)


def decision_category(decision: QueryDecision) -> str:
    """Returns the decision as a category: of a judgment its grade (1 for a keep without one), of a query keep, drop or
    the new text."""
    if decision.image_id is None:
        return f"edit: {decision.new_text}" if decision.decision == "edit" else decision.decision
    if decision.decision == "drop":
        return "0"
    return "1" if decision.relevance is None else str(decision.relevance)


def _is_disputed(by_reviewer: dict[str, QueryDecision]) -> bool:
    is_resolved = next(reversed(by_reviewer.values())).view == DISAGREEMENTS_VIEW
    return not is_resolved and len({decision_category(decision) for decision in by_reviewer.values()}) > 1
