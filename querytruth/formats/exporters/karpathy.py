"""Karpathy's splits: dataset.json ({images: [{filename, split, sentences: [{raw, tokens, …}]}]}) and the images.

Layout: karpathy/neuraltalk2, coco/coco_preprocess.ipynb, and the dataset_coco.json and dataset_flickr8k.json of
https://cs.stanford.edu/people/karpathy/deepimagesent. A sentence belongs to one image.
"""

import json
import re
from pathlib import Path
from typing import Any

from querytruth.backends.files.safe_paths import contained_path
from querytruth.formats.exporters.webdataset import relevant_queries_by_image
from querytruth.formats.set_description import CHANGED_BY_SINGLE_ANSWERS, NO_METADATA, FormatLimits
from querytruth.formats.set_images import describe_sizes, has_images, iterate_set_images
from querytruth.sets.set_files import StoredSet

_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+(?:'[a-z]+)?")

LIMITS = FormatLimits(changes_figures=CHANGED_BY_SINGLE_ANSWERS, omissions=NO_METADATA)


def export(stored: StoredSet, out: Path) -> None:
    """Write the file, and the images that are available. `imgid` and `sentid` are consecutive numbers."""
    queries_by_image = relevant_queries_by_image(stored)
    names, sizes = _write_images(stored, out), describe_sizes(stored)
    sentences = 0
    with (out / "dataset.json").open("w", encoding="utf-8", newline="\n") as file:
        file.write(f'{{"dataset": {json.dumps(stored.manifest["name"])}, "images": [\n')
        for number, (image_id, name) in enumerate(names):
            image_queries = queries_by_image.get(image_id, [])
            entry = _entry(number, sentences, image_id, name, image_queries) | sizes[image_id]
            sentences += len(image_queries)
            file.write((",\n" if number else "") + json.dumps(entry, ensure_ascii=False))
        file.write("\n]}\n")


def _write_images(stored: StoredSet, out: Path) -> list[tuple[str, str]]:
    """Copy the images to images/; return (image id, file name) of every image."""
    names = []
    if has_images(stored):
        (out / "images").mkdir()
    for image_id, image in zip(stored.tables.images["image_id"], iterate_set_images(stored), strict=True):
        if image is not None:
            contained_path(out, f"images/{image_id}{image.suffix}", "export").write_bytes(image.data)
        names.append((image_id, f"{image_id}{image.suffix}" if image else f"{image_id}.jpg"))
    return names


def _entry(number: int, first: int, image_id: str, name: str, image_queries: list[tuple[str, str]]) -> dict[str, Any]:
    sentences = [
        {"tokens": tokenize_caption(text), "raw": text, "imgid": number, "sentid": first + place, "query_id": query}
        for place, (query, text) in enumerate(image_queries)
    ]
    return {
        "filepath": "images",
        "filename": name,
        "imgid": number,
        "image_id": image_id,
        "split": "test",
        "sentids": [sentence["sentid"] for sentence in sentences],
        "sentences": sentences,
    }


def tokenize_caption(text: str) -> list[str]:
    """Return the words in lower case, without punctuation; Chinese by character."""
    return _TOKEN.findall(text.lower())
