"""Writes the page of an overlap: the pairs side by side, one HTML file with thumbnails inside."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from backends.durable_files import write_page
from backends.images.thumbnails import make_thumbnails
from backends.sets.image_locations import locate_images
from backends.sets.set_files import StoredSet, find_set, read_set
from backends.sets.version_numbers import newest_version
from backends.sources.shard_files import find_shards
from flows.overlap.hash_index import is_index
from flows.overlap.shards import copy_members
from flows.overlap.source_images import STAGE, list_images
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
    page = folder / PAGE_FILE
    with tempfile.TemporaryDirectory(prefix="querytruth-page-") as temporary:
        for number, (against, part) in enumerate(images.groupby("against")):
            copies = Path(temporary) / str(number)
            places = _locate_others(str(against), part["other_item"].tolist(), out, copies)
            locations |= {(str(against), name): place for name, place in places.items()}
        thumbnails = make_thumbnails(locations)
    html = render_overlap_page(stored.manifest, stored.tables.queries, tables, thumbnails, language)
    write_page(page, html, "or give another folder with --to")
    return page


def _locate_in_set(stored: StoredSet) -> dict[str, str]:
    return {one.image_id: one.location for one in locate_images(stored) if one.location is not None}


def _locate_others(against: str, items: Sequence[str], out: Path, copies: Path) -> dict[str, str]:
    """Returns the places of images by their names; none of an index, which has no images. Those in shards are copied
    into the folder `copies`."""
    path = Path(against)
    is_source = path.is_dir() or path.is_file() or bool(find_shards(STAGE, against))
    if (path / "manifest.json").is_file() or newest_version(path) is not None or not is_source:
        found = _locate_in_set(read_set(find_set(against, out)))
        return {name: found[name] for name in items if name in found}
    if is_index(path):
        return {}
    listed, wanted = list_images(against), set(items)
    copies.mkdir()
    found = {name: place for name, place in listed.located if name in wanted}
    return found | copy_members(listed.shards, wanted, copies, STAGE)
