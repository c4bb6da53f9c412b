"""COCO-CN: coco-cn_{split}.txt (pictures) and imageid.human-written-caption.txt (`picture#number<tab>text`).

Layout: coco-cn-version1805v1.1.tar.gz of AIMClab-RUC/COCO-CN (li-xirong/coco-cn 22b218e, README.md and
data/coco-cn_ext.icap2020.txt, which has the same lines). The test split with the texts that people wrote is 1,000
pictures and 1,053 texts (OFA-Sys/Chinese-CLIP issue 175); give imageid.manually-translated-caption.txt itself as the
source for the translated ones.
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


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read a split, `test` unless said otherwise. Pictures are COCO 2014's, in train2014 and val2014 or together."""
    split = split or "test"
    captions = source
    if not source.is_file():
        captions = one_of(source, ["imageid.human-written-caption.txt"], "captions")
    listing = the_list_of(captions.parent, split, ["coco-cn_{}.txt"])
    listed = listed_names(listing)
    said = of_split(token_lines(captions), listed)
    return caption_set(said, named_pictures(said, listed, ".jpg"), [captions, listing], "zh", f"COCO-CN, {split}")
