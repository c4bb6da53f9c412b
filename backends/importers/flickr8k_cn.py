"""Flickr8k-CN: lines `picture.jpg#zhc#number text` and lists of each split's pictures (flickr8ktest.txt, without .jpg).

Layout: li-xirong/flickr8kcn a19b9aa, data/: flickr8kzhc.caption.txt (written by people, all splits),
flickr8kzhmtest.captions.txt (translated by people, test only), flickr8kzhb and flickr8kzhg (machines),
flickr8kenc.caption.txt (the English originals).
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
from backends.interchange.text_files import find_file, import_error

_LISTS = ("flickr8k{}.txt", "flickr8k{}_ids.txt")


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split of a folder: the texts that people wrote. A file is read as it is, all of it where no split is
    asked for."""
    captions = source
    if not source.is_file():
        captions, split = find_file(source, ["flickr8kzhc.caption.txt"], "captions"), split or "test"
    caption_lines = read_token_lines(captions)
    if not caption_lines:
        raise import_error(captions, "holds no texts")
    language = "en" if "#enc#" in caption_lines[0][0] else "zh"
    if split is None:
        return build_caption_set(
            caption_lines, build_named_images(caption_lines), [captions], language, f"Flickr8k-CN, {captions.name}"
        )
    listing = find_split_list(captions.parent, split, _LISTS)
    listed = [name.removesuffix(".jpg") + ".jpg" for name in read_name_list(listing)]
    images = build_named_images(caption_lines, listed)
    return build_caption_set(
        select_split(caption_lines, listed), images, [captions, listing], language, f"Flickr8k-CN, {split}"
    )
