"""Agreement of decisions: shared by equivalent queries, compared between reviewers, and disputed in audits.

A decision on a judgment holds for all queries with the same meaning. A query with its own decision on an image keeps
it. Where such decisions differ, each holds for its own query only, and the difference is a conflict for people to
resolve. Agreement of two reviewers is Cohen's kappa; audit answers on which people differ change no set.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from querytruth.sets.decision_records import QueryDecision, UndeterminedPair, effective

AUDIT_VIEW = "audit"
_RATING = "~"  # before the number of a look, where a person judges a pair again
DISAGREEMENTS_VIEW = "disagreements"  # the view in which a person resolves a disagreement
JudgmentTarget = tuple[str, str | None]
DecisionsByTarget = dict[JudgmentTarget, dict[str, QueryDecision]]
JudgmentDecisions = dict[tuple[str, str], list[QueryDecision]]  # by query and image
EquivalentIds = Mapping[str, tuple[str, ...]]


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
    """Return by target each person's last decision, from a log without undone decisions (`effective`)."""
    latest: DecisionsByTarget = {}
    for decision in log:
        if decision.undoes is None:
            latest.setdefault(decision.target, {}).pop(decision.reviewer, None)  # later decisions go to the end
            latest[decision.target][decision.reviewer] = decision
    return latest


def compute_agreements(decisions: DecisionsByTarget) -> list[PairwiseAgreement]:
    """Return the agreement of each two people who have targets in common, sorted by name."""
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
    """Return the sorted targets on which people differ, without those resolved in the view of disagreements."""
    disputed = [target for target, by_reviewer in decisions.items() if _is_disputed(by_reviewer)]
    return sorted(disputed, key=lambda target: (target[0], target[1] or ""))


