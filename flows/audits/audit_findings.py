"""What the report of an audit lists beside its estimates: the pairs that were found, and systems that change places."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from backends.sets.audit_files import StoredAudit
from backends.sets.set_files import StoredSet
from builders.audit.answers import AuditAnswers
from builders.audit.pool import NO_LABEL, PAIR
from evaluation.comparison import kendall_tau_b

MISSING, WRONG = "missing", "wrong"
_MOST_PAIRS = 60  # of each kind that a report lists
_EQUAL = 1e-9


def list_found_pairs(audit: StoredAudit, stored: StoredSet, answers: AuditAnswers) -> dict[str, Any]:
    """Returns the drawn pairs of which people say other than the set, in the order of the sample, and their numbers:
    `missing` are relevant and the set does not say so, `wrong` are not and the set says so."""
    queries = stored.tables.queries.astype({"query_id": "str"}).set_index("query_id")[["text", "language"]]
    pool = audit.pool if "reason" in audit.pool else audit.pool.assign(reason="")
    known = audit.sample[PAIR].merge(pool, how="left", on=PAIR).fillna(
        {"relevance": NO_LABEL, "judge": NO_LABEL, "reason": ""}
    )  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {MISSING: [], WRONG: []}
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
                    "grade_of_judge": _none_without(row["judge"]),
                    "reason_of_judge": row["reason"],
                    "note": answers.notes[pair],
                    "reviewers": answers.reviewers[pair],
                }
            )
    return {name: {"number": len(pairs), "pairs": pairs[:_MOST_PAIRS]} for name, pairs in found.items()}


def compare_orders(figures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns by metric the order of the systems before and after, Kendall's tau-b of both, and how many pairs of
    systems there are and which of these change: another one is better, or they are no longer equal, or now are."""
    table = pd.DataFrame(figures)
    return [_compare_order(str(metric), rows) for metric, rows in table.groupby("metric", sort=False)]


def _compare_order(metric: str, rows: pd.DataFrame) -> dict[str, Any]:
    before, after = (dict(zip(rows["system"], rows[key], strict=True)) for key in ("before", "value"))
    pairs = list(combinations(sorted(before), 2))
    changed = [[one, other] for one, other in pairs if _verdict(before, one, other) != _verdict(after, one, other)]
    return {
        "metric": metric,
        "before": sorted(before, key=lambda name: (-before[name], name)),
        "after": sorted(after, key=lambda name: (-after[name], name)),
        "kendall_tau_b": kendall_tau_b(before, after),
        "pairs": len(pairs),
        "changed": changed,
    }


def _verdict(means: Mapping[str, float], one: str, other: str) -> int:
    difference = means[one] - means[other]
    return 0 if abs(difference) < _EQUAL else 1 if difference > 0 else -1


def _none_without(grade: float) -> int | None:
    return None if grade == NO_LABEL else int(grade)
