"""An evaluation result as the plain data of result.json, the same for the same figures on every machine."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from builders.records import list_rows
from evaluation.evaluation_result import DIRECTIONS, EvaluationResult
from evaluation.metric_scores import average_directions

SCHEMA_VERSION = 1
_DECIMALS = 12  # further ones depend on the processor


def result_to_json(result: EvaluationResult) -> dict[str, Any]:
    """Returns data for JSON: null for unknown values, numbers to 12 decimals, without results and figures per query,
    which tables hold."""
    figures = result.figures.assign(definition=result.figures["metric"].map(result.definitions))
    curves = {"precision_recall": result.precision_recall, "open_set": result.open_set}
    plain: dict[str, Any] = _rounded(
        {
            "schema_version": SCHEMA_VERSION,
            "system": result.system,
            "set": result.set,
            "direction": result.direction,
            "counts": result.counts,
            "conventions": result.conventions,
            "figures": list_rows(figures),
            "warnings": [asdict(warning) for warning in result.warnings],
            "thresholds": {name: found and asdict(found) for name, found in result.thresholds.items()},
            "slices": list_rows(result.slices),
            **({"phrasings": list_rows(result.phrasings)} if len(result.phrasings) else {}),
            "cmc": result.cmc.tolist(),
            **{name: {column: table[column].tolist() for column in table} for name, table in curves.items()},
        }
    )
    return plain


def average_results(results: Sequence[EvaluationResult]) -> dict[str, dict[str, float]]:
    """Returns by system the mean of both directions per metric; empty where only one was evaluated."""
    by_direction = [[result for result in results if result.direction == direction] for direction in DIRECTIONS]
    return {
        str(one.system["name"]): average_directions(_metric_values(one), _metric_values(other))
        for one, other in zip(*by_direction, strict=False)
    }


def _metric_values(result: EvaluationResult) -> dict[str, float]:
    return dict(zip(result.metrics, result.figures["value"].tolist(), strict=True))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return round(float(value), _DECIMALS) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
