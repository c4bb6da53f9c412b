"""The album's truth in the shapes that data sets have: COCO's JSON, and tables of captions."""

import random
from collections.abc import Iterable
from typing import Any

from sample_album.album_records import AlbumImage, CaptionClaims, CaptionRequirement, ObjectBox
from sample_album.caption_truth import find_fitting_scenes
from sample_album.captions import format_caption_en, format_caption_zh
from sample_album.object_kinds import KIND_BY_LABEL, OBJECT_KINDS


def build_coco_annotations(album: Iterable[AlbumImage]) -> dict[str, Any]:
    """In Objects365's form and with its ids and names; faulty files are listed like any other."""
    category = {kind.label: kind.category_id for kind in OBJECT_KINDS.values()}
    image_records: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, image in enumerate(album, start=1):
        size = {"width": image.width, "height": image.height}
        image_records.append({"id": number, "file_name": image.file_name, **size, "license": 1})
        for box in image.boxes:
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": category[box.label],
                    "bbox": [box.x, box.y, box.width, box.height],
                    "area": box.width * box.height,
                    "iscrowd": 0,
                    "isfake": 0,
                    **_attributes(box),
                }
            )
    categories = [{"id": number, "name": label} for label, number in sorted(category.items(), key=lambda pair: pair[1])]
    licences = [{"id": 1, "name": "CC0-1.0", "url": "https://creativecommons.org/publicdomain/zero/1.0/"}]
    return {"licenses": licences, "images": image_records, "annotations": annotations, "categories": categories}


def _attributes(box: ObjectBox) -> dict[str, list[str]]:
    """The colour of the object, of a person that of the clothes; none of kinds that have several, or one alone."""
    kind = KIND_BY_LABEL[box.label]
    if box.colour is None or not kind.mentions_colour:
        return {}
    return {"attributes": [f"in {box.colour}" if kind.key == "person" else box.colour]}


def build_captions_table(images: Iterable[AlbumImage]) -> list[dict[str, str]]:
    """A row per good picture and language (zh, en): file_name, language, caption."""
    return [
        {"file_name": image.file_name, "language": language, "caption": caption}
        for image in images
        if image.defect is None
        for language, caption in (("zh", image.caption_zh), ("en", image.caption_en))
    ]


def build_descriptions_table(images: Iterable[AlbumImage]) -> list[dict[str, str]]:
    """The same with texts that name all that is to be seen: every label, how many, their colours, place and light."""
    return [
        {"file_name": image.file_name, "language": language, "caption": write(_describe_fully(image), random.Random(0))}
        for image in images
        if image.defect is None
        for language, write in (("zh", format_caption_zh), ("en", format_caption_en))
    ]


def build_fitting_table(images: Iterable[AlbumImage]) -> list[dict[str, str]]:
    """A row per good picture and other picture that its caption fits, too: file_name, fits."""
    fitting = find_fitting_scenes(images)
    return [{"file_name": name, "fits": other} for name, others in fitting.items() for other in others]


def _describe_fully(image: AlbumImage) -> CaptionClaims:
    required = []
    for label in dict.fromkeys(label for label, _, _ in image.facts):
        own = [(colour, count) for one, colour, count in image.facts if one == label]
        required.append(CaptionRequirement(label, None, sum(count for _, count in own)))
        required += [CaptionRequirement(label, colour, count) for colour, count in own]
    return CaptionClaims(image.place, image.light, tuple(required))
