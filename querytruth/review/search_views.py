"""HTML outside the review page: the answers of a system to one query, and the fragments that a notebook shows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from querytruth.review.page_parts import PAGE_TEXTS, embed_jpeg, render_template, text_or_empty

_LOWEST_GRADE = 1  # of what is relevant


def render_search(
    text: str,
    system: str,
    hits: Sequence[Mapping[str, Any]],
    missed: Sequence[Mapping[str, Any]],
    thumbnails: Mapping[str, bytes],
    language: str,
    *,
    relevant_count: int,
    is_query: bool,
) -> str:
    """Return the page of one query: each result with its judgment in the set, and the relevant images that it lacks.
    `language`: en or zh, of the page's own texts."""
    texts, data = PAGE_TEXTS["search"][language], {name: embed_jpeg(jpeg) for name, jpeg in thumbnails.items()}

    def tile(row: Mapping[str, Any]) -> dict[str, Any]:
        grade, kind = row["grade"], "unjudged"
        if grade is not None:
            kind = "relevant" if grade >= _LOWEST_GRADE else "wrong"
        mark = texts[kind].format(grade) if row["image_id"] else texts["foreign"]
        return {**row, "data": data.get(row["image_id"]), "kind": kind, "mark": mark}

    tiles = [tile(row) for row in hits]
    counts = {"count": len(tiles), "unjudged": sum(row["kind"] == "unjudged" for row in tiles)}
    found = relevant_count and len({row["image_id"] for row in tiles if row["kind"] == "relevant"})
    summary = texts["found"].format(found=found, relevant=relevant_count, **counts) if is_query else texts["new"]
    parts = {"tiles": tiles, "missed": [tile(row) for row in missed], "summary": summary, "texts": texts}
    return render_template("search_page.html", title=text, system=system, language=language, **parts)


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
            "data": embed_jpeg(jpeg),
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


def _cells(row: Iterable[object]) -> list[dict[str, Any]]:
    cells = []
    for value in row:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        text = f"{value:.4f}" if isinstance(value, float) else str(value)
        cells.append({"text": "" if pd.isna(value) else text, "is_number": is_number})
    return cells
