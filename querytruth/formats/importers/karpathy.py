"""Karpathy's splits: dataset_coco.json, dataset_flickr8k.json, dataset_flickr30k.json ({images: [{filename, split,
sentences: [{raw, sentid, …}]}]}).

Layout: karpathy/neuraltalk2, coco/coco_preprocess.ipynb, and https://cs.stanford.edu/people/karpathy/deepimagesent.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec

from querytruth.backends.files.text_files import find_file, import_error, read_json_file
from querytruth.backends.files.text_formats import detect_language
from querytruth.formats import import_layouts, importers, set_images


class KarpathySentence(msgspec.Struct):
    """A text; `query_id` in our own exports."""

    raw: str
    sentid: int
    query_id: str | None = None


class KarpathyImage(msgspec.Struct):
    """An image; `image_id` in our own exports."""

    filename: str
    split: str
    sentences: list[KarpathySentence]
    imgid: int
    cocoid: int | None = None
    filepath: str = ""
    image_id: str | None = None


class KarpathyFile(msgspec.Struct):
    """The whole file."""

    images: list[KarpathyImage]
    dataset: str = ""


def read(source: Path, split: str | None, image_store: set_images.ImageStore) -> importers.ImportedTables:
    """Read a split, by default `test`. Images are `filepath/filename`."""
    names = ["dataset.json", "dataset_coco.json", "dataset_flickr30k.json", "dataset_flickr8k.json"]
    path = source if source.is_file() else find_file(source, names, "splits")
    data = read_json_file(path, KarpathyFile)
    images = [image for image in data.images if image.split == (split or "test")]
    if not images:
        known = ", ".join(sorted({image.split for image in data.images})) or "none"
        raise import_error(path, f"has no images of the split {split or 'test'!r}", f"choose from {known}")
    caption_lines: list[import_layouts.CaptionLine] = [
        (sentence.query_id or str(sentence.sentid), sentence.raw.strip(), _id(image))
        for image in images
        for sentence in image.sentences
    ]
    rows = [(_id(image), f"{image.filepath}/{image.filename}".lstrip("/"), None) for image in images]
    is_own_export = all(image.image_id is not None for image in images)
    language = None if is_own_export else _find_main_language(caption_lines[:1000])
    title = f"{data.dataset or path.stem}, {split or 'test'}"
    imported = import_layouts.build_caption_set(
        caption_lines, importers.build_image_table(rows), [path], language, title
    )
    if not is_own_export:
        return imported
    return replace(imported, queries=imported.queries.drop_duplicates(["query", "text"]), keeps_ids=True)


def _id(image: KarpathyImage) -> str:
    return image.image_id or str(image.imgid if image.cocoid is None else image.cocoid)


def _find_main_language(lines: list[import_layouts.CaptionLine]) -> str:
    return Counter(detect_language(text) for _, text, _ in lines).most_common(1)[0][0] if lines else "en"
