"""Flickr8k-CN: lines `picture.jpg#zhc#number text` and lists of each split's pictures (flickr8ktest.txt, without .jpg).

Layout: li-xirong/flickr8kcn a19b9aa, data/: flickr8kzhc.caption.txt (written by people, all splits),
flickr8kzhmtest.captions.txt (translated by people, test only), flickr8kzhb and flickr8kzhg (machines),
flickr8kenc.caption.txt (the English originals).
"""

from __future__ import annotations

from pathlib import Path

from backends.importers import Imported
from backends.interchange.caption_lists import (
    caption_set,
    listed_names,
    named_pictures,
    of_split,
    the_list_of,
    token_lines,
)
from backends.interchange.picture_store import PictureStore
from backends.interchange.text_files import broken, one_of

_LISTS = ("flickr8k{}.txt", "flickr8k{}_ids.txt")


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read a split of a folder: the texts that people wrote. A file is read as it is, all of it where no split is
    asked for."""
    captions = source
    if not source.is_file():
        captions, split = one_of(source, ["flickr8kzhc.caption.txt"], "captions"), split or "test"
    said = token_lines(captions)
    if not said:
        raise broken(captions, "holds no texts")
    language = "en" if "#enc#" in said[0][0] else "zh"
    if split is None:
        return caption_set(said, named_pictures(said), [captions], language, f"Flickr8k-CN, {captions.name}")
    listing = the_list_of(captions.parent, split, _LISTS)
    listed = [name.removesuffix(".jpg") + ".jpg" for name in listed_names(listing)]
    pictures = named_pictures(said, listed)
    return caption_set(of_split(said, listed), pictures, [captions, listing], language, f"Flickr8k-CN, {split}")
