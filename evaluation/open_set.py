"""What is shown when a score decides, not a rank: precision and recall over a threshold, all queries together.

People who search want nothing wrong shown, and an empty page where nothing fits. Shown are the pairs with a score of at
least the threshold; precision is the share of relevant ones among these, recall the share of all relevant pairs that
is shown. Unjudged pairs count as wrong, but for `precision_upper` as right. Only what the run returned can be shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.array_types import FloatArray
from builders.records import stable_hash
from evaluation.ranking import UNJUDGED, RankedRun


@dataclass(frozen=True, slots=True)
class OpenSetThreshold:
    """The lowest threshold with the wanted precision, and what it brings. `queries_empty`: nothing is shown for them;
    `queries_cut_off`: all that the run returned is shown, and there may be more. `elsewhere`: the precision on the
    queries of one half at the threshold that the other half asks for (both ways), which is what new queries can
    expect; NaN where a half cannot reach it, or then shows nothing."""

    threshold: float
    precision: float
    precision_upper: float
    recall: float
    shown: int
    queries_empty: int
    queries_cut_off: int
    elsewhere: float


def compute_threshold_curve(ranked: RankedRun, points: int = 200) -> pd.DataFrame:
    """threshold, precision, precision_upper, recall, shown: at most so many distinct scores, the highest first, evenly
    spread over what is shown, the last one included."""
    whole = _whole_curve(ranked.score, ranked.grade, int(ranked.truth.relevant_counts.sum()))
    if len(whole) <= points:
        return whole
    wanted = np.searchsorted(whole["shown"], np.linspace(whole["shown"].iloc[0], whole["shown"].iloc[-1], points))
    return whole.iloc[np.unique(wanted)].reset_index(drop=True)


def find_threshold(ranked: RankedRun, precision: float) -> OpenSetThreshold | None:
    """The threshold for a wanted precision (0 to 1), or None where no threshold reaches it."""
    whole = _whole_curve(ranked.score, ranked.grade, int(ranked.truth.relevant_counts.sum()))
    row = _find_lowest_threshold(whole, precision)
    if row is None:
        return None
    cut = float(row["threshold"])
    shown = np.bincount(ranked.query[ranked.score >= cut], minlength=len(ranked.truth.query_ids))
    all_there_is = len(ranked.truth.image_ids) if ranked.truth.is_gallery else np.inf
    full = (shown == ranked.returned_counts) & (shown > 0) & (shown < all_there_is)
    return OpenSetThreshold(
        threshold=cut,
        precision=float(row["precision"]),
        precision_upper=float(row["precision_upper"]),
        recall=float(row["recall"]),
        shown=int(row["shown"]),
        queries_empty=int((shown == 0).sum()),
        queries_cut_off=int(full.sum()),
        elsewhere=_held_out_precision(ranked, precision),
    )


def _whole_curve(score: FloatArray, grade: NDArray[np.int16], relevant: int) -> pd.DataFrame:
    order = np.argsort(-score, kind="stable")
    score, grade = score[order], grade[order]
    last = np.flatnonzero(np.append(score[1:] != score[:-1], True)[: len(score)])  # pairs of one score go together
    shown = last + 1
    right, unjudged = np.cumsum(grade > 0)[last], np.cumsum(grade == UNJUDGED)[last]
    return pd.DataFrame(
        {
            "threshold": score[last],
            "precision": right / shown,
            "precision_upper": (right + unjudged) / shown,
            "recall": right / max(relevant, 1),
            "shown": shown,
        }
    )


def _find_lowest_threshold(whole: pd.DataFrame, precision: float) -> pd.Series | None:
    enough = np.flatnonzero(whole["precision"] >= precision)
    return whole.iloc[enough[-1]] if enough.size else None


def _held_out_precision(ranked: RankedRun, precision: float) -> float:
    half = np.array([stable_hash("0", "half", name) % 2 for name in ranked.truth.query_ids.to_pylist()], dtype=bool)
    right = shown = 0
    for side in (half, ~half):
        mine = side[ranked.query]
        row = _find_lowest_threshold(_whole_curve(ranked.score[mine], ranked.grade[mine], 0), precision)
        if row is None:
            return float("nan")
        there = ~mine & (ranked.score >= row["threshold"])
        right, shown = right + int((ranked.grade[there] > 0).sum()), shown + int(there.sum())
    return right / shown if shown else float("nan")
