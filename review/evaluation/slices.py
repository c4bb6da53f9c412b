"""Parts of the queries: a plot per aspect, and the same as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from review.evaluation import plots
from review.evaluation.cards import TemplateData
from review.evaluation.display_text import format_interval
from review.evaluation.result_protocols import EvaluationResultLike

_BARS = 12  # values of an aspect that have a bar: those with the most queries
_ROWS = 40  # in the table beside them


def draw_slice_plots(systems: Mapping[str, EvaluationResultLike], metric: str) -> list[TemplateData]:
    """A plot per aspect that has several values."""
    parts = [one.slices[one.slices["metric"] == metric].assign(system=name) for name, one in systems.items()]
    rows = pd.concat(parts, ignore_index=True)
    overall = [float(one.per_query[metric].mean()) for one in systems.values()]
    plot_data = []
    for aspect in dict.fromkeys(str(name) for name in rows["slice"]):
        mine = rows[rows["slice"] == aspect]
        sizes = mine.drop_duplicates("value").set_index("value")["queries"]
        if len(sizes) < 2:
            continue
        largest = set(sizes.sort_values(ascending=False, kind="stable").index[:_BARS])
        drawn = plots.draw_slice_bars(mine[mine["value"].isin(largest)], list(systems), overall)
        plot_data.append({"aspect": aspect, "plot": drawn, "there": len(sizes), "shown": len(largest)})
    return plot_data


def build_slice_table(slices: pd.DataFrame, metrics: list[str]) -> list[TemplateData]:
    """Per aspect a row per value, the largest first where there are too many: queries, and mean and interval of each
    of these metrics."""
    aspects = []
    mine = slices[slices["metric"].isin(metrics)]
    for aspect in dict.fromkeys(str(name) for name in mine["slice"]):
        rows = mine[mine["slice"] == aspect]
        sizes = rows.drop_duplicates("value").set_index("value")["queries"]
        kept = set(sizes.sort_values(ascending=False, kind="stable").index[:_ROWS])
        cells = {(row.value, row.metric): row for row in rows.itertuples(index=False)}
        aspects.append(
            {
                "aspect": aspect,
                "further": len(sizes) - len(kept),
                "rows": [
                    (str(value), int(sizes[value]), [_cell(cells.get((value, metric))) for metric in metrics])
                    for value in sizes.index
                    if value in kept
                ],
            }
        )
    return aspects


def _cell(row: Any) -> tuple[str, str]:
    return ("", "") if row is None else (f"{row.mean:.3f}", format_interval(row.low, row.high))
