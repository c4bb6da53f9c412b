"""Systems evaluated one after the other, each result put into its folder with its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.run_files.result_files import PAGE
from evaluation.evaluated import DIRECTIONS, Evaluated
from evaluation.result_json import as_plain
from evaluation.scoring import DEFAULT, mean_of_directions
from flows.scoring.judged_sets import Judged, View, view_of
from flows.scoring.systems import System
from flows.scoring_run import Scored, folder_name, keep_result, result_folder, scored
from querytruth.result_pages import write_evaluation_page


@dataclass(frozen=True, slots=True)
class How:
    """What is measured, and where it is kept. `report`: a folder in place of the one beside the set."""

    metrics: Sequence[str] = DEFAULT
    k: int | None = None
    precisions: Sequence[float] = (0.9,)
    report: Path | None = None
    page: bool = True


@dataclass(frozen=True, slots=True)
class Kept:
    """A result, and where it lies: None for bare judgments without --report."""

    scored: Scored
    folder: Path | None
    page: Path | None


def evaluated_systems(judged: Judged, systems: Sequence[System], ways: Sequence[str], how: How) -> list[Kept]:
    """Every system, every way round. With one result alone `report` is its folder, else it holds a folder each."""
    is_one = len(systems) * len(ways) == 1
    found = []
    for way in ways:
        view = view_of(judged, way, how.metrics, how.precisions)
        for system in systems:
            result = scored(view, system, how.k)
            folder = result_folder(judged, system, way)
            if how.report is not None:
                folder = how.report if is_one else how.report / folder_name(system, way)
            found.append(_kept(result, view, folder, how.page))
    return found


def _kept(result: Scored, view: View, folder: Path | None, page: bool) -> Kept:
    if folder is None:
        return Kept(result, None, None)
    keep_result(result, view.judged.queries, folder)
    written = folder / PAGE if page else None
    if written is not None:
        write_evaluation_page(result.evaluated, view, written)
    return Kept(result, folder, written)


def told(results: Sequence[Kept]) -> dict[str, Any]:
    """For machines: every result, and where a system was evaluated both ways, the mean of the two."""
    plain = [
        {"folder": result.folder and str(result.folder), **as_plain(result.scored.evaluated)} for result in results
    ]
    return {"results": plain, "mean_of_directions": means([result.scored.evaluated for result in results])}


def means(results: Sequence[Evaluated]) -> dict[str, dict[str, float]]:
    """By system the mean of both directions, per metric; empty where only one was evaluated."""
    by_way = {way: [found for found in results if found.direction == way] for way in DIRECTIONS}
    return {
        str(one.system["name"]): mean_of_directions(_means(one), _means(other))
        for one, other in zip(*by_way.values(), strict=False)
    }


def _means(found: Evaluated) -> dict[str, float]:
    return dict(zip(found.metrics, found.figures["value"].tolist(), strict=True))
