"""The truth of families of queries, image by image and box by box: an oracle that shares no code with builders."""

from typing import Any, NamedTuple

LARGE, SMALL, MARGIN = 0.3, 0.02, 0.02


class Box(NamedTuple):
    label: str
    left: float
    top: float
    right: float
    bottom: float
    crowd: bool = False
    attributes: tuple[str, ...] | None = None  # None: not listed


class Lists(NamedTuple):
    """What is known of the labels of an image; None: nothing."""

    absent: set[str] | None
    partial: set[str] | None


def judge(
    kind: str,
    labels: list[str],
    boxes: list[Box],
    related: dict[str, set[str]] | None = None,
    all_attributes: bool = False,
    lists: Lists | None = None,
) -> bool | None:
    """Whether an image with these boxes is right (True), a near miss (False), or not to be judged (None).
    `related`: per label the other labels that may name the same objects; `all_attributes`: an object whose attributes
    are listed has no other ones; `lists`: None where each object of each label has a box."""

    def of(label: str) -> list[Box]:
        return [box for box in boxes if box.label == label and not box.crowd]

    def sure(label: str) -> bool:
        others = (related or {}).get(label, set())
        if any((box.label == label and box.crowd) or box.label in others for box in boxes):
            return False
        if lists is None:
            return True
        absent = lists.absent or set()
        if not others <= absent:
            return False
        if not of(label):
            return label in absent
        return lists.partial is not None and label not in lists.partial and label not in absent

    first = of(labels[0])
    if kind == "negation/without":
        second = of(labels[1])
        if not first:
            return None
        return False if second else True if sure(labels[1]) else None
    if not first:
        return None
    if kind.startswith("attribute/"):
        if any(kind == f"attribute/{name}" for box in first for name in box.attributes or ()):
            return True
        return False if all_attributes and sure(labels[0]) and all(b.attributes is not None for b in first) else None
    if kind.startswith("count/"):
        right = len(first) == 2 if kind == "count/2" else len(first) > 2
        return right if sure(labels[0]) else None
    if kind.startswith("size/"):
        areas = [(box.right - box.left) * (box.bottom - box.top) for box in first]
        if kind == "size/large":
            if any(area >= LARGE for area in areas):
                return True
            return False if sure(labels[0]) and all(area <= SMALL for area in areas) else None
        if not sure(labels[0]):
            return None
        return True if all(a <= SMALL for a in areas) else False if all(a >= LARGE for a in areas) else None
    return _judge_place(kind.removeprefix("spatial/"), first, of(labels[1]), all(map(sure, labels)))


def _judge_place(place: str, first: list[Box], second: list[Box], certain: bool) -> bool | None:
    def lies(one: Any, other: Any) -> bool:
        if place in ("right", "below"):
            one, other = other, one
        if place in ("left", "right"):
            return bool(one.right + MARGIN <= other.left)
        return bool(one.bottom + MARGIN <= other.top)

    pairs = [(one, other) for one in first for other in second]
    if any(lies(one, other) for one, other in pairs):
        return True
    return False if pairs and certain and all(lies(other, one) for one, other in pairs) else None
