"""Flickr8k-CN: lines `image.jpg#zhc#number text` and a list of images per split (flickr8ktest.txt, without .jpg, or
Flickr8k's own Flickr_8k.testImages.txt).

Layout: li-xirong/flickr8kcn a19b9aa, data/: flickr8kzhc.caption.txt (written by people, all splits),
flickr8kzhmtest.captions.txt (translated by people, test only), flickr8kzhb and flickr8kzhg (machines),
flickr8kenc.caption.txt (the English originals).
"""

from pathlib import Path

from querytruth.backends.files.text_files import find_file, import_error
from querytruth.formats.import_layouts import build_caption_split, find_split_list, read_name_list, read_token_lines
from querytruth.formats.importers import ImportedTables
from querytruth.formats.set_images import ImageStore

_LISTS = ("flickr8k{}.txt", "flickr8k{}_ids.txt", "Flickr_8k.{}Images.txt")
_OTHER_NAMES = {"val": "dev", "dev": "val"}  # of a split: the publishers of texts and of images name it otherwise


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split (by default test) of the texts that people wrote, in a folder; of a file without a split, all
    lines."""
    captions = source
    if not source.is_file():
        captions, split = find_file(source, ["flickr8kzhc.caption.txt"], "captions"), split or "test"
    lines = read_token_lines(captions)
    if not lines:
        raise import_error(captions, "has no texts")
    language = "en" if "#enc#" in lines[0][0] else "zh"
    if split is None:
        return build_caption_split(lines, None, [captions], language, f"Flickr8k-CN, {captions.name}")
    patterns = [*_LISTS, *(one.replace("{}", _OTHER_NAMES[split]) for one in _LISTS if split in _OTHER_NAMES)]
    listing = find_split_list(captions.parent, split, patterns)
    listed = [name.removesuffix(".jpg") + ".jpg" for name in read_name_list(listing)]
    return build_caption_split(lines, listed, [captions, listing], language, f"Flickr8k-CN, {split}")
