"""Cards of queries with their results as template data: images, or texts where texts are searched."""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from builders.benchmark_set import Tables
from builders.records import empty_frame
from evaluation.evaluation_result import IMAGE_TO_TEXT
from review import page_parts
from review.evaluation.display_text import CAUSE_TITLES
from review.evaluation.failure_causes import find_failure_causes
from review.evaluation.failure_context import FailureContext
from review.evaluation.query_selection import RankedItem, SelectedQuery
from review.set_pages import set_parts

_BOX = 4 / 3  # aspect ratio of an image in a row of results
_UNKNOWN = {"language": "", "style": "", "labels": (), "topic": ""}
TemplateData = dict[str, Any]


def build_item_views(
    selected_queries: Sequence[SelectedQuery],
    ids: Sequence[str],
    direction: str,
    tables: Tables | None,
    manifest: Mapping[str, Any] | None,
    thumbnails: Mapping[str, bytes],
) -> dict[str, TemplateData]:
    """Return the text or the image of each id by id; without a set only the id itself."""
    query_ids = {one.query_id for one in selected_queries}
    texts = [name for name in ids if (name in query_ids) != (direction == IMAGE_TO_TEXT)]
    known = manifest or {}
    queries = tables.queries if tables is not None else empty_frame("queries")
    images = tables.images if tables is not None else empty_frame("images")
    rows = queries[queries["query_id"].isin(texts)]
    views: dict[str, TemplateData] = {name: dict(_UNKNOWN, text=name) for name in texts}
    views |= {str(row.query_id): _text(row) for row in rows.itertuples(index=False)}
    shown = set_parts.build_image_tiles(images, known, thumbnails, [name for name in ids if name not in views])
    for name, image in shown.items():
        image["card"] = set_parts.get_covering_size(image, _BOX, known)
        image["whole"] = set_parts.get_covering_size(image, image["true_ratio"], known)
        views[name] = {"image": image}
    return views


def _text(row: Any) -> TemplateData:
    labels, topic = page_parts.labels_or_empty(getattr(row, "labels", None)), page_parts.text_or_empty(row.topic)
    return {"text": row.text, "language": row.language, "style": row.style, "labels": labels, "topic": topic}


def build_query_card(
    query: SelectedQuery,
    items: Mapping[str, TemplateData],
    context: FailureContext,
    figures: Sequence[tuple[str, float]],
) -> TemplateData:
    """Return a query with its results, the relevant items it missed, likely causes of failure and its figures."""
    return {
        "id": query.query_id,
        "item": items[query.query_id],
        "first_relevant_rank": query.first_relevant_rank,
        "relevant_count": query.relevant_count,
        "figures": [(name, f"{value:.2f}") for name, value in figures],
        "results": [build_result_tile(one, items) for one in query.results],
        "missed": [build_result_tile(one, items) for one in query.missed_relevant],
        "hidden_missed_count": query.hidden_missed_count,
        "causes": [
            {"name": CAUSE_TITLES[c.code], "description": c.description, "ranks": c.ranks}
            for c in find_failure_causes(query, context)
        ],
    }


def build_result_tile(one: RankedItem, items: Mapping[str, TemplateData]) -> TemplateData:
    """Return a result with its judgment as a sign and in words, as colour alone is not accessible."""
    grade = one.judgment.relevance
    state, sign, state_text = "open", "?", "unjudged"
    if grade >= 0:
        is_right = ("right", "✓", f"right, grade {grade}")
        state, sign, state_text = is_right if grade > 0 else ("wrong", "✕", "judged not relevant")
    item = items[one.item_id]
    name = item["image"]["name"] if "image" in item else item["text"]
    rank = f"rank {one.rank}" if one.rank is not None else "not returned"
    score = "" if math.isnan(one.score) else f"{one.score:.3f}" if abs(one.score) < 100 else f"{one.score:.4g}"
    why = f" ({one.judgment.evidence})" if one.judgment.evidence else ""
    return {
        "item": item,
        "rank": one.rank,
        "score": score,
        "state": state,
        "sign": sign,
        "grade": grade if grade > 1 else None,
        "evidence": one.judgment.evidence,
        "description": f"{rank}, {state_text}{why}: {name}" + (f", score {score}" if score else ""),
    }


def get_query_figures(per_query: pd.DataFrame, query_id: str, metrics: Sequence[str]) -> list[tuple[str, float]]:
    """Return the query's figures, name and value."""
    return [(name, float(per_query.at[query_id, name])) for name in metrics if name in per_query]


def render_frame(
    template: str,
    about: Mapping[str, Any],
    tables: Tables | None,
    items: Mapping[str, TemplateData],
    thumbnails: Mapping[str, bytes],
    manifest: Mapping[str, Any] | None,
    **context: Any,
) -> str:
    """Render a template that extends evaluation_frame.html; the content security policy allows its script by digest."""
    script = (page_parts.PAGES_FOLDER / "templates" / "evaluation.js").read_text("utf-8")
    images = {name: item["image"] for name, item in items.items() if "image" in item}
    return page_parts.render_page(
        template,
        {**about, "funnel": []},
        tables.images if tables is not None else empty_frame("images"),
        set_parts.list_thumbnails(images, thumbnails),
        script=Markup(script),
        script_digest="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        any_missing=any(not image["has_thumbnail"] for image in images.values()),
        set_licence=(manifest or {}).get("licence") or "not stated",
        **context,
    )
