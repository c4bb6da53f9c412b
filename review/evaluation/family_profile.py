"""The profile of systems: at which families and kinds of questions they fail, as one drawing."""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from evaluation.evaluation_result import EvaluationResult
from evaluation.shortcuts import SHORTCUT_COLUMNS
from review.vega_lite import ACCENT, SOFT, WARM, VegaSpec, draw_svg, shorten_labels

_WIDTH, _STEP = 170, 22
_MOST_KINDS = 6  # of a family, that have a line each
_NAME = 24  # columns of the longest name of a system
_NEGATIVES = re.compile(r"neg@(\d+)")
_DEPTH = 10  # or the cut next to it
_EXPLAINED = {
    "right": "right ones, the more the better",
    "negatives": "explicit negatives among the first results, the fewer the better",
    "kept": "wrong pictures that stay when number, size, place, “without” or attribute is added, the fewer the better",
}
_AXIS = {"ticks": False, "domain": False, "labelPadding": 8}  # beside a dot at 0
_Q: VegaSpec = {"type": "quantitative"}


def draw_family_profile(systems: Mapping[str, EvaluationResult], metric: str) -> dict[str, Any] | None:
    """Return the panels (metric, explanation) and their plot: for each kind of question (of a family with many, for
    all together) the mean and the interval of p@10 (else of the metric), of the explicit negatives among the first
    results, and of those that a shortcut keeps. None where the set has no families."""
    parts = [one.slices.assign(system=name) for name, one in systems.items()]
    rows = pd.concat(parts, ignore_index=True)
    rows = _choose_rows(rows)
    if not len(rows):
        return None
    best = f"p@{_DEPTH}" if (rows["metric"] == f"p@{_DEPTH}").any() else metric
    chosen = {"right": best, "negatives": _choose_cut(rows["metric"]), "kept": SHORTCUT_COLUMNS[1]}
    label = shorten_labels(systems, _NAME)
    kinds = sorted(rows["value"].unique().tolist())
    panels, plots, descriptions = [], [], []
    for name, shown in chosen.items():
        mine = rows[rows["metric"] == shown]
        if len(mine):
            panels.append((shown, _EXPLAINED[name]))
            plots.append(_panel(mine, shown, label, kinds))
            descriptions.append(f"{shown}: {_describe(mine, len(systems) > 1)}")
    return {"panels": panels, "plot": draw_svg({"vconcat": plots, "spacing": 14}, "; ".join(descriptions))}


def _choose_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of the kinds; of a family with many (attribute/red, attribute/wooden …) those of the family."""
    is_kind, is_family = rows["slice"] == "kind", rows["slice"] == "family"
    family = rows["value"].astype("str").str.split("/").str[0]
    kinds = rows["value"][is_kind].groupby(family[is_kind]).nunique()
    has_many = family.isin(kinds.index[kinds > _MOST_KINDS])
    return rows[(is_kind & ~has_many) | (is_family & has_many)]


def _choose_cut(metrics: pd.Series) -> str:
    cuts = [int(match[1]) for name in metrics.unique() if (match := _NEGATIVES.fullmatch(name))]
    return f"neg@{min(cuts, key=lambda cut: (abs(cut - _DEPTH), cut))}" if cuts else ""


def _panel(rows: pd.DataFrame, title: str, label: Mapping[str, str], kinds: list[str]) -> VegaSpec:
    """Return a dot per kind and system on the line of its interval."""
    values = [
        {"kind": row.value, "system": label[row.system], "queries": f"{row.queries:,}"}
        | {name: float(getattr(row, name)) for name in ("mean", "low", "high")}
        for row in rows.itertuples(index=False)
    ]
    names = list(label.values())
    scale = {"domain": names, "range": [ACCENT, WARM][: len(names)]}
    legend = {} if len(names) > 1 else {"legend": None}
    colour = {"color": {"field": "system", "type": "nominal", "scale": scale, "title": None, **legend}}
    shape = {"shape": {"field": "system", "type": "nominal", "scale": {"domain": names}, "title": None, **legend}}
    y = {"field": "kind", "type": "nominal", "sort": kinds, "title": None, "axis": _AXIS}
    offset = {"yOffset": {"field": "system", "type": "nominal", "sort": names}} if len(names) > 1 else {}
    middle = {"yOffset": {"value": _STEP / 2}} if len(names) > 1 else {}
    share = {"domain": [0, 1]}
    x = {"field": "mean", **_Q, "scale": share, "title": None, "axis": {"tickCount": 5, "grid": True}}
    layers: list[VegaSpec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.45},
            "encoding": {"x": {"field": "low", **_Q, "scale": share, "title": None}, "x2": {"field": "high"}, **colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"x": x, **colour, **shape},
        },
        {
            "transform": [{"filter": {"field": "system", "equal": names[0]}}],
            "mark": {"type": "text", "align": "right", "color": SOFT, "fontSize": 11},
            "encoding": {"x": {"value": _WIDTH + 34}, "text": {"field": "queries"}, **middle},
        },
    ]
    return {
        "title": {"text": title, "fontSize": 12, "fontWeight": "normal", "color": SOFT, "anchor": "start"},
        "data": {"values": values},
        "width": _WIDTH,
        "height": _STEP * len(kinds),
        "encoding": {"y": {**y, "scale": {"domain": kinds}}, **offset},
        "layer": layers,
    }


def _describe(rows: pd.DataFrame, is_pair: bool) -> str:
    return ", ".join(
        f"{row.value} {row.mean:.2f}" + (f" {row.system}" if is_pair else "") for row in rows.itertuples(index=False)
    )
