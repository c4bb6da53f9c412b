"""Cards of queries with their results, images or texts, and the texts of evaluation pages."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from querytruth.evaluation.comparison import EvaluationWarning
from querytruth.evaluation.evaluation_result import IMAGE_TO_TEXT, TEXT_TO_IMAGE
from querytruth.evaluation.result_types import SystemDescription
from querytruth.records import empty_frame
from querytruth.review import page_parts, set_parts
from querytruth.review.failure_causes import FailureContext, find_failure_causes
from querytruth.review.query_selection import FAILURE, MIDDLE, MIDDLE_MAX_RANK, SUCCESS, RankedItem, SelectedQuery
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.manifest import Manifest

DIRECTION_NAMES = {TEXT_TO_IMAGE: "text → image", IMAGE_TO_TEXT: "image → text"}
_BIN_TEXTS = {  # bin: sign and description
    SUCCESS: ("✓", "A relevant image ranks first."),
    MIDDLE: ("~", "The first relevant image ranks 2 to %(rank)s."),
    FAILURE: ("✕", "No relevant image is among the first %(rank)s."),
}
CAUSE_TITLES = page_parts.PAGE_TEXTS["causes"]
_WARNING_TEXTS = page_parts.PAGE_TEXTS["warnings"]  # code: title and fix
_METRIC_ORDER = ("hit", "ndcg", "rr", "ap", "r", "p")  # kinds of metrics, the most important first
_BOX = 4 / 3  # aspect ratio of an image in a row of results
_UNKNOWN = {"language": "", "style": "", "labels": (), "topic": ""}
TemplateData = dict[str, Any]


def describe_warnings(warnings: Iterable[EvaluationWarning]) -> list[dict[str, Any]]:
    """Return one entry per code: its title, the fix, and every metric with its detail."""
    by_code: dict[str, dict[str, Any]] = {}
    for one in warnings:
        title, fix = _WARNING_TEXTS.get(one.code, (one.code.replace("_", " ").capitalize(), ""))
        entry = by_code.setdefault(
            one.code, {"title": page_parts.translate(title), "fix": page_parts.translate(fix), "details": []}
        )
        entry["details"].append((one.metric, one.detail))
    return list(by_code.values())


def select_headline_metrics(metrics: Sequence[str], number: int = 4) -> list[str]:
    """Return up to `number` metrics: the first of each kind, then others."""
    kinds: dict[str, str] = {}
    for name in metrics:
        kinds.setdefault(name.split("@")[0].split("(")[0], name)
    return list(dict.fromkeys([*[kinds[kind] for kind in _METRIC_ORDER if kind in kinds], *metrics]))[:number]


def describe_bins(bin_sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the bins with their share of all queries."""
    total = max(sum(bin_sizes.values()), 1)
    return [
        {
            "bin": name,
            "title": page_parts.translate(name).capitalize(),
            "sign": sign,
            "description": page_parts.translate(description, rank=MIDDLE_MAX_RANK),
            "last_rank": MIDDLE_MAX_RANK,
        }
        | {"count": bin_sizes[name], "share": f"{100 * bin_sizes[name] / total:.0f}%"}
        for name, (sign, description) in _BIN_TEXTS.items()
    ]


def get_system_name(system: SystemDescription) -> str:
    """Return the name of a system; invalid characters of a file name are replaced."""
    name = str(system.get("name") or system.get("kind") or "system")
    return name.encode("utf-8", "replace").decode("utf-8")


def format_facts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and values as text, without empty ones."""
    stated = {name: value for name, value in values.items() if value is not None and value not in ("", {}, [])}
    return [(page_parts.translate(str(name).replace("_", " ")), _plain(value)) for name, value in stated.items()]


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain(inner) for inner in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def build_item_views(
    selected_queries: Sequence[SelectedQuery],
    ids: Sequence[str],
    direction: str,
    tables: Tables | None,
    manifest: Manifest | None,
    thumbnails: Mapping[str, bytes],
) -> dict[str, TemplateData]:
    """Return the text or the image of each id by id; without a set only the id itself."""
    query_ids = {one.query_id for one in selected_queries}
    texts = [name for name in ids if (name in query_ids) != (direction == IMAGE_TO_TEXT)]
    queries = tables.queries if tables is not None else empty_frame("queries")
    images = tables.images if tables is not None else empty_frame("images")
    rows = queries[queries["query_id"].isin(texts)]
    views: dict[str, TemplateData] = {name: dict(_UNKNOWN, text=name) for name in texts}
    views |= {str(row.query_id): _text(row) for row in rows.itertuples(index=False)}
    shown = set_parts.build_image_tiles(images, manifest, thumbnails, [name for name in ids if name not in views])
    for name, image in shown.items():
        image["card"] = set_parts.get_covering_size(image, _BOX, manifest)
        image["whole"] = set_parts.get_covering_size(image, image["true_ratio"], manifest)
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
            {
                "name": page_parts.translate(CAUSE_TITLES[c.code]),
                "description": page_parts.translate(c.description),
                "ranks": c.ranks,
            }
            for c in find_failure_causes(query, context)
        ],
    }


def build_result_tile(one: RankedItem, items: Mapping[str, TemplateData]) -> TemplateData:
    """Return a result with its judgment as a sign and in words, as colour alone is not accessible."""
    grade = one.judgment.relevance
    state, sign, state_text = "open", "?", page_parts.translate("unjudged")
    if grade >= 0:
        is_right = ("right", "✓", page_parts.translate("relevant, grade %(grade)s", grade=grade))
        state, sign, state_text = is_right if grade > 0 else ("wrong", "✕", page_parts.translate("judged not relevant"))
    item = items[one.item_id]
    name = item["image"]["name"] if "image" in item else item["text"]
    rank = (
        page_parts.translate("rank %(rank)s", rank=one.rank)
        if one.rank is not None
        else page_parts.translate("not returned")
    )
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
        "description": f"{rank}, {state_text}{why}: {name}"
        + (page_parts.translate(", score %(score)s", score=score) if score else ""),
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
    manifest: Manifest | None,
    **context: object,
) -> str:
    """Render a template that extends evaluation_frame.html."""
    images = {name: item["image"] for name, item in items.items() if "image" in item}
    return page_parts.render_page(
        template,
        {**about, "funnel": []},
        tables.images if tables is not None else empty_frame("images"),
        set_parts.list_thumbnails(images, thumbnails),
        script="evaluation.js",
        any_missing=any(not image["has_thumbnail"] for image in images.values()),
        set_licence=(manifest["licence"] if manifest else "") or page_parts.translate("not stated"),
        **context,
    )
