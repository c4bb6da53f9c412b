"""Flickr8k, and Flickr30k in the same form: lines `picture.jpg#number<tab>text` (Flickr8k.token.txt,
results_20130124.token) and lists of each split's pictures (Flickr_8k.testImages.txt).

Layout: the archive Flickr8k_text of M. Hodosh, P. Young, J. Hockenmaier, readme.txt.
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
from backends.interchange.text_files import one_of

_LISTS = ("Flickr_8k.{}Images.txt", "flickr8k{}.txt", "{}.txt")


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read a split (train, dev or test) of a folder, or all lines of a file for which none is asked."""
    captions = source
    if not source.is_file():
        captions = one_of(source, ["Flickr8k.token.txt", "results_20130124.token", "results.token"], "captions")
    said = token_lines(captions)
    if source.is_file() and split is None:
        return caption_set(said, named_pictures(said), [captions], "en", captions.name)
    listing = the_list_of(captions.parent, split or "test", _LISTS)
    listed = listed_names(listing)
    title = f"Flickr8k, {split or 'test'}"
    return caption_set(of_split(said, listed), named_pictures(said, listed), [captions, listing], "en", title)
