"""The sample of an audit as a review table: blind, in the order of the sample."""

from dataclasses import replace

import pandas as pd

from builders.audit.answers import AUDIT_VIEW
from builders.audit.pool import PAIR
from builders.decisions.records import QueryDecision, UndeterminedPair
from builders.decisions.review_tables import ReviewExport, build_export

CANNOT_TELL_MARK = "?"


def export_sample(
    sample: pd.DataFrame, texts: dict[str, str], names: dict[str, str], set_name: str, audit_id: str, grades: list[int]
) -> ReviewExport:
    """Returns the pairs to judge: neither the set's grade, nor a judge's, nor a system, nor the stratum is shown.
    `texts`: by query id, `names`: file names by image id."""
    rows = sample.sort_values("order")[PAIR].assign(
        text=sample["query_id"].map(texts), picture=sample["image_id"].map(names).fillna("")
    )
    return replace(build_export(AUDIT_VIEW, rows, set_name, audit_id), grades=tuple(grades))


def take_out_undetermined(
    edited: pd.DataFrame, audit_id: str, reviewer: str, at: str
) -> tuple[pd.DataFrame, list[UndeterminedPair]]:
    """Returns a filled-in table without the answers that a person cannot tell, and those."""
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


def mark_as_audit(decisions: list[QueryDecision], audit_id: str) -> list[QueryDecision]:
    """Returns the decisions as answers to the audit."""
    return [replace(decision, view=AUDIT_VIEW, source=audit_id) for decision in decisions]
