"""Writes the page of an overlap: the pairs side by side, one HTML file with thumbnails inside."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from backends.durable_files import write_page
from backends.images.thumbnails import make_thumbnails
from backends.sets.image_locations import locate_images
from backends.sets.set_files import StoredSet, find_set, newest_version, read_set
from backends.sources.image_sources import open_source
from flows.overlap_sources import is_index
from review.overlap_page import render_overlap_page, select_pairs

PAGE_FILE = "pairs.html"


def write_overlap_page(
    folder: Path, stored: StoredSet, tables: dict[str, pd.DataFrame], out: Path, language: str
) -> Path:
    """Writes pairs.html into the result's folder and returns it. Raises UserError where it cannot be written."""
    shown = select_pairs(tables["pairs"])
    images = shown[shown["kind"] == "image"]
    wanted = set(images["set_item"])
    locations = {("", name): place for name, place in _locate_in_set(stored).items() if name in wanted}
    for against, part in images.groupby("against"):
        places = _locate_others(str(against), part["other_item"].tolist(), out)
        locations |= {(str(against), name): place for name, place in places.items()}
    page = folder / PAGE_FILE
    html = render_overlap_page(stored.manifest, stored.tables.queries, tables, make_thumbnails(locations), language)
    write_page(page, html, "or give another folder with --to")
    return page


def _locate_in_set(stored: StoredSet) -> dict[str, str]:
    return {one.image_id: one.location for one in locate_images(stored) if one.location is not None}


def _locate_others(against: str, items: Sequence[str], out: Path) -> dict[str, str]:
    """Returns the places of images by their names; none of an index, which has no images."""
    path = Path(against)
    if (path / "manifest.json").is_file() or newest_version(path) is not None or not path.exists():
        found = _locate_in_set(read_set(find_set(against, out)))
        return {name: found[name] for name in items if name in found}
    if is_index(path):
        return {}
    places = open_source(against).locate_all(list(items))
    return {name: place for name, place in zip(items, places, strict=True) if isinstance(place, str)}
