"""Shortcuts: a system answers a question of a family as if its number, size, place, absence or attribute were not
there."""

from typing import Any

import numpy as np
import pandas as pd

from evaluation.audit.intervals import bound_proportion
from evaluation.comparison import EvaluationWarning
from evaluation.identifiers import find_positions
from evaluation.ranking import RankedRun, find_grades

SHORTCUT_DEPTH = 10
SHORTCUT_COLUMNS = [f"shortcut@{SHORTCUT_DEPTH}", f"kept@{SHORTCUT_DEPTH}"]
_MOST = 0.5  # of the twin's explicit negatives; and of the questions of a family
_DROPPED = {
    "count": "the number",
    "size": "the size",
    "spatial": "the place",
    "negation": "the absence",
    "attribute": "the attribute",
}


def measure_shortcuts(ranked: RankedRun, queries: pd.DataFrame | None) -> pd.DataFrame:
    """Returns by query_id, for each query whose twin (the same question without number, size, place, absence or
    attribute) has an explicit negative of the query among its first ten: whether both have the same images among the
    first ten, and the share of these explicit negatives that the query keeps."""
    if queries is None or "twin" not in queries:
        return pd.DataFrame(columns=SHORTCUT_COLUMNS, dtype="float64")
    row_by_id = {name: row for row, name in enumerate(ranked.truth.query_ids.to_pylist())}
    starts = np.searchsorted(ranked.query, np.arange(len(row_by_id) + 1))
    place_of_image = find_positions(ranked.truth.image_ids, ranked.image_ids).astype(np.int64)
    known = queries.dropna(subset="twin")
    found: dict[str, tuple[float, float]] = {}
    for query_id, twin in zip(known["query_id"], known["twin"], strict=True):
        row, twin_row = row_by_id.get(query_id), row_by_id.get(twin)
        if row is None or twin_row is None:
            continue
        own, others = _first(ranked, starts, row), _first(ranked, starts, twin_row)
        grades = find_grades(np.full(len(others), row, dtype=np.int64), place_of_image[others], ranked.truth)
        if len(wrong := others[grades == 0]):
            is_same = set(own.tolist()) == set(others.tolist())
            found[query_id] = float(is_same), float(np.isin(wrong, own).mean())
    table = pd.DataFrame.from_dict(found, orient="index", columns=SHORTCUT_COLUMNS, dtype="float64")
    return table.rename_axis("query_id").sort_index()


def _first(ranked: RankedRun, starts: Any, row: int) -> Any:
    """Returns the codes of the first ten images of a query."""
    return ranked.image_code[starts[row] : min(starts[row + 1], starts[row] + SHORTCUT_DEPTH)]


def find_ignored_families(shortcuts: pd.DataFrame, queries: pd.DataFrame | None) -> list[EvaluationWarning]:
    """Returns a warning per family that the system ignores: it keeps most of the twin's explicit negatives for more
    than half of the questions, with a confidence of 95% (Clopper and Pearson). The phrasings of a question are one."""
    if queries is None or not len(shortcuts):
        return []
    known = queries.set_index("query_id").reindex(shortcuts.index)
    question = [known["family"], known["labels"].map("&".join)]
    kept = shortcuts.groupby(question).mean()
    warnings = []
    for family, rows in kept.groupby(kept.index.get_level_values(0).str.split("/").str[0]):
        ignored = int((rows[SHORTCUT_COLUMNS[1]] > _MOST).sum())
        if 1 - bound_proportion(len(rows) - ignored, len(rows)) > _MOST:
            detail = (
                f"{ignored:,} of {len(rows):,} questions keep most of the wrong pictures that they get without "
                f"{_DROPPED.get(str(family), 'it')}, {rows[SHORTCUT_COLUMNS[0]].mean():.0%} all of the first "
                f"{SHORTCUT_DEPTH} pictures"
            )
            warnings.append(EvaluationWarning("ignored_family", str(family), detail))
    return warnings
