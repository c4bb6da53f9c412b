"""What the manifest states of the calibrations of a recall set, and of the pairs that they found."""

from typing import Any

import pandas as pd

from builders.recall.calibration import CalibrationChoice
from builders.recall.confusable_images import ConfusableImages


def describe_calibrations(queries: pd.DataFrame, confusables: ConfusableImages) -> list[dict[str, Any]]:
    """Returns per language: whether it is calibrated or why not; what was fitted to; the measures on held-out pairs;
    the number of pairs found, and how many of them are expected to be wrong."""
    found_ids = confusables.above_threshold()["query_id"]
    language = dict(zip(queries["query_id"], queries["language"], strict=True))
    counts = found_ids.map(language).value_counts()
    at_least = confusables.min_score
    return [_describe(one, int(counts.get(one.language, 0)), at_least) for one in confusables.calibrations]


def _describe(choice: CalibrationChoice, found: int, at_least: float) -> dict[str, Any]:
    calibration = choice.calibration
    if calibration is None:
        return {"language": choice.language, "is_calibrated": False, "reason": choice.reason, "found": found}
    # The measures of the next lower cut are no better than those of this one.
    cuts = [cut for cut in calibration.held_out.get("cuts", ()) if cut["at_least"] <= at_least]
    cut = max(cuts, key=lambda one: one["at_least"], default=None)
    tenths = [one for one in calibration.held_out.get("reliability", ()) if one["pairs"] >= 20]
    return {
        "language": choice.language,
        "is_calibrated": True,
        "embedder": calibration.embedders[0] if calibration.embedders else None,
        "image_embedder": calibration.image_embedder[0] if calibration.image_embedder else None,
        "several_captions": calibration.several_captions,
        "fitted_on": calibration.fitted_on,
        "reliability": calibration.held_out.get("reliability", []),
        "greatest_error": max((round(abs(one["expected"] - one["observed"]), 4) for one in tenths), default=0.0),
        "cut": cut,
        "found": found,
        "expected_wrong": _expected_wrong(cut, found),
    }


def _expected_wrong(cut: dict[str, Any] | None, found: int) -> dict[str, float] | None:
    if cut is None or cut["precision"] is None:
        return None
    precision = cut["precision"]
    count, low, high = (found * (1 - precision[name]) for name in ("share", "high", "low"))
    return {"count": round(count, 1), "low": round(low, 1), "high": round(high, 1)}
