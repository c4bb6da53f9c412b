"""The pairs of a set and other collections, side by side: one HTML page without scripts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.audit.overlap import (
    drop_leaked_queries,
    find_overlap,
    is_set,
    list_images,
    summarize_overlap,
    write_overlap,
)
from querytruth.audit.requests import OverlapRequest
from querytruth.backends.environment import current_user_name
from querytruth.backends.files.durable_files import write_page
from querytruth.backends.files.text_formats import read_package_yaml
from querytruth.backends.images.rendering import make_thumbnails
from querytruth.review.page_parts import embed_jpeg, render_template
from querytruth.sets.leaked_queries import overlap_folder
from querytruth.sets.manifest import Manifest
from querytruth.sets.set_files import StoredSet, find_set, locate_images, read_set

MAX_PAIRS = 100  # shown of each kind
PAGE_TEXTS = read_package_yaml(Path(__file__).with_name("page_texts.yaml"))["overlap"]
PAGE_FILE = "pairs.html"


def select_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs that the page shows: the first MAX_PAIRS of each kind."""
    return pairs.groupby("kind", sort=False).head(MAX_PAIRS)


def render_overlap_page(
    manifest: Manifest,
    queries: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    thumbnails: Mapping[tuple[str, str], bytes],
    language: str,
) -> str:
    """Return the page. `thumbnails`: JPEGs by collection ("" is the set) and item; `tables`: pairs and queries, as
    `querytruth.audit.overlap.OverlapResult` has them; `language`: one of PAGE_TEXTS."""
    texts, words = dict(zip(queries["query_id"], queries["text"], strict=True)), PAGE_TEXTS[language]
    data = {key: embed_jpeg(jpeg) for key, jpeg in thumbnails.items()}
    counts, parts = tables["pairs"]["kind"].value_counts(), []
    for kind, shown in select_pairs(tables["pairs"]).groupby("kind", sort=False):
        rows = [
            {
                **row,
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


def write_overlap_page(
    folder: Path, stored: StoredSet, tables: dict[str, pd.DataFrame], out: Path, language: str
) -> Path:
    """Write pairs.html into the result's folder and return it. Raises UserError where it cannot be written."""
    shown = select_pairs(tables["pairs"])
    images = shown[shown["kind"] == "image"]
    wanted = set(images["set_item"])
    locations = {("", name): place for name, place in _locate_in_set(stored).items() if name in wanted}
    page = folder / PAGE_FILE
    for against, part in images.groupby("against"):
        other = str(against)
        places = _locate_in_set(read_set(find_set(other, out))) if is_set(other) else dict(list_images(other))
        locations |= {(str(against), name): places[name] for name in part["other_item"] if name in places}
    html = render_overlap_page(stored.manifest, stored.tables.queries, tables, make_thumbnails(locations), language)
    write_page(page, html, "or give another folder with --to")
    return page


def _locate_in_set(stored: StoredSet) -> dict[str, str]:
    return {one.image_id: one.location for one in locate_images(stored) if one.location is not None}


def overlap_set(request: OverlapRequest) -> tuple[dict[str, pd.DataFrame], dict[str, Any], Path, int]:
    """Return the tables, their summary, the page and the number of queries that are decided to be dropped."""
    stored = read_set(find_set(request.of, request.out))
    found = find_overlap(stored, request.against, request.out)
    folder, summary = request.to or overlap_folder(stored.path), summarize_overlap(stored, request.against, found)
    write_overlap(folder, found.tables, summary)
    page = write_overlap_page(folder, stored, found.tables, request.out, request.page_language)
    user = current_user_name()
    dropped = drop_leaked_queries(stored, found.queries, request.against, user) if request.drop else 0
    return found.tables, summary, page, dropped
