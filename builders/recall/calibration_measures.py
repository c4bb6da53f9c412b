"""How good probabilities are on pairs that people judged: reliability, and precision and recall of what passes."""

from typing import Any

import numpy as np

from builders.array_types import BoolArray, FloatArray

PRECISIONS = (0.95, 0.9, 0.8, 0.7)


def measure_reliability(probabilities: FloatArray, fits: FloatArray) -> list[dict[str, float]]:
    """Returns for each tenth of the scale with pairs: pairs, the mean probability, and the share that fits."""
    tenths = np.minimum((probabilities * 10).astype(int), 9)
    return [
        {
            "from": tenth / 10,
            "pairs": int((tenths == tenth).sum()),
            "expected": round(float(probabilities[tenths == tenth].mean()), 4),
            "observed": round(float(fits[tenths == tenth].mean()), 4),
        }
        for tenth in range(10)
        if (tenths == tenth).any()
    ]


def recall_at_precisions(scores: FloatArray, fits: BoolArray) -> dict[str, float]:
    """Returns the highest share of the fitting pairs that the pairs above some score contain, at each precision."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(fits[order])
    precision = hits / np.arange(1, len(order) + 1)
    most = max(int(fits.sum()), 1)
    return {f"{one:.2f}": round(float(hits[precision >= one].max(initial=0) / most), 4) for one in PRECISIONS}


def measure_cut(probabilities: FloatArray, fits: FloatArray, at_least: float, *, repeats: int = 1) -> dict[str, Any]:
    """Returns of the pairs that pass a cut: their number, the share of them that fits (precision) and the share of the
    fitting pairs that they are (recall), each with Wilson's 95% interval. `repeats`: how often each pair is among the
    rows, with other captions; it counts once."""
    passes = probabilities >= at_least
    hits, count, total = (float(rows.sum()) / repeats for rows in (fits[passes], passes, fits))
    return {
        "at_least": at_least,
        "pairs": round(count),
        "precision": _share(hits, count),
        "recall": _share(hits, total),
    }


def _share(hits: float, count: float) -> dict[str, float] | None:
    """Returns a share with Wilson's interval at 95%; None of nothing."""
    if not count:
        return None
    z, share = 1.959964, min(hits / count, 1.0)
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    return {"share": round(share, 4), "low": round(max(centre - half, 0.0), 4), "high": round(min(centre + half, 1), 4)}
