"""COCO-CN: coco-cn_{split}.txt (pictures) and imageid.human-written-caption.txt (`picture#number<tab>text`).

Layout: coco-cn-version1805v1.1.tar.gz of AIMClab-RUC/COCO-CN (li-xirong/coco-cn 22b218e, README.md and
data/coco-cn_ext.icap2020.txt, which has the same lines). The test split with the texts that people wrote is 1,000
pictures and 1,053 texts (OFA-Sys/Chinese-CLIP issue 175); give imageid.manually-translated-caption.txt itself as the
source for the translated ones.
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


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split, `test` unless said otherwise. Pictures are COCO 2014's, in train2014 and val2014 or together."""
    split = split or "test"
    captions = source
    if not source.is_file():
        captions = find_file(source, ["imageid.human-written-caption.txt"], "captions")
    listing = find_split_list(captions.parent, split, ["coco-cn_{}.txt"])
    listed = read_name_list(listing)
    caption_lines = select_split(read_token_lines(captions), listed)
    return build_caption_set(
        caption_lines, build_named_images(caption_lines, listed, ".jpg"), [captions, listing], "zh", f"COCO-CN, {split}"
    )
