"""Whether a query of the sample album's world is true of a scene: a kind of thing, perhaps with its colour."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from builders.benchmark_set import Tables
from sample_album.album_records import AlbumImage, CaptionClaims, CaptionRequirement
from sample_album.caption_truth import is_true_of
from sample_album.object_kinds import COLOUR_ZH, OBJECT_KINDS

_LABELS = {kind.zh: kind.label for kind in OBJECT_KINDS.values()}
_COLOURS = {zh: colour for colour, zh in COLOUR_ZH.items()}
_COUNTED = re.compile(f"^一[个{''.join(sorted({kind.measure_word_zh for kind in OBJECT_KINDS.values()}))}]")
_COLOURED = re.compile(f"^({'|'.join(_COLOURS)})的?")
_PERSON_IN_COLOUR = re.compile(f"^穿({'|'.join(_COLOURS)})上衣的人$")


@dataclass(frozen=True, slots=True)
class QueryEvaluation:
    """Of the set's relevant pictures, `judged`, those that show what their query asks for, `truly_relevant`;
    `unjudged_relevant`: pictures of the set that show it, too, and are not judged; `unparsed_queries`: queries in other
    words than the album's."""

    judged: int
    truly_relevant: int
    unjudged_relevant: int
    unparsed_queries: tuple[str, ...]


def parse_requirement(query: str) -> CaptionRequirement | None:
    """What a Chinese query asks for; None where it is in other words than the album's."""
    if dressed := _PERSON_IN_COLOUR.match(query):
        return CaptionRequirement("Person", _COLOURS[dressed[1]], None)
    text = _COUNTED.sub("", query)
    coloured = _COLOURED.match(text)
    label = _LABELS.get(text[coloured.end() :] if coloured else text)
    return CaptionRequirement(label, _COLOURS[coloured[1]] if coloured else None, None) if label else None


def evaluate_queries(tables: Tables, album: Iterable[AlbumImage]) -> QueryEvaluation:
    """The judgments of a set made of the album's pictures, each beside the scene that was drawn."""
    fitting_by_query = find_fitting_images(tables, album)
    relevant = tables.qrels[tables.qrels["relevance"] > 0]
    relevant_ids = relevant.groupby("query_id")["image_id"].agg(set).to_dict()
    judged = truly_relevant = unjudged_relevant = 0
    unread = []
    for query_id, text in zip(tables.queries["query_id"], tables.queries["text"], strict=True):
        judged += len(relevant_ids.get(query_id, ()))
        fitting = fitting_by_query[query_id]
        if fitting is None:
            unread.append(text)
            continue
        truly_relevant += len(fitting & relevant_ids.get(query_id, set()))
        unjudged_relevant += len(fitting - relevant_ids.get(query_id, set()))
    return QueryEvaluation(judged, truly_relevant, unjudged_relevant, tuple(unread))


def find_fitting_images(tables: Tables, album: Iterable[AlbumImage]) -> dict[str, set[str] | None]:
    """Returns by query the ids of the set's images that show what it asks for; None for a query in other words than the
    album's."""
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
    return scene is not None and is_true_of(
        CaptionClaims(None, None, (requirement,)), scene.place, scene.light, scene.facts
    )