def cohen_kappa(both: list[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa, (observed - expected) / (1 - expected), of two people's categories for the same items
    (Cohen, Educational and Psychological Measurement 20, 1960). None where it is not defined."""
    if not both:
        return None
    count = len(both)
    observed = sum(first == second for first, second in both) / count
    firsts, seconds = Counter(first for first, _ in both), Counter(second for _, second in both)
    expected = sum(firsts[name] * seconds[name] for name in firsts) / count**2
    return None if expected >= 1 else (observed - expected) / (1 - expected)


def decision_category(decision: QueryDecision) -> str:
    """Return the decision as a category: of a judgment its grade (1 for a keep without one), of a query keep, drop or
    the new text."""
    if decision.image_id is None:
        return f"edit: {decision.new_text}" if decision.decision == "edit" else decision.decision
    if decision.decision == "drop":
        return "0"
    return "1" if decision.relevance is None else str(decision.relevance)


def _is_disputed(by_reviewer: dict[str, QueryDecision]) -> bool:
    is_resolved = next(reversed(by_reviewer.values())).view == DISAGREEMENTS_VIEW
    return not is_resolved and len({decision_category(decision) for decision in by_reviewer.values()}) > 1


@dataclass(frozen=True, slots=True)
class DecisionConflict:
    """The last decisions on one image for equivalent queries, one per query; not all of them agree."""

    image_id: str
    decisions: tuple[QueryDecision, ...]

    def describe(self) -> str:
        """Return the decisions in one line: “狗” 2, “dog” 0."""
        return ", ".join(f"“{decision.text}” {decision_category(decision)}" for decision in self.decisions)

    def as_record(self) -> dict[str, Any]:
        """Return the conflict for a manifest."""
        grades = {decision.query_id: decision_category(decision) for decision in self.decisions}
        return {"image_id": self.image_id, "grades": grades}


def share_decisions(
    new: Sequence[QueryDecision],
    published: Sequence[QueryDecision],
    equivalent: EquivalentIds,
    positions: Mapping[str, int],
) -> JudgmentDecisions:
    """Return by query and image the decisions to apply to the judgment, in order: its own ones, and before the first
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
                origin = f"{decision.evidence} (asked as “{decision.text}”)"  # as a note, it becomes the evidence
                shared.setdefault(target, []).append(replace(decision, query_id=query_id, note=origin))
    return shared


def find_conflicts(decisions: Iterable[QueryDecision], equivalent: EquivalentIds) -> list[DecisionConflict]:
    """Return the conflicts of decisions that fit the set, given in the log's order."""
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
    """Yield the first query of the group, the image and the decision, of each decision on a judgment of the set."""
    for decision in decisions:
        if decision.image_id is not None and decision.query_id in equivalent:
            yield equivalent[decision.query_id][0], decision.image_id, decision


@dataclass(frozen=True, slots=True)
class AuditDisputes:
    """`left_out`: ids of answers that must not change a set, since people differ or the majority disagrees;
    `unsettled`: the last answer on each pair that waits for a third person and that nobody judged elsewhere."""

    left_out: frozenset[str]
    unsettled: list[QueryDecision]

    def exclude_from(
        self, decisions: Iterable[QueryDecision], published_ids: Collection[str] = ()
    ) -> list[QueryDecision]:
        """Return the decisions without those that must not change a set; what a published version contains stays."""
        return [one for one in decisions if one.decision_id not in self.left_out or one.decision_id in published_ids]


def find_disputes(
    decisions: Iterable[QueryDecision], undetermined: Iterable[UndeterminedPair], published_ids: Collection[str] = ()
) -> AuditDisputes:
    """Return the disputes in the audits of a log: a person's last answer counts, and of two people who differ neither.
    `published_ids`: decisions that a published version contains."""
    known = [one for one in effective(decisions, published_ids) if one.undoes is None and one.image_id is not None]
    graded = [one for one in known if one.view == AUDIT_VIEW]
    judged_elsewhere = {one.target for one in known if one.view != AUDIT_VIEW}
    unsure = [one for one in effective(undetermined) if one.undoes is None]
    lines: list[QueryDecision | UndeterminedPair] = [*graded, *unsure]
    last: dict[tuple[str, tuple[str, str]], dict[tuple[str, int], QueryDecision | UndeterminedPair]] = {}
    for line in sorted(lines, key=lambda line: line.at):
        last.setdefault(_audited_pair(line), {})[name_rating(line)] = line
    balances = {key: count_majority([grade_of(line) for line in answers.values()]) for key, answers in last.items()}
    left_out = set()
    for one in graded:
        grade, balance = grade_of(last[_audited_pair(one)][name_rating(one)]), balances[_audited_pair(one)]
        if grade is None or not balance or (grade > 0) != (balance > 0):
            left_out.add(one.decision_id)
    split = [
        [one for one in last[key].values() if isinstance(one, QueryDecision)] for key in balances if not balances[key]
    ]
    unsettled = [lines[-1] for lines in split if lines and lines[-1].target not in judged_elsewhere]
    return AuditDisputes(frozenset(left_out), sorted(unsettled, key=lambda line: str(line.target)))


def _audited_pair(line: QueryDecision | UndeterminedPair) -> tuple[str, tuple[str, str]]:
    return find_audit_id(line), (line.query_id, str(line.image_id))


def name_audit_rating(audit: str, number: int) -> str:
    """Return the name of a person's first, second or third look in an audit, by the audit's name or id."""
    return audit if number == 1 else f"{audit}{_RATING}{number}"


def find_audit_id(line: QueryDecision | UndeterminedPair) -> str:
    """Return the id of the audit that a line answers, whichever look it is."""
    return (line.source if isinstance(line, QueryDecision) else line.audit).partition(_RATING)[0]


def name_rating(line: QueryDecision | UndeterminedPair) -> tuple[str, int]:
    """Return whose look an answer of an audit is, and the number of that person's look at the pair."""
    number = (line.source if isinstance(line, QueryDecision) else line.audit).partition(_RATING)[2]
    return line.reviewer, int(number) if number.isdecimal() else 1


def grade_of(line: QueryDecision | UndeterminedPair) -> int | None:
    """Return the grade of an answer; None where the person could not tell."""
    return line.relevance if isinstance(line, QueryDecision) else None


def count_majority(grades: Iterable[int | None]) -> int:
    """Return the number of people who say yes minus the number who say no."""
    return sum(1 if grade > 0 else -1 for grade in grades if grade is not None)
