"""What people answered about the pairs of an audit, on the page or in a CSV.

The sample is shown blind, in random order; answers go to the set's decision log.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import pandas as pd

from querytruth.audit.audit_files import CARDS_UNIT, StoredAudit, audit_folder, read_audit
from querytruth.audit.pool import AUDIT_STAGE, PAIR
from querytruth.errors import UserError
from querytruth.review.review_exports import take_decisions
from querytruth.sets import decision_log, review_csv, set_files
from querytruth.sets.decision_agreement import (
    AUDIT_VIEW,
    cohen_kappa,
    count_majority,
    find_audit_id,
    find_disputes,
    grade_of,
    name_rating,
)
from querytruth.sets.decision_records import QueryDecision, UndeterminedPair, effective
from querytruth.sets.review_csv import ReviewTableOptions
from querytruth.sets.review_tables import ReviewExport, build_export, read_filled_table
from querytruth.sets.set_files import StoredSet

_LONGEST_GAP, _FEWEST_GAPS = 120, 10  # seconds; gaps
Pair = tuple[str, str]
CANNOT_TELL_MARK = "?"


@dataclass(frozen=True, slots=True)
class AuditAnswers:
    """The answers of an audit, joined. `grades`: by pair the effective grade; `undetermined`: pairs that the person, or
    two people who disagree, could not decide; `disputed`: pairs on which two people disagree; `judged_twice`, `same`:
    number of pairs that two people graded, and on which they agree; `kappa`: Cohen's kappa of relevant or not, None
    where it is undefined; `reviewers` and `notes`: by pair who answered, once for each look, and their notes;
    `ratings`: by pair whether each answer is relevant, in order."""

    grades: dict[Pair, int]
    undetermined: list[Pair]
    disputed: list[Pair]
    judged_twice: int
    same: int
    kappa: float | None
    reviewers: dict[Pair, list[str]]
    notes: dict[Pair, str]
    ratings: dict[Pair, list[bool]]

    def relevant(self) -> pd.Series:
        """Return by query_id and image_id whether the pair is relevant."""
        index = pd.MultiIndex.from_tuples(sorted(self.grades), names=PAIR)
        return pd.Series([self.grades[pair] > 0 for pair in index], index, dtype=bool)


def collect_answers(
    audit_id: str, decisions: Iterable[QueryDecision], undetermined: Iterable[UndeterminedPair]
) -> AuditAnswers:
    """Return the answers to an audit from a set's log. A person's last answer counts. Of two people who differ in
    whether a pair is relevant, neither counts until a third person has answered; then the majority does."""
    graded = [one for one in effective(decisions) if one.view == AUDIT_VIEW and find_audit_id(one) == audit_id]
    unsure = [one for one in effective(undetermined) if find_audit_id(one) == audit_id]
    lines: list[QueryDecision | UndeterminedPair] = [*graded, *unsure]
    by_pair: dict[Pair, dict[tuple[str, int], int | None]] = {}
    notes: dict[Pair, dict[tuple[str, int], str]] = {}
    for line in sorted(lines, key=lambda line: line.at):
        if line.undoes is None:
            pair = (line.query_id, str(line.image_id))
            by_pair.setdefault(pair, {})[name_rating(line)] = grade_of(line)
            notes.setdefault(pair, {})[name_rating(line)] = line.note.strip()
    grades = {pair: grade for pair, answers in by_pair.items() if (grade := _resolve(answers)) is not None}
    known = {
        pair: [grade for _, grade in sorted(answers.items()) if grade is not None] for pair, answers in by_pair.items()
    }
    disputed = sorted(pair for pair, given in known.items() if given and pair not in grades)
    categories = [(str(given[0] > 0), str(given[1] > 0)) for given in known.values() if len(given) > 1]
    return AuditAnswers(
        grades,
        sorted(set(by_pair) - set(grades)),
        disputed,
        len(categories),
        sum(one == other for one, other in categories),
        cohen_kappa(categories),
        {pair: sorted(reviewer for reviewer, _ in answers) for pair, answers in by_pair.items()},
        {pair: "; ".join(filter(None, texts.values())) for pair, texts in notes.items()},
        {pair: [bool(grade) for grade in answers.values()] for pair, answers in by_pair.items()},
    )


def read_judged_pairs(set_folder: Path, texts: Mapping[str, str]) -> dict[Pair, int]:
    """Return the grades that people gave pairs of a set, in audits and elsewhere, where the query reads as it did
    (`texts` by query id); without answers on which two people differ."""
    undetermined = decision_log.read_decisions(set_folder, UndeterminedPair)
    disputes = find_disputes(decision_log.read_decisions(set_folder, QueryDecision), undetermined)
    known = decision_log.load_decisions(set_folder, QueryDecision, disputes.left_out)
    return {
        (query, image): 0 if one.decision == "drop" else 1 if one.relevance is None else one.relevance
        for (query, image), one in known.items()
        if image is not None and one.text == texts.get(query)
    }


def _resolve(answers: Mapping[tuple[str, int], int | None]) -> int | None:
    """Return the last grade on the side of the majority; None where everybody was undecided or the votes are tied."""
    known = [grade for grade in answers.values() if grade is not None]
    balance = count_majority(known)
    sided = [grade for grade in known if (grade > 0) == (balance > 0)]
    return sided[-1] if balance else None


def median_seconds(decisions: Iterable[QueryDecision]) -> float | None:
    """Return the median time in which a person made a single judgment on the page after another decision; None with
    fewer than ten. More than two minutes is a pause. An action that confirms several images at once, or a whole query,
    has no time per judgment: it only ends the time before it."""
    actions: dict[tuple[str, str], set[str | None]] = {}
    for decision in decisions:
        if decision.view != "csv" and decision.at:
            actions.setdefault((decision.reviewer, decision.at), set()).add(decision.image_id)
    last: dict[str, datetime] = {}
    gaps = []
    for (reviewer, time), images in actions.items():
        at = datetime.fromisoformat(time)
        gap = (at - last.get(reviewer, at)).total_seconds()
        is_single = len(images) == 1 and None not in images
        gaps += [gap] if is_single and 0 < gap <= _LONGEST_GAP else []
        last[reviewer] = at
    return round(median(gaps), 1) if len(gaps) >= _FEWEST_GAPS else None


def take_out_undetermined(
    edited: pd.DataFrame, audit_id: str, reviewer: str, at: str
) -> tuple[pd.DataFrame, list[UndeterminedPair]]:
    """Return a filled-in table without the answers that a person cannot tell, and those."""
    if "decision" not in edited.columns:
        return edited, []
    answers = edited["decision"].str.strip().str.normalize("NFKC")
    unsure = answers == CANNOT_TELL_MARK
    found = [
        UndeterminedPair(
            row["query_id"], row["image_id"], audit_id, note=row["note"], reviewer=reviewer, view="csv", at=at
        )
        for row in edited[unsure].to_dict("records")
    ]
    blank = edited.assign(decision=edited["decision"].where(~unsure, ""), note=edited["note"].where(~unsure, ""))
    return blank, found


def load_audit(path: Path, name: str) -> tuple[StoredAudit, StoredSet]:
    """Return an audit of the set at `path` and its version. Raises UserError where that version was deleted or
    changed."""
    audit = read_audit(audit_folder(path.parent, name))
    known = audit.manifest["set"]
    stored = set_files.read_set(set_files.find_set(str(path.parent / f"v{known['version']}")))
    if stored.manifest["content_digest"] != known["content_digest"]:
        reason = f"belongs to {known['name']}/v{known['version']}, and that version changed afterwards"
        raise UserError(AUDIT_STAGE, name, reason, "run querytruth verify on the set, or start another audit")
    return audit, stored


def build_sample_export(audit: StoredAudit, stored: StoredSet) -> ReviewExport:
    """Return the sample as a table to fill in, the same at every call: neither the set's grade, nor a judge's, nor a
    system, nor the stratum is shown. Raises UserError for an audit until a goal."""
    tables, manifest, sample = stored.tables, stored.manifest, audit.sample
    if audit.manifest["unit"] == CARDS_UNIT:
        reason = "hands out its cards one by one on the page and has no table of them"
        raise UserError(AUDIT_STAGE, audit.manifest["name"], reason, f"querytruth review {manifest['name']}")
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    files = tables.images["path"].where(tables.images["path"].notna(), tables.images["file_name"]).fillna("")
    names = dict(zip(tables.images["image_id"], files, strict=True))
    rows = sample.sort_values("order")[PAIR].assign(
        text=sample["query_id"].map(texts), image=sample["image_id"].map(names).fillna("")
    )
    export = build_export(AUDIT_VIEW, rows, f"{manifest['name']}/v{manifest['version']}", audit.manifest["audit_id"])
    return replace(export, grades=tuple(sorted({0, *map(int, manifest["grades"])})))


def import_sample(
    path: Path, name: str, file: Path, reviewer: str, options: ReviewTableOptions
) -> tuple[list[QueryDecision], list[UndeterminedPair], list[str]]:
    """Return the answers of a filled-in sample, the undecided pairs, and the problems because of which no answer is
    accepted; stores nothing. Raises UserError where the file is not the sample of this audit."""
    audit, stored = load_audit(path, name)
    audit_id = audit.manifest["audit_id"]
    export = build_sample_export(audit, stored)
    filled = review_csv.read_review_csv(file, options.encoding)
    if (filled.export_id, filled.view) != (export.export_id, export.view):
        reason = (
            f"is not the sample of audit {name} (set {filled.set_name}, view {filled.view}, export {filled.export_id})"
        )
        next_step = f"fill in what querytruth review export-csv {path.parent.name} --audit {name} writes"
        raise UserError("import audit CSV", file, reason, next_step)
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    rows, undetermined = take_out_undetermined(filled.rows, audit_id, reviewer, at)
    reading = read_filled_table(export, rows, options.allow, reviewer, at)
    decisions = [replace(decision, view=AUDIT_VIEW, source=audit_id) for decision in reading.decisions]
    return decisions, undetermined, reading.problems


def take_answers(path: Path, decisions: list[QueryDecision], undetermined: list[UndeterminedPair]) -> int:
    """Add answers to the set's decision log, but none that is there already; return the number of those that are."""
    return take_decisions(path.parent, decisions) + take_decisions(path.parent, undetermined)


def read_answers(path: Path, audit: StoredAudit) -> AuditAnswers:
    """Return what people answered so far. Raises UserError for a damaged log."""
    return collect_answers(
        audit.manifest["audit_id"],
        decision_log.read_decisions(path.parent, QueryDecision),
        decision_log.read_decisions(path.parent, UndeterminedPair),
    )


def count_waiting(audit: StoredAudit, answers: AuditAnswers) -> int:
    """Return the number of drawn pairs that fewer people answered than the audit asks for."""
    people = audit.manifest.get("people", 1)
    pairs = zip(audit.sample["query_id"], audit.sample["image_id"], strict=True)
    return sum(len(answers.reviewers.get(pair, ())) < people for pair in pairs)
