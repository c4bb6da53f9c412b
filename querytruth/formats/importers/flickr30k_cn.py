"""Flickr30K-CN in its three layouts.

- Its authors' (li-xirong/cross-lingual-cap 0c01398, README.md: flickr30k-cn.tar.gz): folders such as
  flickr30kzhmbosontest with ImageSets/NAME.txt and TextData/seg.NAME.caption.txt. The texts are cut into words,
  in the test split with their part of speech (`男孩:n`); both are removed.
- Chinese-CLIP's (OFA-Sys/Chinese-CLIP 31863c7, zeroshot_dataset.md): {split}_texts.jsonl and {split}_imgs.tsv.
- 360's Flickr30k-CNA and its copies (yuxie11/R2D2 c7127fa, data/flickr30k_cna_dataset.py): lines
  `id#number<tab>text`, in test/flickr30k_cna_test.txt or flickr30k_cn_test.txt.
"""

import re
from pathlib import Path

from querytruth.backends.files.text_files import find_file, import_error
from querytruth.formats.import_layouts import build_caption_split, read_name_list, read_split, read_token_lines
from querytruth.formats.importers import ImportedTables
from querytruth.formats.set_images import ImageStore

_SEGMENTED = {"train": "flickr30kzhbbosontrain", "val": "flickr30kzhbbosonval", "test": "flickr30kzhmbosontest"}
_PART_OF_SPEECH = re.compile(r":[A-Za-z]+$")


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split, by default `test`. Images are `<id>.jpg` of Flickr30K; in Chinese-CLIP's layout they are inside
    the files."""
    split, title = split or "test", f"Flickr30K-CN, {split or 'test'}"
    if source.is_file():
        return _lines(source, title)
    if (texts := source / f"{split}_texts.jsonl").is_file():
        images = source / f"{split}_imgs.tsv"
        return read_split(texts, images, image_store, language="zh", title=title, style="caption")
    for folder in (source, source / _SEGMENTED[split]) if split in _SEGMENTED else ():
        if (folder / "TextData").is_dir():
            return _segmented(folder, title)
    kinds = [f"{folder}flickr30k_{kind}_{split}.txt" for folder in ("", f"{split}/") for kind in ("cna", "cn")]
    return _lines(find_file(source, kinds, f"texts of the split {split!r}"), title)


def _segmented(folder: Path, title: str) -> ImportedTables:
    name = folder.resolve().name
    captions = find_file(folder / "TextData", [f"seg.{name}.caption.txt"], "captions")
    listing = find_file(folder / "ImageSets", [f"{name}.txt"], "list of images")
    listed = read_name_list(listing)
    lines = [(query, join_segmented(text), image) for query, text, image in read_token_lines(captions)]
    return build_caption_split(lines, listed, [captions, listing], "zh", title, ".jpg")


def _lines(path: Path, title: str) -> ImportedTables:
    lines = [(query, text, image.removesuffix(".jpg")) for query, text, image in read_token_lines(path)]
    if not lines:
        raise import_error(path, "has no texts")
    return build_caption_split(lines, None, [path], "zh", title, ".jpg")


def join_segmented(segmented: str) -> str:
    """Join words and remove their part of speech; blanks remain between Latin words only."""
    tokens = [_PART_OF_SPEECH.sub("", token) for token in segmented.split()]
    text = ""
    for token in filter(None, tokens):
        both = text[-1:].isascii() and text[-1:].isalnum() and token[0].isascii() and token[0].isalnum()
        text += " " + token if both else token
    return text
