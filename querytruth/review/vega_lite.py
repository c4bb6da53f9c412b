"""Vega-Lite specifications rendered by vl-convert as SVG inside a page: theme, simple layers, and labels.

Colours are the variables of the page, so that one SVG serves light and dark.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import vl_convert
from markupsafe import Markup

VegaSpec = dict[str, Any]
ACCENT, PALE, WARM, INK, SOFT, LINE = (
    f"var(--{name})" for name in ("accent", "accent-2", "warm", "ink", "soft", "line")
)
_UNPRINTABLE = re.compile("[^\t\n\r\\x20-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONFIG: VegaSpec = {
    "font": "inherit",
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT,
        "titleColor": SOFT,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 12,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
        "labelLimit": 0,
    },
    "legend": {
        "labelColor": INK,
        "title": None,
        "orient": "bottom",
        "labelFontSize": 12,
        "symbolStrokeWidth": 3,
        "labelLimit": 0,
    },
}


def draw_svg(spec: VegaSpec, description: str) -> Markup:
    """Return the SVG of a Vega-Lite specification; `description` is its text for screen readers."""
    whole = {"background": None, "padding": 2, "config": _CONFIG, **spec}
    svg = str(vl_convert.vegalite_to_svg(replace_unprintable(whole)))
    label = Markup('<svg role="img" aria-label="{}" ').format(description)
    # Screen readers need one label; inside a page an SVG needs no name space, and pages name no address.
    bare = re.sub(r' (aria-label|aria-roledescription|role|xmlns(:xlink)?)="[^"]*"', "", svg)
    return Markup(bare.replace("<svg ", label, 1))


def draw_intervals(
    rows: Sequence[Mapping[str, Any]],
    description: str,
    systems: Sequence[str] = (),
    means: Sequence[float] = (),
    width: int = 195,
) -> Markup:
    """Draw a row per `name` on one axis from 0: `value` as a dot and `low` to `high` as a line; where they are known,
    `before` as a ring, `chance` as a stroke and `note` at the right. With two `systems` a name has a row of each
    `system`, in its colour; `means` are dotted lines. `width`: of the axis, in pixels."""
    room = 17 if any("note" in row for row in rows) else 24
    label = shorten_labels(dict.fromkeys(str(row["name"]) for row in rows), room)
    names = list(shorten_labels(systems, 24).values())
    known = [
        {key: row[key] for key in ("value", "low", "high", "before", "chance", "note") if row.get(key) is not None}
        for row in rows
    ]
    values = [one | {"name": label[str(row["name"])]} for one, row in zip(known, rows, strict=True)]
    for one, row in zip(values, rows, strict=True):
        one["system"] = names[list(systems).index(row["system"])] if len(names) > 1 else ""
    scale = {"domain": names, "range": [ACCENT, WARM][: len(names)]}
    colour: VegaSpec = {"color": {"field": "system", "type": "nominal", "scale": scale}} if len(names) > 1 else {}
    marks: list[tuple[str, VegaSpec]] = [
        (
            "low",
            {"type": "rule", "strokeWidth": 6, "color": PALE, "strokeCap": "round", "opacity": 0.6 if colour else 1},
        ),
        ("chance", {"type": "tick", "thickness": 2, "height": 14, "color": WARM}),
        ("before", {"type": "point", "size": 60, "color": SOFT, "strokeWidth": 1.5, "opacity": 1}),
        ("value", {"type": "point", "filled": True, "size": 60, "color": ACCENT, "opacity": 1}),
    ]
    layers: list[VegaSpec] = [
        {
            "transform": [{"filter": f"isValid(datum.{field})"}],
            "mark": mark,
            "encoding": {"x": {"field": field, "type": "quantitative"}, **colour}
            | ({"x2": {"field": "high"}} if field == "low" else {}),
        }
        for field, mark in marks
    ]
    text = {"type": "text", "align": "left", "color": SOFT, "fontSize": 11}
    if any("note" in one for one in values):
        layers.append({"mark": text, "encoding": {"x": {"value": width + 10}, "text": {"field": "note"}}})
    x = {"type": "quantitative", "title": None, "scale": {"zero": True}, "axis": {"tickCount": 5}}
    y = {
        "field": "name",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"ticks": False, "domain": False, "labelPadding": 8},
    }
    offset = {"yOffset": {"field": "system", "type": "nominal", "sort": names}} if colour else {}
    dotted = {"type": "rule", "color": SOFT, "strokeDash": [2, 3]}
    layers = [
        {"data": {"values": values}, "encoding": {"y": y, **offset}, "layer": layers},
        make_layer(
            [{"a": mean} for mean in means if np.isfinite(mean)], dotted, x={"field": "a", "type": "quantitative"}
        ),
    ]
    step = {"step": 13 if colour else 24}
    return draw_svg({"width": width, "height": step, "encoding": {"x": x}, "layer": layers}, description)


def make_rule(start: float, end: float, colour: str, width: float) -> VegaSpec:
    """Return a layer with a horizontal line."""
    mark = {"type": "rule", "strokeWidth": width, "color": colour, "strokeCap": "round"}
    return make_layer([{"a": start, "b": end}], mark, x={"field": "a"}, x2={"field": "b"})


def make_tick(at: float, colour: str) -> VegaSpec:
    """Return a layer with a vertical stroke."""
    return make_layer([{"a": at}], {"type": "tick", "thickness": 2, "height": 18, "color": colour}, x={"field": "a"})


def make_dot(at: float) -> VegaSpec:
    """Return a layer with a dot."""
    mark = {"type": "point", "filled": True, "size": 70, "color": INK, "stroke": "var(--paper)", "strokeWidth": 1.5}
    return make_layer([{"a": at}], {**mark, "opacity": 1}, x={"field": "a"})


def make_layer(rows: list[VegaSpec], mark: VegaSpec, **encoding: VegaSpec) -> VegaSpec:
    """Return a layer with its own data."""
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def replace_unprintable(value: Any) -> Any:
    """Replace characters that XML forbids, and U+2028 and U+2029, by U+FFFD, recursively: vl-convert measures labels as
    XML, where such a character ends the process, and Vega's expressions end at these two."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {key: replace_unprintable(inner) for key, inner in value.items()}
    return [replace_unprintable(inner) for inner in value] if isinstance(value, list) else value


def shorten_labels(names: Iterable[str], max_width: int) -> dict[str, str]:
    """Return a unique label of at most `max_width` columns by name; a Chinese character takes two. Vega's own limit
    splits emoji, and then fails to measure them."""
    label_by_name: dict[str, str] = {}
    for name in names:
        label, number = _cut(replace_unprintable(name), max_width), 2
        while label in label_by_name.values():
            label, number = f"{_cut(replace_unprintable(name), max_width - 4)} ({number})", number + 1
        label_by_name[name] = label
    return label_by_name


def _cut(text: str, room: int) -> str:
    places = np.cumsum([2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text])
    if not text or places[-1] <= room:
        return text
    return text[: int(np.searchsorted(places, room - 1, side="right"))] + "…"
