"""Whether a detector's results are about the images and labels of the annotations.

A detector numbers labels in its own way: from 0 where the annotations start with 1, without the gaps of COCO's ids, or
by file name. Nothing in a results file says so; it shows where both have a box at the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from builders.array_types import BoolArray
from builders.errors import UserError
from builders.precision.annotated_gallery import AnnotationFile, Ints, find_id_positions
from builders.precision.detections import DetectionFile

_STAGE = "join detections"
_SAME_PLACE = 0.5  # intersection over union
_SAMPLE = 20_000  # detections
_FEWEST = 8  # detections at the place of a box: fewer say nothing
_BETTER_BY = 0.25  # of the detections: another numbering fits so many more
_UNLIKE = 0.1  # of the detections at the place of a box have its label: fewer are another list of labels


def name_images_by_id(found: DetectionFile, annotated: AnnotationFile) -> DetectionFile:
    """Returns the results with image ids of the annotations, where theirs are file names or stems (numbers, where the
    stem is one) and none is an id."""
    given = found.boxes["image"].to_numpy()
    ids = annotated.images["id"].to_numpy()
    if not len(given) or (find_id_positions(given, ids) >= 0).any():
        return found
    positions = np.full(len(given), -1)
    for name_of in (_get_name, _get_stem, _get_number):
        names = [name_of(str(name)) for name in annotated.images["file_name"]]
        counted = pd.Series(names).value_counts()
        place = {name: n for n, name in enumerate(names) if name and counted[name] == 1}
        keys = [_get_number(str(one)) if name_of is _get_number else name_of(str(one)) for one in given]
        if name_of is _get_stem:
            keys = [_get_name(str(one)) for one in given]
        positions = np.array([place.get(key, -1) for key in keys])
        if (positions >= 0).any():
            break
    if (positions < 0).all():
        return found
    images = given.astype(object)
    images[positions >= 0] = ids[positions[positions >= 0]]
    return replace(found, boxes=found.boxes.assign(image=images))


def _get_name(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name


def _get_stem(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).stem


def _get_number(name: str) -> str:
    stem = _get_stem(name)
    return str(int(stem)) if stem.isascii() and stem.isdigit() else ""


def check_detections(found: DetectionFile, annotated: AnnotationFile, at_least: float) -> None:
    """Raises UserError, with three examples, for results of which nothing is known, or whose ids mean other labels or
    images than those of the annotations. `annotated` and `found` have boxes of the same pixels."""
    boxes = found.boxes
    if not len(boxes):
        return
    ids, labels = annotated.images["id"].to_numpy(), annotated.categories["id"].to_numpy()
    image = find_id_positions(boxes["image"].to_numpy(), ids)
    label = find_id_positions(boxes["category"].to_numpy(), labels)
    for what, positions, known in (("image_id", image, ids), ("category_id", label, labels)):
        if (positions < 0).all():
            column = boxes[what.removesuffix("_id")].drop_duplicates()
            theirs, ours = (", ".join(repr(one) for one in ones[:3].tolist()) for ones in (column, known))
            reason = f"has no {what} of the annotations: {theirs} …; {annotated.name} has {ours} …"
            raise UserError(_STAGE, found.name, reason, f"write {what} as the annotations do, or leave the file out")
    sure = np.flatnonzero(boxes["score"].to_numpy() >= at_least)
    sure = sure[:: max(1, len(sure) // _SAMPLE)]
    _check_agreement(found, annotated, boxes.iloc[sure], image[sure])


def _check_agreement(found: DetectionFile, annotated: AnnotationFile, boxes: pd.DataFrame, image: Ints) -> None:
    labels = annotated.categories["id"]
    names = [str(name) for name in annotated.categories["name"]]
    at = find_id_positions(annotated.boxes["image"].to_numpy(), annotated.images["id"].to_numpy())
    pairs = _pair_boxes(boxes, image, annotated.boxes, at)
    placed = len(np.unique(pairs["found"]))
    if placed >= _FEWEST:
        category = boxes["category"].to_numpy()
        truth = np.array([*names, ""], dtype=object)[
            find_id_positions(annotated.boxes["category"].to_numpy(), labels.to_numpy())
        ]
        agreed = {
            how: _count_agreed(pairs, _name(ids, labels, names), truth) for how, ids in _numberings(category, labels)
        }
        as_given = agreed.pop("as they are")
        best = max(agreed, key=lambda how: agreed[how].sum(), default=None)
        if best is not None and agreed[best].sum() >= as_given.sum() + _BETTER_BY * len(boxes):
            fix = f"write category_id as the annotations do: {best}"
            _refuse(
                found, "labels", as_given, int(agreed[best].sum()), len(boxes), boxes, pairs, truth, names, labels, fix
            )
        if as_given.sum() < _UNLIKE * placed:
            fix = "write category_id and image_id as the annotations do, or leave the file out"
            _refuse(found, "labels", as_given, None, placed, boxes, pairs, truth, names, labels, fix)
    _check_image_numbers(found, annotated, boxes, image, at, placed)


def _numberings(category: Any, labels: pd.Series) -> list[tuple[str, Any]]:
    """Returns the category ids as they are, and as other numberings of the same list mean them."""
    out: list[tuple[str, Any]] = [("as they are", category)]
    if category.dtype == object or labels.dtype == object:
        return out
    listed = labels.to_numpy().astype(np.int64)
    out += [(f"add {step:+d}", category.astype(np.int64) + step) for step in (1, -1)]
    for first, order in ((0, listed), (1, listed), (0, np.sort(listed)), (1, np.sort(listed))):
        place = category.astype(np.int64) - first
        is_in = (place >= 0) & (place < len(order))
        out.append((f"theirs count the categories from {first}", np.where(is_in, order[place * is_in], -(1 << 40))))
    return out


def _name(ids: Any, labels: pd.Series, names: Sequence[str]) -> Any:
    return np.array([*names, "an unknown label"], dtype=object)[find_id_positions(ids, labels.to_numpy())]


def _count_agreed(pairs: pd.DataFrame, given: Any, truth: Any) -> BoolArray:
    """Returns per detection whether a box at its place has its label, where names are compared."""
    agrees = np.zeros(len(given), dtype=bool)
    same = given[pairs["found"].to_numpy()] == truth[pairs["annotated"].to_numpy()]
    agrees[pairs["found"].to_numpy()[same.astype(bool)]] = True
    return agrees


def _refuse(
    found: DetectionFile,
    what: str,
    agreed: BoolArray,
    better: int | None,
    of: int,
    boxes: pd.DataFrame,
    pairs: pd.DataFrame,
    truth: Any,
    names: Sequence[str],
    labels: pd.Series,
    fix: str,
) -> None:
    given = _name(boxes["category"].to_numpy(), labels, names)
    shown = list[str]()
    for one, other in pairs.drop_duplicates("found").itertuples(index=False):
        if not agreed[one] and len(shown) < 3:
            category, image = boxes["category"].iloc[one], boxes["image"].iloc[one]
            shown.append(f"image {image}: category_id {category} is {given[one]}, annotated is {truth[other]}")
    than = "" if better is None else f", with another numbering {better:,}"
    reason = f"its {what} agree with the annotated boxes at the same place for {int(agreed.sum()):,} of {of:,}{than}"
    raise UserError(_STAGE, found.name, f"{reason} ({'; '.join(shown)})", fix)


def _check_image_numbers(
    found: DetectionFile, annotated: AnnotationFile, boxes: pd.DataFrame, image: Ints, at: Ints, placed: int
) -> None:
    """Raises UserError where the detections lie on the boxes of the images before or after theirs."""
    ids = annotated.images["id"].to_numpy()
    if ids.dtype == object or boxes["image"].dtype == object:
        return
    category = boxes["category"].to_numpy()
    truth = annotated.boxes["category"].to_numpy()

    def count(positions: Ints) -> int:
        pairs = _pair_boxes(boxes, positions, annotated.boxes, at)
        same = category[pairs["found"]] == truth[pairs["annotated"]]
        return len(np.unique(pairs["found"].to_numpy()[same]))

    as_given = count(image)
    for step in (1, -1):
        other = count(find_id_positions(boxes["image"].to_numpy().astype(np.int64) + step, ids))
        if other >= max(_FEWEST, as_given + 2 * _BETTER_BY * len(boxes)):
            some = ", ".join(f"{one} for {one + step}" for one in boxes["image"].drop_duplicates()[:3].tolist())
            reason = f"its boxes fit those of the images {step:+d}: {other:,}, their own: {as_given:,} ({some})"
            raise UserError(_STAGE, found.name, reason, f"add {step:+d} to each image_id")


def _pair_boxes(boxes: pd.DataFrame, image: Ints, annotated: pd.DataFrame, at: Ints) -> pd.DataFrame:
    """Returns the detections and the annotated boxes (positions) that are at the same place of the same image."""
    one = pd.DataFrame({"image": image, "found": np.arange(len(boxes))})
    wanted = np.flatnonzero(np.isin(at, image[image >= 0]))
    other = pd.DataFrame({"image": at[wanted], "annotated": wanted})
    pairs = one[one["image"] >= 0].merge(other, on="image")
    a = boxes[["x", "y", "width", "height"]].to_numpy(dtype=float)[pairs["found"].to_numpy()]
    b = annotated[["x", "y", "width", "height"]].to_numpy(dtype=float)[pairs["annotated"].to_numpy()]
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:])
        shared = np.clip(high - low, 0, None).prod(axis=1)
        union = a[:, 2:].prod(axis=1) + b[:, 2:].prod(axis=1) - shared
        is_same = shared >= _SAME_PLACE * union
    return pairs.loc[is_same, ["found", "annotated"]].reset_index(drop=True)
