"""Karpathy's splits: dataset_coco.json, dataset_flickr8k.json, dataset_flickr30k.json ({images: [{filename, split,
sentences: [{raw, sentid, …}]}]}).

Layout: karpathy/neuraltalk2, coco/coco_preprocess.ipynb, and https://cs.stanford.edu/people/karpathy/deepimagesent.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from backends.importers import Imported, picture_table
from backends.interchange.caption_lists import Said, caption_set
from backends.interchange.picture_store import PictureStore
from backends.interchange.text_files import broken, json_document, language_of, one_of


class Sentence(msgspec.Struct):
    """A text; `query_id` in our own exports."""

    raw: str
    sentid: int
    query_id: str | None = None


class Picture(msgspec.Struct):
    """A picture; `image_id` in our own exports."""

    filename: str
    split: str
    sentences: list[Sentence]
    imgid: int
    cocoid: int | None = None
    filepath: str = ""
    image_id: str | None = None


class Splits(msgspec.Struct):
    """The whole file."""

    images: list[Picture]
    dataset: str = ""


def read(source: Path, split: str | None, unpack: PictureStore) -> Imported:
    """Read a split, `test` unless said otherwise. Pictures are `filepath/filename`."""
    names = ["dataset.json", "dataset_coco.json", "dataset_flickr30k.json", "dataset_flickr8k.json"]
    path = source if source.is_file() else one_of(source, names, "splits")
    data = json_document(path, Splits)
    images = [image for image in data.images if image.split == (split or "test")]
    if not images:
        known = ", ".join(sorted({image.split for image in data.images})) or "none"
        raise broken(path, f"has no pictures of the split {split or 'test'!r}", f"choose from {known}")
    said: list[Said] = [
        (sentence.query_id or str(sentence.sentid), sentence.raw.strip(), _id(image))
        for image in images
        for sentence in image.sentences
    ]
    pictures = picture_table((_id(image), f"{image.filepath}/{image.filename}".lstrip("/"), None) for image in images)
    language = language_of(" ".join(text for _, text, _ in said[:1000]))
    title = f"{data.dataset or path.stem}, {split or 'test'}"
    read = caption_set(said, pictures, [path], language, title)
    if any(image.image_id is None for image in images):
        return read
    languages = [language_of(text) for text in read.queries["text"]]
    queries = read.queries.assign(language=languages).drop_duplicates(["query", "text"])
    return replace(read, queries=queries, keeps_ids=True)


def _id(image: Picture) -> str:
    return image.image_id or str(image.imgid if image.cocoid is None else image.cocoid)
