"""The report of an audit: what people's answers say about the set and the systems, and the pairs that were found."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from querytruth.audit import pair_audit
from querytruth.audit.answers import AuditAnswers, count_waiting, load_audit, read_answers
from querytruth.audit.audit_files import CARDS_UNIT, StoredAudit, write_audit_report
from querytruth.audit.card_audit import CardAudit
from querytruth.audit.judge_reliability import describe_agreement, describe_reliability
from querytruth.audit.page import write_audit_page
from querytruth.audit.pool import AUDIT_STAGE, NO_LABEL, OUTSIDE, PAIR, AuditPool, JsonRecord
from querytruth.audit.steps import count_strata
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.evaluation import statistics
from querytruth.evaluation.result_files import to_plain_json
from querytruth.sets.set_files import StoredSet

MISSING, WRONG = "missing", "wrong"
_MOST_PAIRS = 60  # of each kind that a report lists
_MEASURES = ("missing_share", "multiplier", "missing", "wrong_share")
_FEWEST_ANSWERS = 10


def list_found_pairs(audit: StoredAudit, stored: StoredSet, answers: AuditAnswers) -> JsonRecord:
    """Return the drawn pairs on which people and the set disagree, in the order of the sample, and their numbers:
    `missing` pairs are relevant but not in the set, `wrong` pairs are in the set but not relevant."""
    queries = stored.tables.queries.astype({"query_id": "str"}).set_index("query_id")[["text", "language"]]
    pool = audit.pool if "reason" in audit.pool else audit.pool.assign(reason="")
    known = audit.sample[PAIR].merge(pool, how="left", on=PAIR).fillna(
        {"relevance": NO_LABEL, "judge": NO_LABEL, "reason": ""}
    )  # fmt: skip
    found: dict[str, list[JsonRecord]] = {MISSING: [], WRONG: []}
    for row in known.to_dict("records"):
        pair = (row["query_id"], row["image_id"])
        is_marked, grade = row["relevance"] > 0, answers.grades.get(pair)
        if grade is not None and (grade > 0) != is_marked:
            found[WRONG if is_marked else MISSING].append(
                {
                    "query_id": pair[0],
                    "image_id": pair[1],
                    **{key: str(queries.at[pair[0], key]) for key in ("text", "language")},
                    "grade": grade,
                    "grade_of_set": _none_without(row["relevance"]),
                    "grade_of_judge": _none_without(row["judge"]) if "score" not in row else _round(row["score"]),
                    "reason_of_judge": row["reason"],
                    "note": answers.notes[pair],
                    "reviewers": answers.reviewers[pair],
                }
            )
    return {name: {"number": len(pairs), "pairs": pairs[:_MOST_PAIRS]} for name, pairs in found.items()}


def _round(score: float) -> float | None:
    return None if np.isnan(score) else float(f"{score:.3g}")


def _none_without(grade: float) -> int | None:
    return None if grade == NO_LABEL else int(grade)


@step("estimate")
def report_audit(path: Path, name: str, page_language: str | None = None) -> tuple[JsonRecord, Path]:
    """Estimate from the answers so far; writes report.json into the audit's folder, and report.html in a language of
    PAGE_LANGUAGES, if one is given; return the report and the last file. The same answers give the same bytes. Raises
    UserError where too few are answered."""
    audit, stored = load_audit(path, name)
    answers = read_answers(path, audit)
    findings = _report_cards if audit.manifest["unit"] == CARDS_UNIT else _report_pairs
    report = {
        **{key: audit.manifest[key] for key in ("name", "audit_id", "set", "unit", "depth", "queries", "strata")},
        "answers": _count_answers(audit, answers),
        **findings(audit, stored, answers),
        "judge": _report_judge(audit, answers),
        "outside": _report_outside(audit, answers),
        "found": list_found_pairs(audit, stored, answers),
    }
    if certificate := report.get("certificate"):
        report["outside"]["at_most"] = certificate["outside_at_most"]
        report["strata"] = count_strata(
            AuditPool(audit.pool, audit.ranks, 0), audit.sample[PAIR].merge(audit.pool, on=PAIR)
        )
    plain = to_plain_json(report)
    file = write_audit_report(audit.path, plain)
    return plain, file if page_language is None else write_audit_page(plain, audit.path, stored, page_language)


def _report_pairs(audit: StoredAudit, stored: StoredSet, answers: AuditAnswers) -> JsonRecord:
    relevant = answers.relevant()
    inside = audit.sample[audit.sample["stratum"] != OUTSIDE]
    answered = relevant[relevant.index.isin(pd.MultiIndex.from_frame(inside[PAIR]))]
    if len(answered) < _FEWEST_ANSWERS:
        raise _too_few(
            audit,
            f"only {len(answered)} of {len(inside)} pairs have an answer",
            f"at least {_FEWEST_ANSWERS} answered pairs",
        )
    known = set(answers.grades) | set(answers.undetermined)
    done = {name for name, pair in zip(inside["stratum"], _list_pairs(inside), strict=True) if pair in known}
    if waiting := sorted(set(inside["stratum"]) - done):
        raise _too_few(audit, f"no pair of {waiting[0]} has an answer", "one answered pair per stratum")
    estimates = pair_audit.PairAudit.from_answers(audit.pool, answered)
    undetermined = pd.MultiIndex.from_tuples(
        [pair for pair in answers.undetermined if pair not in _pairs_outside(audit)], names=PAIR
    )

    def estimate(given: pd.Series) -> pair_audit.TruthEstimates:
        return pair_audit.PairAudit.from_answers(audit.pool, given).estimate_truth()

    systems = pair_audit.estimate_systems(estimates, audit.ranks, audit.manifest["queries"], audit.manifest["depth"])
    truth = estimates.estimate_truth()
    return {
        "truth": _tabulate_truth(truth, pair_audit.bound_undetermined(estimate, answered, undetermined)),
        "slices": pair_audit.estimate_slices(estimates, stored.tables.queries).to_dict("records"),
        "figures": systems.to_dict("records"),
    }


def _report_cards(audit: StoredAudit, stored: StoredSet, answers: AuditAnswers) -> JsonRecord:
    """Return the certified bounds of the set. It holds no figures of systems: those are measured on the improved
    set."""
    return {"truth": [], "slices": [], "figures": [], "certificate": CardAudit(audit, stored).certify(answers)}


def _tabulate_truth(truth: pair_audit.TruthEstimates, bounds: Mapping[str, tuple[float, float]]) -> list[JsonRecord]:
    return [
        {
            "measure": name,
            **{end: float(getattr(truth[name], end)) for end in ("value", "low", "high")},
            "if_undetermined": sorted(bounds[name]),
        }
        for name in _MEASURES
    ]


def _count_answers(audit: StoredAudit, answers: AuditAnswers) -> JsonRecord:
    sampled = set(_list_pairs(audit.sample))
    return {
        "sampled": len(audit.sample),
        "answered": sum(pair in sampled for pair in answers.grades),
        "cannot_tell": len(answers.undetermined) - len(answers.disputed),
        "disputed": [list(pair) for pair in answers.disputed],
        "people": audit.manifest.get("people", 1),
        "waiting": count_waiting(audit, answers),
        "judged_twice": answers.judged_twice,
        "same": answers.same,
        "kappa": answers.kappa,
        "relevant_share": float(np.mean([grade > 0 for grade in answers.grades.values()])) if answers.grades else None,
    }


def _report_judge(audit: StoredAudit, answers: AuditAnswers) -> JsonRecord | None:
    """Return the judge, and its agreement with people on the pairs that both graded."""
    if audit.manifest["judge"] is None:
        return None
    about = {**audit.manifest["judge"]}
    if "score" in audit.pool:
        scored = audit.pool[audit.pool["score"].notna()]
        known = scored[[pair in answers.grades for pair in _list_pairs(scored)]]
        relevant = np.array([float(answers.grades[pair] > 0) for pair in _list_pairs(known)])
        reliability = describe_reliability(known["score"].to_numpy(), relevant, known["query_id"].tolist())
        return {**about, "agreement": None, "reliability": reliability}
    labels = dict(zip(_list_pairs(audit.pool), audit.pool["judge"].tolist(), strict=True))
    chance = dict(zip(_list_pairs(audit.sample), audit.sample["probability"].tolist(), strict=True))
    both = [pair for pair in sorted(answers.grades) if pair in chance and labels.get(pair, NO_LABEL) != NO_LABEL]
    if not both:
        return {**about, "agreement": None}
    grades, weights = [answers.grades[pair] for pair in both], [1 / chance[pair] for pair in both]
    return {**about, "agreement": describe_agreement(grades, [labels[pair] for pair in both], weights)}


def _report_outside(audit: StoredAudit, answers: AuditAnswers) -> JsonRecord:
    """Return an upper bound on relevant pairs outside the pool, from the pairs that were drawn there."""
    judged = [answers.grades[pair] > 0 for pair in _pairs_outside(audit) if pair in answers.grades]
    size = int(audit.manifest["outside"]["pairs"])
    bound = statistics.bound_proportion(sum(judged), len(judged)) * size if judged else None
    drawn = int((audit.sample["stratum"] == OUTSIDE).sum())
    return {"pairs": size, "drawn": drawn, "answered": len(judged), "relevant": sum(judged), "at_most": bound}


def _pairs_outside(audit: StoredAudit) -> set[tuple[str, str]]:
    return set(_list_pairs(audit.sample[audit.sample["stratum"] == OUTSIDE]))


def _list_pairs(table: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(table["query_id"], table["image_id"], strict=True))


def _too_few(audit: StoredAudit, reason: str, needed: str) -> UserError:
    set_name, name = audit.manifest["set"]["name"], audit.manifest["name"]
    next_step = f"judge {needed}: querytruth review export-csv {set_name} --audit {name}"
    return UserError(AUDIT_STAGE, name, reason, next_step)
