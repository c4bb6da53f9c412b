"""Flickr8k, and Flickr30k in the same form: lines `picture.jpg#number<tab>text` (Flickr8k.token.txt,
results_20130124.token) and lists of each split's pictures (Flickr_8k.testImages.txt).

Layout: the archive Flickr8k_text of M. Hodosh, P. Young, J. Hockenmaier, readme.txt.
"""

from __future__ import annotations

from pathlib import Path

from backends.importers import ImportedTables
from backends.interchange.caption_lists import (
    build_caption_set,
    build_named_images,
    find_split_list,
    read_name_list,
    read_token_lines,
    select_split,
)
from backends.interchange.image_store import ImageStore
from backends.interchange.text_files import find_file

_LISTS = ("Flickr_8k.{}Images.txt", "flickr8k{}.txt", "{}.txt")


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split (train, dev or test) of a folder, or all lines of a file for which none is asked."""
    captions = source
    if not source.is_file():
        captions = find_file(source, ["Flickr8k.token.txt", "results_20130124.token", "results.token"], "captions")
    caption_lines = read_token_lines(captions)
    if source.is_file() and split is None:
        return build_caption_set(caption_lines, build_named_images(caption_lines), [captions], "en", captions.name)
    listing = find_split_list(captions.parent, split or "test", _LISTS)
    listed = read_name_list(listing)
    title = f"Flickr8k, {split or 'test'}"
    return build_caption_set(
        select_split(caption_lines, listed), build_named_images(caption_lines, listed), [captions, listing], "en", title
    )
