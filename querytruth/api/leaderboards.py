"""The leaderboard of a set: the systems that were evaluated on it, beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from flows.evaluation_run import RESULTS_FOLDER
from flows.leaderboards import build_leaderboard, write_leaderboard
from flows.scoring.evaluation_history import read_history
from flows.scoring.set_stability import compare_set_stability
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet, find_version
from review.notebook_views import render_table

_COLUMNS = ["best_rank", "worst_rank", "name", "kind", "mean", "low", "high", "queries_missing"]
_PERCENTILES = ["p50", "p95", "p99"]


@dataclass(frozen=True, slots=True, repr=False)
class SystemBoard:
    """Systems by `metric`, the best first. `board`: all of it, as the JSON file has it."""

    board: dict[str, Any]

    @property
    def systems(self) -> pd.DataFrame:
        """A row per system: the ends of its rank interval, its figure with interval, and its latency in
        milliseconds (p50, p95, p99; NaN where it is no live system)."""
        rows = [{**one, **(one["latency_ms"] or {})} for one in self.board["systems"]]
        return pd.DataFrame(rows).reindex(columns=[*_COLUMNS, *_PERCENTILES])

    @property
    def slices(self) -> pd.DataFrame:
        """A row per system, slice and value: queries, mean, low, high."""
        rows = [{"name": one["name"], **row} for one in self.board["systems"] for row in one["slices"]]
        return pd.DataFrame(rows, columns=["name", "slice", "value", "queries", "mean", "low", "high"])

    @property
    def groups(self) -> list[list[str]]:
        """The systems that the set cannot tell apart, group by group."""
        return [list(names) for names in self.board["groups"]]

    @property
    def metric(self) -> str:
        """What the systems are ordered by."""
        return str(self.board["metric"])

    def save(self, page: str | Path, language: str = "en") -> list[Path]:
        """Write the HTML page (en, zh), and JSON and CSV beside it; return the paths. Raises UserError."""
        return write_leaderboard(self.board, Path(page), language)

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _repr_html_(self) -> str:
        return render_table(self._title(), self.systems, [])

    def _title(self) -> str:
        about = self.board["set"]
        return f"{len(self.board['systems'])} systems on {about['name']}/v{about['version']} by {self.metric}"


def leaderboard(set_: AnySet, *, metric: str | None = None, out: str | Path = DATASETS_FOLDER) -> SystemBoard:
    """Order the systems whose results are stored beside a version of a set, by a metric (ndcg@10, else hit@1), on the
    queries that all of them have. Raises UserError without results."""
    return SystemBoard(build_leaderboard(find_version(set_, out), metric))


def history(set_: AnySet, system: str | None = None, *, out: str | Path = DATASETS_FOLDER) -> pd.DataFrame:
    """Return the evaluations on all versions of a set in the order of time: a row per evaluation and metric with at,
    system, version, content_digest, queries, metric, value, low, high. Raises UserError for a system without one."""
    entries = read_history(find_version(set_, out).parent / RESULTS_FOLDER, system)
    about = ["at", "system", "version", "content_digest", "queries"]
    rows = [
        [*(entry[key] for key in about), metric, *figure]
        for entry in entries
        for metric, figure in entry["figures"].items()
    ]
    return pd.DataFrame(rows, columns=[*about, "metric", "value", "low", "high"])


def stability(
    one: AnySet, other: AnySet, *, metrics: Sequence[str] | None = None, out: str | Path = DATASETS_FOLDER
) -> pd.DataFrame:
    """Return by metric whether two versions, or two sizes, of a set rank the systems alike that were evaluated on both.
    Raises UserError for fewer than two of them."""
    return compare_set_stability(find_version(one, out), find_version(other, out), metrics)[0]
