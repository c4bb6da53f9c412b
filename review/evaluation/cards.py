"""Queries and their results as the template shows them: pictures, or texts where these are searched."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import pandas as pd
from markupsafe import Markup

from builders.benchmark_set import Tables
from builders.records import empty
from review import page_parts
from review.evaluation.causes import causes_of
from review.evaluation.evidence import Known
from review.evaluation.selection import Asked, Result
from review.evaluation.words import CAUSES
from review.set_pages import set_parts

IMAGE_TO_TEXT = "image_to_text"
_BOX = 4 / 3  # proportions of a picture in a row of results
_UNKNOWN = {"language": "", "style": "", "labels": (), "topic": ""}
Shown = dict[str, Any]


def things_of(
    asked: Sequence[Asked],
    ids: Sequence[str],
    direction: str,
    tables: Tables | None,
    manifest: Mapping[str, Any] | None,
    thumbnails: Mapping[str, bytes],
) -> dict[str, Shown]:
    """What stands for each id: a text where texts ask or are searched, else a picture; without a set its id alone."""
    asking = {one.query_id for one in asked}
    texts = [name for name in ids if (name in asking) != (direction == IMAGE_TO_TEXT)]
    known = dict(manifest) if manifest else {"configuration": {}}
    queries = tables.queries if tables is not None else empty("queries")
    images = tables.images if tables is not None else empty("images")
    rows = queries[queries["query_id"].isin(texts)]
    found: dict[str, Shown] = {name: dict(_UNKNOWN, text=name) for name in texts}
    found |= {str(row.query_id): _text(row) for row in rows.itertuples(index=False)}
    pictures = set_parts.shown_pictures(images, known, thumbnails, [name for name in ids if name not in found])
    for name, picture in pictures.items():
        picture["card"] = set_parts.covering(picture, _BOX, known)
        picture["whole"] = set_parts.covering(picture, picture["true"], known)
        found[name] = {"picture": picture}
    return found


def _text(row: Any) -> Shown:
    labels = getattr(row, "labels", None)
    labels = [str(label) for label in labels] if labels is not None and not isinstance(labels, float) else []
    topic = row.topic if isinstance(row.topic, str) else ""
    return {"text": row.text, "language": row.language, "style": row.style, "labels": labels, "topic": topic}


def jpegs_of(things: Mapping[str, Shown], thumbnails: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """The pictures by their classes in the style sheet."""
    pictures = {name: thing["picture"] for name, thing in things.items() if "picture" in thing}
    return set_parts.jpegs_of(pictures, thumbnails)


def card_of(asked: Asked, things: Mapping[str, Shown], known: Known, figures: Sequence[tuple[str, float]]) -> Shown:
    """A query with its results, the right ones that it missed, likely causes and its own figures."""
    return {
        "id": asked.query_id,
        "thing": things[asked.query_id],
        "first": asked.first,
        "right": asked.right,
        "figures": [(name, f"{value:.2f}") for name, value in figures],
        "results": [tile_of(one, things) for one in asked.results],
        "missed": [tile_of(one, things) for one in asked.missed],
        "further": asked.further,
        "causes": [{"name": CAUSES[c.code], "says": c.says, "ranks": c.ranks} for c in causes_of(asked, known)],
    }


def tile_of(one: Result, things: Mapping[str, Shown]) -> Shown:
    """A result with a sign that says by more than colour what the truth says of it."""
    grade = one.judged.relevance
    state = "right" if grade > 0 else "wrong" if grade == 0 else "open"
    words = {"right": f"right, grade {grade}", "wrong": "judged not relevant", "open": "unjudged"}[state]
    thing = things[one.item_id]
    name = thing["picture"]["name"] if "picture" in thing else thing["text"]
    rank = f"rank {one.rank}" if one.rank is not None else "not returned"
    score = "" if math.isnan(one.score) else f"{one.score:.3f}" if abs(one.score) < 100 else f"{one.score:.4g}"
    why = f" ({one.judged.evidence})" if one.judged.evidence else ""
    return {
        "thing": thing,
        "rank": one.rank,
        "score": score,
        "state": state,
        "sign": {"right": "✓", "wrong": "✕", "open": "?"}[state],
        "grade": grade if grade > 1 else None,
        "evidence": one.judged.evidence,
        "says": f"{rank}, {words}{why}: {name}" + (f", score {score}" if score else ""),
    }


def figures_of(per_query: pd.DataFrame, query_id: str, metrics: Sequence[str]) -> list[tuple[str, float]]:
    """The query's own figures."""
    return [(name, float(per_query.at[query_id, name])) for name in metrics if name in per_query]


def render(
    template: str,
    about: Mapping[str, Any],
    tables: Tables | None,
    things: Mapping[str, Shown],
    thumbnails: Mapping[str, bytes],
    manifest: Mapping[str, Any] | None,
    **own: Any,
) -> str:
    """The page from a template that extends evaluation_frame.html; its script is allowed by its digest alone."""
    script = resources.files("review").joinpath("templates", "evaluation.js").read_text("utf-8")
    return page_parts.render_page(
        template,
        {**about, "funnel": []},
        tables.images if tables is not None else empty("images"),
        jpegs_of(things, thumbnails),
        script=Markup(script),
        script_digest=_digest(script),
        any_missing=any("picture" in thing and not thing["picture"]["has"] for thing in things.values()),
        fill=set_parts.fill(dict(manifest) if manifest else {"configuration": {}}),
        set_licence=(manifest or {}).get("licence") or "not stated",
        **own,
    )


def _digest(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
