"""The album's truth in the shapes that data sets have: COCO's JSON, and tables of captions."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from builders.sample_album.caption_truth import fitting_scenes
from builders.sample_album.captions import caption_en, caption_zh
from builders.sample_album.kinds import KINDS
from builders.sample_album.records import AlbumPicture, Claims, Requirement


def coco_annotations(pictures: Iterable[AlbumPicture]) -> dict[str, Any]:
    """In Objects365's form and with its ids and names; faulty files are listed like any other."""
    category = {kind.label: kind.category for kind in KINDS.values()}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, picture in enumerate(pictures, start=1):
        size = {"width": picture.width, "height": picture.height}
        images.append({"id": number, "file_name": picture.file_name, **size, "license": 1})
        for box in picture.boxes:
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": category[box.label],
                    "bbox": [box.x, box.y, box.width, box.height],
                    "area": box.width * box.height,
                    "iscrowd": 0,
                    "isfake": 0,
                }
            )
    categories = [{"id": number, "name": label} for label, number in sorted(category.items(), key=lambda pair: pair[1])]
    licences = [{"id": 1, "name": "CC0-1.0", "url": "https://creativecommons.org/publicdomain/zero/1.0/"}]
    return {"licenses": licences, "images": images, "annotations": annotations, "categories": categories}


def captions_table(pictures: Iterable[AlbumPicture]) -> list[dict[str, str]]:
    """A row per good picture and language (zh, en): file_name, language, caption."""
    return [
        {"file_name": picture.file_name, "language": language, "caption": caption}
        for picture in pictures
        if picture.fault is None
        for language, caption in (("zh", picture.caption_zh), ("en", picture.caption_en))
    ]


def descriptions_table(pictures: Iterable[AlbumPicture]) -> list[dict[str, str]]:
    """The same with texts that name all that is to be seen: every label, how many, their colours, place and light."""
    return [
        {"file_name": picture.file_name, "language": language, "caption": write(_all_of(picture), random.Random(0))}
        for picture in pictures
        if picture.fault is None
        for language, write in (("zh", caption_zh), ("en", caption_en))
    ]


def fitting_table(pictures: Iterable[AlbumPicture]) -> list[dict[str, str]]:
    """A row per good picture and other picture that its caption fits, too: file_name, fits."""
    found = fitting_scenes(pictures)
    return [{"file_name": name, "fits": other} for name, others in found.items() for other in others]


def _all_of(picture: AlbumPicture) -> Claims:
    required = []
    for label in dict.fromkeys(label for label, _, _ in picture.facts):
        own = [(colour, count) for one, colour, count in picture.facts if one == label]
        required.append(Requirement(label, None, sum(count for _, count in own)))
        required += [Requirement(label, colour, count) for colour, count in own]
    return Claims(picture.place, picture.light, tuple(required))
