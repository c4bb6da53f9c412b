"""How far the people who judged one set agree: Cohen's kappa of each two of them, and what they disagree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from builders.decisions import Decision

SETTLED_IN = "disagreements"  # the view in which a person has the last word on what two others said
Target = tuple[str, str | None]
Words = dict[Target, dict[str, Decision]]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of two people on what both judged: `about` queries or judgments. kappa is 1 for full agreement and 0 for what
    chance gives; None where both said one and the same of everything, or nothing was judged by both."""

    first: str
    second: str
    about: str
    both: int
    same: int
    kappa: float | None


def last_words(log: Iterable[Decision]) -> Words:
    """Per target what each person said last. The log comes without what was taken back (decisions.standing)."""
    words: Words = {}
    for decision in log:
        if decision.undoes is None:
            words.setdefault(decision.target, {}).pop(decision.reviewer, None)  # later words go to the end
            words[decision.target][decision.reviewer] = decision
    return words


def agreements(words: Words) -> list[Agreement]:
    """Of each two people who judged something both, by name."""
    people = sorted({person for said in words.values() for person in said})
    found = []
    for first, second in combinations(people, 2):
        for about, is_pair in (("queries", False), ("judgments", True)):
            both = [
                (verdict(said[first]), verdict(said[second]))
                for (_, image), said in words.items()
                if first in said and second in said and (image is not None) == is_pair
            ]
            if both:
                same = sum(a == b for a, b in both)
                found.append(Agreement(first, second, about, len(both), same, cohen_kappa(both)))
    return found


def disagreements(words: Words) -> list[Target]:
    """Targets of which people said different things, without those that a person settled after that; sorted."""
    return sorted((target for target, said in words.items() if _differ(said)), key=lambda t: (t[0], t[1] or ""))


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


def verdict(decision: Decision) -> str:
    """What was said, in a form that two people share: of a judgment its grade (1 for a keep that names none), of a
    query keep, drop or the new text."""
    if decision.image_id is None:
        return f"edit: {decision.new_text}" if decision.decision == "edit" else decision.decision
    if decision.decision == "drop":
        return "0"
    return "1" if decision.relevance is None else str(decision.relevance)


def _differ(said: dict[str, Decision]) -> bool:
    settled = next(reversed(said.values())).view == SETTLED_IN
    return not settled and len({verdict(decision) for decision in said.values()}) > 1
