"""What people answered about the pairs of an audit."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median

import pandas as pd

from builders.audit.pool import PAIR
from builders.decisions.agreement import cohen_kappa
from builders.decisions.effective import effective
from builders.decisions.records import QueryDecision, UndeterminedPair

AUDIT_VIEW = "audit"
CANNOT_TELL = "cannot_tell"
_LONGEST_GAP, _FEWEST_GAPS = 120, 10  # seconds; gaps
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AuditAnswers:
    """`grades`: by pair the grade that holds; `undetermined`: pairs of which the person, or two people who differ, do
    not tell; `disputed`: those of these on which two differ; `judged_twice`, `same`: number of pairs that two people
    graded, and on which they agree; `kappa`: Cohen's, of relevant or not, None where it is not defined; `reviewers` and
    `notes`: by pair who answered, and what they noted."""

    grades: dict[Pair, int]
    undetermined: list[Pair]
    disputed: list[Pair]
    judged_twice: int
    same: int
    kappa: float | None
    reviewers: dict[Pair, list[str]]
    notes: dict[Pair, str]

    def relevant(self) -> pd.Series:
        """Returns by query_id and image_id whether the pair is relevant."""
        index = pd.MultiIndex.from_tuples(sorted(self.grades), names=PAIR)
        return pd.Series([self.grades[pair] > 0 for pair in index], index, dtype=bool)


def collect_answers(
    audit_id: str, decisions: Iterable[QueryDecision], undetermined: Iterable[UndeterminedPair]
) -> AuditAnswers:
    """Returns the answers to an audit from a set's log. A person's last answer counts. Of two people who differ in
    whether a pair is relevant, neither counts until a third person has answered; then the majority does."""
    graded = [one for one in effective(decisions) if one.source == audit_id and one.view == AUDIT_VIEW]
    unsure = [one for one in effective(undetermined) if one.audit == audit_id]
    lines: list[QueryDecision | UndeterminedPair] = [*graded, *unsure]
    by_pair: dict[Pair, dict[str, int | None]] = {}
    notes: dict[Pair, dict[str, str]] = {}
    for line in sorted(lines, key=lambda line: line.at):
        if line.undoes is None:
            pair = (line.query_id, str(line.image_id))
            by_pair.setdefault(pair, {})[line.reviewer] = _grade(line)
            notes.setdefault(pair, {})[line.reviewer] = line.note.strip()
    grades = {pair: grade for pair, answers in by_pair.items() if (grade := _resolve(answers)) is not None}
    disputed = sorted(pair for pair, answers in by_pair.items() if pair not in grades and _is_split(answers))
    both = [_first_two(answers) for answers in by_pair.values()]
    categories = [(str(two[0] > 0), str(two[1] > 0)) for two in both if two is not None]
    return AuditAnswers(
        grades,
        sorted(set(by_pair) - set(grades)),
        disputed,
        len(categories),
        sum(one == other for one, other in categories),
        cohen_kappa(categories),
        {pair: sorted(answers) for pair, answers in by_pair.items()},
        {pair: "; ".join(filter(None, texts.values())) for pair, texts in notes.items()},
    )


@dataclass(frozen=True, slots=True)
class AuditDisputes:
    """`left_out`: ids of answers that must not change a set, since people differ or the majority says otherwise;
    `unsettled`: the last answer on each pair that waits for a third person and that nobody judged elsewhere."""

    left_out: frozenset[str]
    unsettled: list[QueryDecision]

    def exclude_from(
        self, decisions: Iterable[QueryDecision], published_ids: Collection[str] = ()
    ) -> list[QueryDecision]:
        """Returns the decisions without those that must not change a set; what a published version contains stays."""
        return [one for one in decisions if one.decision_id not in self.left_out or one.decision_id in published_ids]


def find_disputes(
    decisions: Iterable[QueryDecision], undetermined: Iterable[UndeterminedPair], published_ids: Collection[str] = ()
) -> AuditDisputes:
    """Returns the disputes in the audits of a log, by the rule of `collect_answers`. `published_ids`: decisions that a
    published version contains."""
    known = [one for one in effective(decisions, published_ids) if one.undoes is None and one.image_id is not None]
    graded = [one for one in known if one.view == AUDIT_VIEW]
    judged_elsewhere = {one.target for one in known if one.view != AUDIT_VIEW}
    unsure = [one for one in effective(undetermined) if one.undoes is None]
    lines: list[QueryDecision | UndeterminedPair] = [*graded, *unsure]
    last: dict[tuple[str, Pair], dict[str, QueryDecision | UndeterminedPair]] = {}
    for line in sorted(lines, key=lambda line: line.at):
        last.setdefault(_audited_pair(line), {})[line.reviewer] = line
    balances = {key: _balance([_grade(line) for line in answers.values()]) for key, answers in last.items()}
    left_out = set()
    for one in graded:
        grade, balance = _grade(last[_audited_pair(one)][one.reviewer]), balances[_audited_pair(one)]
        if grade is None or not balance or (grade > 0) != (balance > 0):
            left_out.add(one.decision_id)
    split = [
        [one for one in last[key].values() if isinstance(one, QueryDecision)] for key in balances if not balances[key]
    ]
    unsettled = [lines[-1] for lines in split if lines and lines[-1].target not in judged_elsewhere]
    return AuditDisputes(frozenset(left_out), sorted(unsettled, key=lambda line: str(line.target)))


def _audited_pair(line: QueryDecision | UndeterminedPair) -> tuple[str, Pair]:
    audit_id = line.source if isinstance(line, QueryDecision) else line.audit
    return audit_id, (line.query_id, str(line.image_id))


def _grade(line: QueryDecision | UndeterminedPair) -> int | None:
    return line.relevance if isinstance(line, QueryDecision) else None


def _resolve(answers: Mapping[str, int | None]) -> int | None:
    """The last grade on the side of the majority; None where nobody tells, or as many say yes as no."""
    known = [grade for grade in answers.values() if grade is not None]
    balance = _balance(known)
    sided = [grade for grade in known if (grade > 0) == (balance > 0)]
    return sided[-1] if balance else None


def _balance(grades: Iterable[int | None]) -> int:
    """How many more people say yes than no."""
    return sum(1 if grade > 0 else -1 for grade in grades if grade is not None)


def _is_split(answers: Mapping[str, int | None]) -> bool:
    return any(grade is not None for grade in answers.values())


def _first_two(answers: Mapping[str, int | None]) -> tuple[int, int] | None:
    known = [grade for _, grade in sorted(answers.items()) if grade is not None]
    return (known[0], known[1]) if len(known) > 1 else None


def median_seconds(decisions: Iterable[QueryDecision]) -> float | None:
    """Returns the median time between two judgments that a person made on the page, one after the other; None of fewer
    than ten. Longer than two minutes is a pause."""
    last: dict[str, datetime] = {}
    gaps = []
    for decision in decisions:
        if decision.image_id is None or decision.view == "csv" or not decision.at:
            continue
        at = datetime.fromisoformat(decision.at)
        gap = (at - last.get(decision.reviewer, at)).total_seconds()
        gaps += [gap] if 0 < gap <= _LONGEST_GAP else []
        last[decision.reviewer] = at
    return round(median(gaps), 1) if len(gaps) >= _FEWEST_GAPS else None
