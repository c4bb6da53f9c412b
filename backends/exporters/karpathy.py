"""Karpathy's splits: dataset.json ({images: [{filename, split, sentences: [{raw, tokens, …}]}]}) and the pictures.

Layout: karpathy/neuraltalk2, coco/coco_preprocess.ipynb, and the dataset_coco.json and dataset_flickr8k.json of
https://cs.stanford.edu/people/karpathy/deepimagesent. A sentence belongs to one picture.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from backends.exporters import need_queries
from backends.exporters.webdataset import texts_of_pictures
from backends.interchange import losses
from backends.interchange.set_pictures import has_pictures, pictures
from backends.sets.set_files import StoredSet

_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+(?:'[a-z]+)?")


def export(stored: StoredSet, out: Path, *, allow_loss: bool = False) -> list[str]:
    """Write the file, and the pictures where they are at hand. Numbers count pictures and sentences in order."""
    need_queries(stored)
    lost = losses.losses(stored, losses.MANY, losses.GRADES, losses.ZEROS, losses.EMPTY)
    losses.refuse_losses(stored, "karpathy", lost, allow_loss)
    asked = texts_of_pictures(stored)
    names = _write_pictures(stored, out)
    sentences = 0
    with (out / "dataset.json").open("w", encoding="utf-8", newline="\n") as file:
        file.write(f'{{"dataset": {json.dumps(stored.manifest["name"])}, "images": [\n')
        for number, (image_id, name) in enumerate(names):
            about = asked.get(image_id, [])
            entry = _entry(number, sentences, image_id, name, about)
            sentences += len(about)
            file.write((",\n" if number else "") + json.dumps(entry, ensure_ascii=False))
        file.write("\n]}\n")
    return [*lost, "languages, styles, levels and labels of queries", "what is known of pictures", "who judged and why"]


def _write_pictures(stored: StoredSet, out: Path) -> list[tuple[str, str]]:
    """Copy the pictures to images/; per picture its id and file name."""
    names = []
    if has_pictures(stored):
        (out / "images").mkdir()
    for image_id, picture in zip(stored.tables.images["image_id"], pictures(stored), strict=True):
        if picture is not None:
            (out / "images" / f"{image_id}{picture.suffix}").write_bytes(picture.data)
        names.append((image_id, f"{image_id}{picture.suffix}" if picture else f"{image_id}.jpg"))
    return names


def _entry(number: int, first: int, image_id: str, name: str, about: list[tuple[str, str]]) -> dict[str, Any]:
    said = [
        {"tokens": tokens(text), "raw": text, "imgid": number, "sentid": first + place, "query_id": query}
        for place, (query, text) in enumerate(about)
    ]
    return {
        "filepath": "images",
        "filename": name,
        "imgid": number,
        "image_id": image_id,
        "split": "test",
        "sentids": [sentence["sentid"] for sentence in said],
        "sentences": said,
    }


def tokens(text: str) -> list[str]:
    """Words in lower case without punctuation; Chinese by the character."""
    return _TOKEN.findall(text.lower())
