"""The scenes of the album that show what a query asks for: a thing, perhaps with its colour."""

import re
from collections.abc import Iterable
from functools import cache

from querytruth.sample_album.album import AlbumImage, CaptionRequirement, read_words
from querytruth.sets.benchmark_set import Tables


def parse_requirement(query: str) -> CaptionRequirement | None:
    """Return what a Chinese query asks for; None if it uses other words than the album."""
    labels, colours, pattern = _words_of_queries()
    words = pattern.fullmatch(query)
    if words is None:
        return None
    if words["clothes"]:
        return CaptionRequirement("Person", colours[words["clothes"]], None)
    return CaptionRequirement(labels[words["label"]], colours[words["colour"]] if words["colour"] else None, None)


@cache
def _words_of_queries() -> tuple[dict[str, str], dict[str, str], re.Pattern[str]]:
    """Return the labels and the colours by their Chinese words, and the form of a query in these words."""
    words = read_words()
    labels = {one["zh"]: label for label, one in words["labels"].items()}
    colours = {zh: colour for colour, zh in words["colours"].items()}
    one_of = f"一[{''.join(sorted({one['measure_word_zh'] for one in words['labels'].values()}))}]"
    thing = f"(?:{one_of})?(?:(?P<colour>{'|'.join(colours)})的?)?(?P<label>{'|'.join(labels)})"
    return labels, colours, re.compile(f"穿(?P<clothes>{'|'.join(colours)})上衣的人|{thing}")


def find_fitting_images(tables: Tables, album: Iterable[AlbumImage]) -> dict[str, set[str] | None]:
    """Return, by query, the ids of the set's images that show what it asks for; None for a query with other words than
    the album's."""
    scenes = {album_image.file_name: album_image for album_image in album if album_image.defect is None}
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    found: dict[str, set[str] | None] = {}
    for query_id, text in zip(tables.queries["query_id"], tables.queries["text"], strict=True):
        requirement = parse_requirement(text)
        found[query_id] = None
        if requirement is not None:
            fitting = (image_id for image_id, name in names.items() if _is_relevant(scenes.get(name), requirement))
            found[query_id] = set(fitting)
    return found


def _is_relevant(scene: AlbumImage | None, requirement: CaptionRequirement) -> bool:
    return scene is not None and any(
        label == requirement.label and requirement.colour in (None, colour) for label, colour, _ in scene.facts
    )
