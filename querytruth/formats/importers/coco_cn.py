"""COCO-CN: coco-cn_{split}.txt (images) and imageid.human-written-caption.txt (`image#number<tab>text`).

Layout: coco-cn-version1805v1.1.tar.gz of AIMClab-RUC/COCO-CN (li-xirong/coco-cn 22b218e, README.md and
data/coco-cn_ext.icap2020.txt, which has the same lines). The test split has 1,000 images and 1,053 texts written by
people (OFA-Sys/Chinese-CLIP issue 175); for the translated texts, give imageid.manually-translated-caption.txt as
source.
"""

from pathlib import Path

from querytruth.backends.files.text_files import find_file
from querytruth.formats.import_layouts import build_caption_split, find_split_list, read_name_list, read_token_lines
from querytruth.formats.importers import ImportedTables
from querytruth.formats.set_images import ImageStore


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split, by default `test`. The images are those of COCO 2014, in train2014 and val2014 or in one folder."""
    split = split or "test"
    name = "imageid.human-written-caption.txt"
    captions = source if source.is_file() else find_file(source, [name], "captions")
    listing = find_split_list(captions.parent, split, ["coco-cn_{}.txt"])
    lines, listed = read_token_lines(captions), read_name_list(listing)
    return build_caption_split(lines, listed, [captions, listing], "zh", f"COCO-CN, {split}", ".jpg")
