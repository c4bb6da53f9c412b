"""Reasons for rejections by stage, with examples that are the same whenever the set is."""

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from builders.ledger import describe_rejection
from builders.records import stable_hash
from review.page_parts import text_or_empty

_CANDIDATES = 2000  # items of a reason that examples are sampled from, to bound the time


class RejectionExample(NamedTuple):
    """An item with its text ("" for none) and the other details in the ledger."""

    item: str
    text: str
    description: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RejectionReason:
    """The number of items of one kind that left a stage for one reason, and some of them."""

    stage: str
    kind: str
    bucket: str
    reason: str
    count: int
    examples: tuple[RejectionExample, ...]


def sample_rejections(ledger: pd.DataFrame, examples: int) -> list[RejectionReason]:
    """Return the reasons in the ledger, stage by stage in its order, the most frequent of each first."""
    columns = [ledger[column].astype("str") for column in ("stage", "reason", "kind", "bucket")]
    stages = {str(stage): number for number, stage in enumerate(ledger["stage"].unique())}
    reasons = [
        RejectionReason(stage, kind, bucket, reason, len(rows), _sample_items(ledger.iloc[rows], examples))
        for (stage, reason, kind, bucket), rows in ledger.groupby(columns).indices.items()
    ]
    return sorted(reasons, key=lambda one: (stages[one.stage], -one.count, one.reason, one.kind, one.bucket))


def _sample_items(rows: pd.DataFrame, number: int) -> tuple[RejectionExample, ...]:
    spread = np.linspace(0, len(rows) - 1, min(len(rows), _CANDIDATES)).astype(np.int64)
    candidates = [
        RejectionExample(row["item"], text_or_empty(row["text"]), describe_rejection(row))
        for row in rows.iloc[spread].to_dict("records")
    ]
    return tuple(heapq.nsmallest(number, candidates, key=lambda one: (stable_hash("page", one.item), one)))
