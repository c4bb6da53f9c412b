"""The pairs of a set and other collections, side by side, as one HTML page without scripts."""

import base64
from collections.abc import Mapping
from typing import Any

import pandas as pd
from markupsafe import Markup

from builders.overlap.image_pairs import format_distance
from review.page_parts import render_template

MAX_PAIRS = 100  # shown of each kind
PAGE_TEXTS = {
    "en": {
        "title": "Overlap",
        "leaked": "leaked queries",
        "pairs": "pairs",
        "image": "Images",
        "text": "Texts",
        "set": "in the set",
        "other": "in the other collection",
        "evidence": "evidence",
        "distance": "bits that differ, or cosine",
        "shown": "The first {count} of {all} are shown; pairs.csv has all.",
        "none": "No pair was found.",
        "no_image": "no image here: an index has hashes alone",
    },
    "zh": {
        "title": "重叠",
        "leaked": "条泄漏的查询",
        "pairs": "对",
        "image": "图片",
        "text": "文本",
        "set": "集合中",
        "other": "其他数据中",
        "evidence": "证据",
        "distance": "不同的位数或余弦",
        "shown": "显示 {all} 对中的前 {count} 对；全部见 pairs.csv。",
        "none": "没有找到配对。",
        "no_image": "此处无图片：索引只有哈希",
    },
}


def select_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """Returns the pairs that the page shows: the first MAX_PAIRS of each kind."""
    return pairs.groupby("kind", sort=False).head(MAX_PAIRS)


def render_overlap_page(
    manifest: Mapping[str, Any],
    queries: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    thumbnails: Mapping[tuple[str, str], bytes],
    language: str,
) -> str:
    """Returns the page. `thumbnails`: JPEGs by collection ("" is the set) and item; `tables`: pairs and queries, as
    `flows.overlap.overlap_search.OverlapResult` has them; `language`: one of PAGE_TEXTS."""
    texts, words = dict(zip(queries["query_id"], queries["text"], strict=True)), PAGE_TEXTS[language]
    start = Markup("data:image/jpeg;base64,")
    data = {key: start + base64.b64encode(jpeg).decode("ascii") for key, jpeg in thumbnails.items()}
    counts, parts = tables["pairs"]["kind"].value_counts(), []
    for kind, shown in select_pairs(tables["pairs"]).groupby("kind", sort=False):
        rows = [
            {
                **row,
                "distance": format_distance(row["distance"]),
                "text": texts.get(row["set_item"]),
                "own": data.get(("", row["set_item"])),
                "theirs": data.get((row["against"], row["other_item"])),
            }
            for row in shown.to_dict("records")
        ]
        note = words["shown"].format(count=len(rows), all=counts[kind]) if counts[kind] > len(rows) else ""
        parts.append({"kind": kind, "rows": rows, "count": int(counts[kind]), "note": note})
    leaked, count = int((tables["queries"]["overlap"] == "leaked").sum()), len(tables["queries"])
    name = f"{manifest['name']}/v{manifest['version']}"
    return render_template(
        "overlap_page.html", t=words, language=language, name=name, parts=parts, leaked=leaked, count=count
    )
