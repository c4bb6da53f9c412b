"""Views of a set: one query and its images, the difference of two versions, its leaderboard. Printed, each is
a table of text; in a notebook, one of HTML.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from flows.leaderboard import write_leaderboard
from querytruth.review.search_views import render_query, render_table
from querytruth.sets import version_difference

_CHANGE_COLUMNS = ["table", "change", "query_id", "image_id", "details"]
_BOARD_COLUMNS = ["best_rank", "worst_rank", "name", "kind", "mean", "low", "high", "queries_missing"]
_PERCENTILES = ["p50", "p95", "p99"]


@dataclass(frozen=True, slots=True, repr=False)
class QueryView:
    """A query and its judged images. `query`: its row; `judgments`: image_id, relevance, judged_by, evidence and
    file_name, the highest grade first; `thumbnails`: JPEGs of the shown images by image_id."""

    query: pd.Series
    judgments: pd.DataFrame
    thumbnails: dict[str, bytes]

    def __repr__(self) -> str:
        """Return the text of the query, and a line per image."""
        rows = [f"  {row.relevance}  {row.file_name or row.image_id}" for row in self.judgments.head(24).itertuples()]
        count = "1 judged image" if len(self.judgments) == 1 else f"{len(self.judgments):,} judged images"
        return "\n".join([f"{self.query['text']}  ({count})", *rows])

    def _repr_html_(self) -> str:
        return render_query(self.query, self.judgments, self.thumbnails)


@dataclass(frozen=True, slots=True, repr=False)
class SetDifference:
    """The differences between two versions, given by name and number. `changes`: rows with table (queries, images,
    judgments), change (added, removed, changed), query_id, image_id and details. `warnings`: decisions that the logs
    lost since the versions."""

    before: str
    after: str
    difference: version_difference.VersionDifference
    warnings: Sequence[str] = ()

    @property
    def comparability(self) -> str:
        """Return a sentence on whether figures on both versions are comparable."""
        return self.difference.comparability

    @property
    def changes(self) -> pd.DataFrame:
        """Return a row per query, image or judgment that differs."""
        rows = []
        for table in ("queries", "images", "judgments"):
            for change in ("added", "removed", "changed"):
                for entry in getattr(self.difference, f"{table}_{change}"):
                    given = {"image_id": entry} if isinstance(entry, str) else dict(entry)
                    ids = {name: given.pop(name, None) for name in ("query_id", "image_id")}
                    rows.append({"table": table, "change": change, **ids, "details": given})
        return pd.DataFrame(rows, columns=_CHANGE_COLUMNS)

    def __repr__(self) -> str:
        """Return the number of changes, and the sentence on comparability."""
        counts = self.changes.groupby(["table", "change"], sort=False).size()
        parts = [f"{count:,} {table} {change}" for (table, change), count in counts.items()]
        return f"{self.before} to {self.after}: {', '.join([*parts, self.comparability])}"

    def _repr_html_(self) -> str:
        counts = self.changes.groupby(["table", "change"], sort=False).size().reset_index(name="rows")
        return render_table(f"{self.before} to {self.after}", counts, [self.comparability])


@dataclass(frozen=True, slots=True, repr=False)
class SystemBoard:
    """Systems by `metric`, the best first. `board`: all of it, as the JSON file has it."""

    board: dict[str, Any]

    @property
    def systems(self) -> pd.DataFrame:
        """Return a row per system: the ends of its rank interval, its figure with interval, and its latency in
        milliseconds (p50, p95, p99; NaN for systems that are not live)."""
        rows = [{**one, **(one["latency_ms"] or {})} for one in self.board["systems"]]
        return pd.DataFrame(rows).reindex(columns=[*_BOARD_COLUMNS, *_PERCENTILES])

    @property
    def slices(self) -> pd.DataFrame:
        """Return a row per system, slice and value: queries, mean, low, high."""
        rows = [{"name": one["name"], **row} for one in self.board["systems"] for row in one["slices"]]
        return pd.DataFrame(rows, columns=["name", "slice", "value", "queries", "mean", "low", "high"])

    @property
    def groups(self) -> list[list[str]]:
        """Return the systems that the set cannot tell apart, group by group."""
        return [list(names) for names in self.board["groups"]]

    @property
    def metric(self) -> str:
        """Return the metric that orders the systems."""
        return str(self.board["metric"])

    def save(self, page: str | Path, language: str = "en") -> list[Path]:
        """Write the HTML page (en, zh), and JSON and CSV beside it; return the paths. Raises UserError."""
        return write_leaderboard(self.board, Path(page), language)

    def __repr__(self) -> str:
        """Return the title, and a line per system."""
        return f"{self._title()}\n{self.systems.to_string(index=False)}"

    def _repr_html_(self) -> str:
        return render_table(self._title(), self.systems, [])

    def _title(self) -> str:
        about = self.board["set"]
        return f"{len(self.board['systems'])} systems on {about['name']}/v{about['version']} by {self.metric}"
