"""What all pages are made with: escaped templates, pictures inside the page, words for sizes and stages."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import pandas as pd
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from builders.ledger import plural


def render_page(
    template: str, manifest: dict[str, Any], images: pd.DataFrame, jpegs: Iterable[tuple[str, bytes]], **own: Any
) -> str:
    """One HTML document from a template that extends page.html. `jpegs` are pictures by their classes in the style
    sheet, `own` what the template asks for besides."""
    return render_report(
        template,
        manifest["funnel"],
        m=manifest,
        licences=[(name or "not stated", number) for name, number in tally(images["licence"].fillna("").astype(str))],
        image_data=[(name, _data_uri(jpeg)) for name, jpeg in jpegs],
        **own,
    )


def render_report(template: str, funnel: Iterable[dict[str, Any]], **own: Any) -> str:
    """One HTML document from a template that stands alone, with a funnel's stages."""
    return _environment().get_template(template).render(funnel=[_stage_bar(stage) for stage in funnel], **own)


def tally(column: pd.Series) -> list[tuple[str, int]]:
    """The values of a column with their counts, the most frequent first."""
    counts = [(str(value), int(number)) for value, number in column.value_counts().items()]
    return sorted(counts, key=lambda pair: (-pair[1], pair[0]))


def _environment() -> Environment:
    """Every value is escaped, and a missing one is an error."""
    found = ChoiceLoader([PackageLoader("review"), PackageLoader("review", "static")])  # the review page's palette, too
    made = Environment(loader=found, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["number"] = lambda value: f"{value:,}" if isinstance(value, int) else f"{value:,g}"
    made.filters["words"] = lambda value: str(value).replace("_", " ")
    made.filters["bytes"] = _bytes
    made.filters["breakable"] = lambda text: Markup("&amp;<wbr>").join(text.split("&"))
    return made


def _data_uri(jpeg: bytes) -> Markup:
    return Markup("data:image/jpeg;base64,") + base64.b64encode(jpeg).decode("ascii")


def _bytes(size: int) -> str:
    """A size in decimal units, as file managers and disks give it."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size:,} bytes"


def _stage_bar(stage: dict[str, Any]) -> dict[str, Any]:
    """The stage with the segments of its bar, `parts`."""
    parts = [{"what": "went on", "bucket": "accepted", "count": int(stage["accepted"])}]
    for bucket in ("rejected", "quarantined", "pending"):
        reasons = sorted(stage[bucket].items(), key=lambda pair: (-pair[1], pair[0]))
        parts += [{"what": why.replace("_", " "), "bucket": bucket, "count": int(number)} for why, number in reasons]
    what = stage["kind"] if stage["entered"] == 1 else plural(stage["kind"])
    return {**stage, "what": what, "parts": [part for part in parts if part["count"]]}
