"""The answers of a system to one query, as an HTML page."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from review.page_parts import render_template

SEARCH_TEXTS = {
    "en": {
        "relevant": "relevant, grade {}", "wrong": "not relevant", "unjudged": "not judged", "no_image": "no image",
        "foreign": "no image of the set", "missed": "Relevant, but not among these results",
        "new": "The set does not have this query: nothing is judged.",
        "found": "{found} of {relevant} relevant images are among these {count} results; {unjudged} are not judged.",
    },
    "zh": {
        "relevant": "相关，等级 {}", "wrong": "不相关", "unjudged": "未判断", "no_image": "没有图片",
        "foreign": "不是集中的图片", "missed": "相关，但不在这些结果中",
        "new": "集中没有这个查询：没有任何判断。",
        "found": "{relevant} 张相关图片中有 {found} 张在这 {count} 个结果里；{unjudged} 个结果未判断。",
    },
}  # fmt: skip
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
    """Returns the page of one query: each result with its judgment in the set, and the relevant images that it lacks.
    `language`: en or zh, of the page's own texts."""
    texts, data = SEARCH_TEXTS[language], _embed(thumbnails)

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
    return render_template("search_page.html", text=text, system=system, language=language, **parts)


def _embed(thumbnails: Mapping[str, bytes]) -> dict[str, Markup]:
    start = Markup("data:image/jpeg;base64,")
    return {name: start + base64.b64encode(jpeg).decode("ascii") for name, jpeg in thumbnails.items()}


def render_system_trial(title: str, rows: Sequence[Mapping[str, Any]], thumbnails: Mapping[str, bytes]) -> str:
    """Returns the page: the results in order, each with the thumbnail (JPEG by image_id) of the image that it maps
    to."""
    data = _embed(thumbnails)
    tiles = [{**row, "data": data.get(row["image_id"])} for row in rows]
    return render_template("system_trial.html", title=title, rows=tiles)
