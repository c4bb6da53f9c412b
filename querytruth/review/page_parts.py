"""Parts of all pages: escaped templates, embedded images, formatted sizes and stages."""

import base64
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from querytruth.errors import make_visible
from querytruth.sets.manifest import pluralize_kind
from querytruth.sets.manifest_notes import describe_certificate

PAGES_FOLDER = Path(__file__).parent
_JPEG = Markup("data:image/jpeg;base64,")


def render_page(
    template: str,
    manifest: dict[str, Any],
    image_table: pd.DataFrame,
    jpegs: Iterable[tuple[str, bytes]],
    **context: Any,
) -> str:
    """Render a template that extends page.html as one HTML document. `jpegs`: images by their class in the style sheet;
    `context`: further values of the template."""
    return render_report(
        template,
        manifest["funnel"],
        m=manifest,
        licences=[
            (name or "not stated", number)
            for name, number in count_values(image_table["licence"].fillna("").astype(str))
        ],
        image_data=[(name, _JPEG + base64.b64encode(jpeg).decode("ascii")) for name, jpeg in jpegs],
        **context,
    )


def render_report(template: str, funnel: Iterable[dict[str, Any]], **context: Any) -> str:
    """Render a template as one HTML document with the stages of a funnel."""
    return render_template(template, funnel=[_stage_bar(stage) for stage in funnel], **context)


def render_template(template: str, **context: Any) -> str:
    """Render a template as one HTML document."""
    return _environment().get_template(template).render(**context)


def count_values(column: pd.Series) -> list[tuple[str, int]]:
    """Return the values of a column with their counts, the most frequent first."""
    counts = [(str(value), int(number)) for value, number in column.value_counts().items()]
    return sorted(counts, key=lambda pair: (-pair[1], pair[0]))


def text_or_empty(value: Any) -> str:
    """Return a text of a table, "" where it is missing."""
    return value if isinstance(value, str) else ""


def labels_or_empty(value: Any) -> tuple[str, ...]:
    """Return the labels of a query, () where they are missing."""
    return tuple(map(str, value)) if isinstance(value, Sequence | np.ndarray) else ()


@cache
def _environment() -> Environment:
    """Return the Jinja environment of all pages: every value is escaped, and a missing one is an error."""
    # By the folder of this file: a folder "review" where the command runs would hide the package's name.
    loader = FileSystemLoader([PAGES_FOLDER / "templates", PAGES_FOLDER / "static"])  # static: the palette
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            value if isinstance(value, Markup) or not isinstance(value, str) else make_visible(value)
        ),
    )
    environment.filters["number"] = lambda value: f"{value:,}" if isinstance(value, int) else f"{value:,g}"
    environment.filters["spaced"] = lambda value: str(value).replace("_", " ")
    environment.filters["bytes"] = _bytes
    environment.filters["certificate"] = describe_certificate
    environment.filters["breakable"] = lambda text: Markup("&amp;<wbr>").join(text.split("&"))
    return environment


def _bytes(size: int) -> str:
    """Return a size in decimal units, as file managers show it."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size:,} bytes"


def _stage_bar(stage: dict[str, Any]) -> dict[str, Any]:
    """Return the stage with the segments of its bar, `parts`."""
    parts = [{"what": "kept", "bucket": "accepted", "count": int(stage["accepted"])}]
    for bucket in ("rejected", "quarantined", "pending"):
        reasons = sorted(stage[bucket].items(), key=lambda pair: (-pair[1], pair[0]))
        parts += [{"what": why.replace("_", " "), "bucket": bucket, "count": int(number)} for why, number in reasons]
    what = stage["kind"] if stage["entered"] == 1 else pluralize_kind(stage["kind"])
    return {**stage, "what": what, "parts": [part for part in parts if part["count"]]}
