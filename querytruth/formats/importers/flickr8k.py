"""Flickr8k, and Flickr30k in the same form: lines `image.jpg#number<tab>text` (Flickr8k.token.txt,
results_20130124.token) and a list of images per split (Flickr_8k.testImages.txt).

Layout: the archive Flickr8k_text of M. Hodosh, P. Young, J. Hockenmaier, readme.txt.
"""

from pathlib import Path

from querytruth.backends.files.text_files import find_file
from querytruth.formats.import_layouts import build_caption_split, find_split_list, read_name_list, read_token_lines
from querytruth.formats.importers import ImportedTables
from querytruth.formats.set_images import ImageStore

_LISTS = ("Flickr_8k.{}Images.txt", "flickr8k{}.txt", "{}.txt")


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split (train, dev, test; by default test) of a folder; of a file without a split, all lines."""
    names = ["Flickr8k.token.txt", "results_20130124.token", "results.token"]
    captions = source if source.is_file() else find_file(source, names, "captions")
    lines = read_token_lines(captions)
    if source.is_file() and split is None:
        return build_caption_split(lines, None, [captions], "en", captions.name)
    named = {"val": "dev", "valid": "dev"}.get(split or "test", split or "test")
    patterns = [*_LISTS, "Flickr_8k.{}Images.txt".replace("{}", named)]
    listing = find_split_list(captions.parent, split or "test", patterns)
    title = f"Flickr8k, {split or 'test'}"
    return build_caption_split(lines, read_name_list(listing), [captions, listing], "en", title)
