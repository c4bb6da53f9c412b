"""Whether a query of the sample album's world is true of a scene: a kind of thing, perhaps with its colour."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from builders.benchmark_set import Tables
from builders.sample_album.caption_truth import satisfies
from builders.sample_album.kinds import COLOUR_ZH, KINDS
from builders.sample_album.records import AlbumPicture, Claims, Requirement

_LABELS = {kind.zh: kind.label for kind in KINDS.values()}
_COLOURS = {zh: colour for colour, zh in COLOUR_ZH.items()}
_COUNTED = re.compile("^一[个只辆艘架把张盏盆朵双]")
_COLOURED = re.compile(f"^({'|'.join(_COLOURS)})的?")
_DRESSED = re.compile(f"^穿({'|'.join(_COLOURS)})上衣的人$")


@dataclass(frozen=True, slots=True)
class QueryCheck:
    """Of the set's relevant pictures, `judged`, those that show what their query asks for, `true`; `holes`: pictures
    of the set that show it, too, and are not judged; `unread`: queries in other words than the album's."""

    judged: int
    true: int
    holes: int
    unread: tuple[str, ...]


def requirement_of(query: str) -> Requirement | None:
    """What a Chinese query asks for; None where it is in other words than the album's."""
    if dressed := _DRESSED.match(query):
        return Requirement("Person", _COLOURS[dressed[1]], None)
    text = _COUNTED.sub("", query)
    coloured = _COLOURED.match(text)
    label = _LABELS.get(text[coloured.end() :] if coloured else text)
    return Requirement(label, _COLOURS[coloured[1]] if coloured else None, None) if label else None


def check_queries(tables: Tables, drawn: Iterable[AlbumPicture]) -> QueryCheck:
    """The judgments of a set made of the album's pictures, each beside the scene that was drawn."""
    scenes = {picture.file_name: picture for picture in drawn if picture.fault is None}
    shown = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    relevant = tables.qrels[tables.qrels["relevance"] > 0]
    kept = relevant.groupby("query_id")["image_id"].agg(set).to_dict()
    judged = true = holes = 0
    unread = []
    for query_id, text in zip(tables.queries["query_id"], tables.queries["text"], strict=True):
        judged += len(kept.get(query_id, ()))
        asked = requirement_of(text)
        if asked is None:
            unread.append(text)
            continue
        fitting = {image for image, name in shown.items() if _shows(scenes.get(name), asked)}
        true += len(fitting & kept.get(query_id, set()))
        holes += len(fitting - kept.get(query_id, set()))
    return QueryCheck(judged, true, holes, tuple(unread))


def _shows(scene: AlbumPicture | None, asked: Requirement) -> bool:
    return scene is not None and satisfies(Claims(None, None, (asked,)), scene.place, scene.light, scene.facts)
