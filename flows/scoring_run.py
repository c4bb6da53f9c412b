"""One system on one set: answered, measured, and the result put beside the set.

judged set ─► view (truth, one way round) ─► system answers ─► ranked ─► figures ─► result folder
"""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import pandas as pd

from backends.run_files import result_files
from builders.ledger import Ledger
from evaluation.evaluated import TEXT_TO_IMAGE, Evaluated
from evaluation.evaluating import depth, evaluated, ranked_rows
from evaluation.ranking import rank
from evaluation.result_json import as_plain
from flows.scoring.judged_sets import Judged, View
from flows.scoring.systems import System
from flows.steps import current, step

_UNSAFE = re.compile(r"[^\w.@-]+")
RESULTS = "evaluations"  # the folder beside a set's versions


@dataclass(frozen=True, slots=True)
class Scored:
    """A result: the figures, the run by query and rank, and what the system could not take in."""

    evaluated: Evaluated
    run: pd.DataFrame
    ledger: Ledger


@step("evaluate")
def scored(view: View, system: System, k: int | None = None) -> Scored:
    """All figures of a system. `k`: how many results a search is asked for (None: what the metrics look at)."""
    answer = system.answer(view, depth(view.asked.metrics, view.asked.truth, k))
    ranked = rank(answer.run, view.asked.truth)
    found = evaluated(ranked, view.asked, system.described, warnings=answer.warnings, counts=answer.counts)
    return Scored(found, ranked_rows(ranked), system.ledger)


def result_folder(judged: Judged, system: System, direction: str = TEXT_TO_IMAGE) -> Path | None:
    """Where the result of a system lies beside its set, <name>/evaluations/v<N>/<system>; None for bare judgments."""
    if judged.stored is None:
        return None
    place = judged.stored.path
    return place.parent / RESULTS / place.name / folder_name(system, direction)


def folder_name(system: System, direction: str) -> str:
    """A system's name as a folder's, the direction with it where that is not the usual one."""
    name = _UNSAFE.sub("-", system.identity).strip("-.") or "system"
    return name if direction == TEXT_TO_IMAGE else f"{name}.{direction}"


@step("write result")
def keep_result(result: Scored, queries: pd.DataFrame | None, folder: Path) -> None:
    """Replace the result in the folder (backends/run_files/result_files.py says what it holds)."""
    tables = {result_files.RUN: result.run}
    per_query = result.evaluated.per_query.reset_index()
    if queries is not None and result.evaluated.direction == TEXT_TO_IMAGE:
        texts = dict(zip(queries["query_id"], queries["text"], strict=True))
        per_query.insert(1, "text", per_query["query_id"].map(texts))
    tables |= {result_files.PER_QUERY: per_query, result_files.PER_QUERY_CSV: per_query}
    if len(lost := result.ledger.rows()):
        tables[result_files.LEDGER] = lost
    told = as_plain(result.evaluated) | {"funnel": result.ledger.funnel()}
    result_files.write_result(folder, told, tables, _envelope())


def results_beside(path: Path, direction: str = TEXT_TO_IMAGE) -> dict[str, tuple[dict[str, Any], pd.DataFrame]]:
    """By the name of the system what result.json says and the figures of each query: all results that lie beside a
    version of a set."""
    found = {}
    for folder in sorted((path.parent / RESULTS / path.name).glob("*/")):
        if (folder / result_files.RESULT).is_file():
            told = result_files.read_result(folder)
            if told["direction"] == direction:
                found[folder.name.removesuffix(f".{direction}")] = told, result_files.read_per_query(folder)
    return found


def _envelope() -> dict[str, Any]:
    """When, where and with what it was computed."""
    packages = ("querytruth", "numpy", "pandas", "pyarrow", "faiss-cpu", "torch", "transformers")
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "durations": current().durations,
        "versions": {"python": sys.version.split()[0], **{name: version_of(name) for name in packages}},
    }
