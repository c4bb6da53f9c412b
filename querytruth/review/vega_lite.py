"""Vega-Lite specifications rendered by vl-convert as SVG inside a page: theme, simple layers, and labels.

Colours are the variables of the page, so that one SVG serves light and dark.
"""

import re
import unicodedata
from collections.abc import Iterable
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
    bare = re.sub(r' (aria-label|aria-roledescription|role)="[^"]*"', "", svg)  # screen readers need one label
    return Markup(bare.replace("<svg ", label, 1))


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
