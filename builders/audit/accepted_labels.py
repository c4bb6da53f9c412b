"""Judgments of a judge that are precise enough, as people's answers show, to be those of a set."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from builders.audit.pool import PAIR
from builders.benchmark_set import Tables
from builders.decisions.application import merge_judgments

MODEL_JUDGE = "model"  # `judged_by`


@dataclass(frozen=True, slots=True)
class AcceptedLabels:
    """`rows`: query_id, image_id, relevance and evidence of pairs that a judge graded; `judge`: its record in a
    manifest; `precisions`: by accepted grade the lower end of its precision; `audit`: the audit's name; `extensions`:
    how often it had been extended."""

    rows: pd.DataFrame
    judge: dict[str, Any]
    precisions: Mapping[int, float]
    audit: str
    extensions: int = 0

    def as_record(self) -> dict[str, Any]:
        """Returns what a rebuild needs to find the same labels."""
        return {"audit": self.audit, "grades": sorted(self.precisions), "extensions": self.extensions}


def add_accepted_labels(tables: Tables, accepted: AcceptedLabels) -> tuple[Tables, int]:
    """Returns the tables with the labels of pairs that the tables do not judge, and the number of these. A judgment
    that is there, of a person or of the set, stays."""
    judged = pd.MultiIndex.from_frame(tables.qrels[PAIR].astype("str"))
    rows = accepted.rows[~pd.MultiIndex.from_frame(accepted.rows[PAIR]).isin(judged)]
    rows = rows[rows["query_id"].isin(tables.queries["query_id"]) & rows["image_id"].isin(tables.images["image_id"])]
    if not len(rows):
        return tables, 0
    return replace(tables, qrels=merge_judgments(tables.qrels, rows.assign(judged_by=MODEL_JUDGE))), len(rows)
