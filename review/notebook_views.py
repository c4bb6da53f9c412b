"""Fragments of HTML that a notebook shows: a set, a query with its images, tables of figures."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from review.page_parts import render_template, text_or_empty


def render_facts(title: str, facts: Iterable[tuple[str, object]], samples: Sequence[str] = ()) -> str:
    """Render names and values, and the texts of some queries."""
    return render_template("notebook_facts.html", title=title, facts=list(facts), samples=list(samples))


def render_query(query: pd.Series, judgments: pd.DataFrame, thumbnails: Mapping[str, bytes]) -> str:
    """Render a query with the images of its judgments that have a thumbnail, in order. `thumbnails`: JPEGs by
    image_id."""
    tiles = [
        {
            "name": text_or_empty(row["file_name"]) or str(row["image_id"]),
            "grade": int(row["relevance"]),
            "why": " · ".join(filter(None, (str(row["judged_by"]), text_or_empty(row["evidence"])))),
            "data": Markup("data:image/jpeg;base64,") + base64.b64encode(jpeg).decode("ascii"),
        }
        for row in judgments.to_dict("records")
        if (jpeg := thumbnails.get(str(row["image_id"]))) is not None
    ]
    about = " · ".join(str(query[name]) for name in ("language", "style") if text_or_empty(query[name]))
    hidden_count = len(judgments) - len(tiles)
    return render_template(
        "notebook_query.html", text=query["text"], about=about, tiles=tiles, judged=len(judgments), hidden=hidden_count
    )


def render_table(title: str, table: pd.DataFrame, notes: Sequence[str] = ()) -> str:
    """Render a table of figures with lines below it; missing values are empty."""
    return render_template(
        "notebook_table.html", title=title, columns=list(table), rows=list(map(_cells, table.to_numpy())), notes=notes
    )


def _cells(row: Iterable[Any]) -> list[dict[str, Any]]:
    cells = []
    for value in row:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        text = f"{value:.4f}" if isinstance(value, float) else str(value)
        cells.append({"text": "" if pd.isna(value) else text, "is_number": is_number})
    return cells
