"""One query to a search service: what its answers map to."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from backends.durable_files import write_atomically
from backends.file_errors import translate_read_errors, translate_write_errors
from backends.images.thumbnails import make_thumbnails
from backends.regular_files import read_regular
from backends.search_systems import ImageSearchSystem, SearchFailure, SearchHit, SearchSystemOptions, SystemFile
from backends.sets import set_files
from backends.sets.image_locations import locate_set_images
from builders.errors import UserError
from flows.scoring.image_names import map_ids, read_named_images
from flows.scoring.image_queries import MAX_IMAGE_BYTES, map_text_ids
from review.system_trial_page import render_system_trial


def ask_once(described: SystemFile, query: str, k: int) -> Sequence[SearchHit]:
    """Returns a service's answers to one query, a text or, for a search by images, the path of one; records nothing.
    Raises UserError where it gives none."""
    system = described.system
    try:
        if isinstance(system, ImageSearchSystem) and system.takes_images:
            with translate_read_errors("try system", query, "name the file of an image"):
                image = read_regular(Path(query), MAX_IMAGE_BYTES)
            return system.search_image(image, k)
        return system.search(query, k)
    except SearchFailure as failed:
        reason = f"gave no answer ({failed.reason}{': ' if failed.detail else ''}{failed.detail})"
        raise UserError("try system", described.name, reason, "compare the file with docs/systems.md") from None


def map_hits(hits: Sequence[SearchHit], described: SystemFile, set_name: str | None, out: Path) -> list[dict[str, Any]]:
    """Returns a row per hit: rank, id, score, image_id ("" where it maps to none) and a text about it. Of a search by
    images the hits map to queries, and image_id is empty."""
    images, column = None, described.system.options.ids
    if set_name is not None:
        path = set_files.find_set(set_name, out)
        if isinstance(described.system, ImageSearchSystem) and described.system.takes_images:
            return _map_to_texts(hits, set_files.read_set(path, ("queries",)).tables.queries)
        images = read_named_images(path)
    ids = {} if images is None else map_ids(images, column)
    names = {} if images is None else _name_first(images)
    rows = []
    for rank, hit in enumerate(hits, start=1):
        image_id = ids.get(hit.id, "")
        score = None if hit.score is None or not math.isfinite(hit.score) else hit.score
        maps_to = "" if images is None else f"{names[image_id] or image_id}" if image_id else "no image of the set"
        row = {"rank": rank, "id": hit.id, "score": score, "image_id": image_id, "maps_to": maps_to}
        rows.append(row)
    return rows


def _name_first(images: pd.DataFrame) -> dict[str, str]:
    own = images.drop_duplicates("image_id")  # rows of copies come after those of the images
    return dict(zip(own["image_id"], own["file_name"].fillna(""), strict=True))


def suggest_ids(hits: Sequence[SearchHit], set_name: str, out: Path) -> str:
    """Returns what to write where no hit maps to an image: the column of the set that has the ids, else examples of
    both sides."""
    images = read_named_images(set_files.find_set(set_name, out))
    found = {hit.id for hit in hits}
    columns = get_args(SearchSystemOptions.model_fields["ids"].annotation)
    for column in columns:
        if found & set(images[column].dropna().astype(str)):
            return f"they are of the column {column}: write ids: {column}"
    examples = ", ".join(
        f"{name} like {str(value)[:60]!r}" for name in columns for value in images[name].dropna().head(1)
    )
    return f"the set has {examples}"


def _map_to_texts(hits: Sequence[SearchHit], queries: pd.DataFrame) -> list[dict[str, Any]]:
    ids, texts = map_text_ids(queries), dict(zip(queries["query_id"].astype(str), queries["text"], strict=True))
    return [
        {
            "rank": rank,
            "id": hit.id,
            "score": hit.score if hit.score is not None and math.isfinite(hit.score) else None,
            "image_id": "",
            "query_id": ids.get(hit.id, ""),
            "maps_to": texts[ids[hit.id]] if hit.id in ids else "no text of the set",
        }
        for rank, hit in enumerate(hits, start=1)
    ]


def write_trial_page(page: Path, title: str, rows: Sequence[dict[str, Any]], set_name: str, out: Path) -> None:
    """Writes the answers with thumbnails of the images that they map to. Raises UserError."""
    stored = set_files.read_set(set_files.find_set(set_name, out), ("images",))
    image_ids = [str(row["image_id"]) for row in rows if row["image_id"]]
    thumbnails = make_thumbnails(locate_set_images(stored, image_ids)) if image_ids else {}
    with translate_write_errors("write page", page, "or give another --page"):
        page.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(page, render_system_trial(title, rows, thumbnails).encode())
