"""Flickr30K-CN, in any of the three layouts that it is to be had in.

- Its authors' (li-xirong/cross-lingual-cap 0c01398, README.md: flickr30k-cn.tar.gz): folders such as
  flickr30kzhmbosontest with ImageSets/NAME.txt and TextData/seg.NAME.caption.txt. The texts are cut into words, and in
  the test split each bears its part of speech (`男孩:n`): both are the file's way of writing and are undone.
- Chinese-CLIP's (OFA-Sys/Chinese-CLIP 31863c7, zeroshot_dataset.md): {split}_texts.jsonl and {split}_imgs.tsv.
- 360's Flickr30k-CNA and the copies made of it (yuxie11/R2D2 c7127fa, data/flickr30k_cna_dataset.py): lines
  `id#number<tab>text`, in test/flickr30k_cna_test.txt or flickr30k_cn_test.txt.
"""

from __future__ import annotations

import re
from pathlib import Path

from backends.importers import Imported
from backends.interchange.caption_lists import (
    Said,
    caption_set,
    listed_names,
    named_pictures,
    of_split,
    token_lines,
)
from backends.interchange.chinese_clip_files import read_split
from backends.interchange.picture_store import PictureStore
from backends.interchange.text_files import broken, one_of

_SEGMENTED = {"train": "flickr30kzhbbosontrain", "val": "flickr30kzhbbosonval", "test": "flickr30kzhmbosontest"}
_SPEECH = re.compile(r":[A-Za-z]+$")


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read a split, `test` unless said otherwise. Pictures are `<id>.jpg` of Flickr30K, but for Chinese-CLIP's
    layout, in which they come inside the files."""
    split, title = split or "test", f"Flickr30K-CN, {split or 'test'}"
    if source.is_file():
        return _lines(source, title)
    if (texts := source / f"{split}_texts.jsonl").is_file():
        pictures = source / f"{split}_imgs.tsv"
        return read_split(texts, pictures, unpack, language="zh", title=title, judged_by="caption", style="caption")
    if split in _SEGMENTED and (folder := _segmented_folder(source, _SEGMENTED[split])) is not None:
        return _segmented(folder, title)
    kinds = [f"{folder}flickr30k_{kind}_{split}.txt" for folder in ("", f"{split}/") for kind in ("cna", "cn")]
    return _lines(one_of(source, kinds, f"texts of the split {split!r}"), title)


def _segmented_folder(source: Path, name: str) -> Path | None:
    """The split's folder: the source itself, or one in it."""
    return next((folder for folder in (source, source / name) if (folder / "TextData").is_dir()), None)


def _segmented(folder: Path, title: str) -> Imported:
    name = folder.resolve().name
    captions = one_of(folder / "TextData", [f"seg.{name}.caption.txt"], "captions")
    listing = one_of(folder / "ImageSets", [f"{name}.txt"], "list of pictures")
    listed = listed_names(listing)
    said = [(query, joined(text), image) for query, text, image in of_split(token_lines(captions), listed)]
    pictures = named_pictures(said, listed, ".jpg")
    return caption_set(said, pictures, [captions, listing], "zh", title)


def _lines(path: Path, title: str) -> Imported:
    said: list[Said] = [(query, text, image.removesuffix(".jpg")) for query, text, image in token_lines(path)]
    if not said:
        raise broken(path, "holds no texts")
    return caption_set(said, named_pictures(said, suffix=".jpg"), [path], "zh", title)


def joined(segmented: str) -> str:
    """The text of words with or without their part of speech; blanks stay between Latin words only."""
    words = [_SPEECH.sub("", word) for word in segmented.split()]
    text = ""
    for word in filter(None, words):
        both = text[-1:].isascii() and text[-1:].isalnum() and word[0].isascii() and word[0].isalnum()
        text += " " + word if both else word
    return text
