"""The meaning of the four numbers of a file's boxes: x, y, width, height in pixels (COCO), or something else.

Most tools write corners or centres to the same field, some as shares of the image. The file does not state it, but
boxes that leave their image, or that have another area than the file states, reveal it.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from builders.precision.annotated_gallery import Ints, find_id_positions
from querytruth.array_types import BoolArray, FloatArray
from querytruth.backends.files.column_profile import find_table_options
from querytruth.errors import UserError

_SIDES = ["x", "y", "width", "height"]
_SAMPLE = 1 << 16  # boxes
_SLACK = 0.01  # of a side: boxes are rounded
_FORMS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "xywh": lambda box: box,
    "corners": lambda box: np.hstack([box[:, :2], box[:, 2:] - box[:, :2]]),
    "centre": lambda box: np.hstack([box[:, :2] - box[:, 2:] / 2, box[:, 2:]]),
}


def fit_boxes(stage: str, item: str, boxes: pd.DataFrame, images: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the boxes as x, y, width, height in pixels, without their column `area` (NaN where the file states none),
    and what they were. `images`: id, width, height (0: not known). Raises UserError for boxes that contradict the form
    of the file, or else that of the options."""
    areas, boxes = boxes.get("area"), boxes.drop(columns="area", errors="ignore")
    step = max(1, len(boxes) // _SAMPLE)
    place = find_id_positions(boxes["image"].to_numpy()[::step], images["id"].to_numpy())
    sizes = images[["width", "height"]].to_numpy(dtype=np.float64)
    box, size = boxes[_SIDES].to_numpy()[::step], sizes[place] if len(sizes) else np.zeros((len(place), 2))
    is_known = (place >= 0) & (size > 2).all(axis=1) & np.isfinite(box).all(axis=1)
    box, size = box[is_known], size[is_known]
    if not len(box):
        return boxes, ""
    is_share = bool((np.abs(box) <= 1.001).mean() > 0.99)
    if is_share:
        box = box * np.tile(size, 2)
    area = np.full(len(box), np.nan) if areas is None else areas.to_numpy()[::step][is_known]
    fits = {form: _fit(read(box), size, area) for form, read in _FORMS.items()}
    found = _choose(stage, item, boxes[::step][is_known], fits)
    if is_share:
        every = sizes[find_id_positions(boxes["image"].to_numpy(), images["id"].to_numpy())]
        boxes = boxes.assign(**dict(zip(_SIDES, (boxes[_SIDES].to_numpy() * np.tile(every, 2)).T, strict=True)))
    if found != "xywh":
        boxes = boxes.assign(**dict(zip(_SIDES, _FORMS[found](boxes[_SIDES].to_numpy()).T, strict=True)))
    return boxes, found + (" as shares of the image" if is_share else "")


def _fit(box: FloatArray, size: FloatArray, area: FloatArray) -> tuple[BoolArray, float]:
    """Return which boxes have an extent and stay in their image (also in an image turned by 90 degrees), and the share
    of the boxes with a stated area that match it."""
    ends, slack = box[:, :2] + box[:, 2:], _SLACK * size.max(axis=1, keepdims=True) + 1
    stays = [(ends <= one + slack).all(axis=1) for one in (size, size[:, ::-1])]
    is_inside = (stays[0] | stays[1]) & (box[:, :2] >= -slack).all(axis=1) & (box[:, 2:] > 0).all(axis=1)
    is_stated = area > 0
    is_same = np.isclose(box[:, 2] * box[:, 3], area, rtol=0.02, atol=1)
    return is_inside, float(is_same[is_stated].mean()) if is_stated.any() else 0.0


def _choose(stage: str, item: str, boxes: pd.DataFrame, fits: dict[str, tuple[BoolArray, float]]) -> str:
    options = find_table_options()
    counts = {form: int(is_inside.sum()) for form, (is_inside, _) in fits.items()}
    if options.boxes is not None and counts[options.boxes] >= counts["xywh"]:
        return options.boxes
    is_out, areas = ~fits["xywh"][0], {form: share for form, (_, share) in fits.items()}
    best = max(fits, key=lambda form: (areas[form] > 0.9, counts[form]))
    has_other_area = areas["xywh"] < 0.5 and areas[best] > 0.9
    if not has_other_area and is_out.sum() <= max(2, options.bad_rows * len(is_out)):
        return "xywh"
    rows: Ints = np.flatnonzero(is_out if is_out.any() else np.ones(len(is_out), dtype=bool))[:3]
    few = zip(boxes["image"].iloc[rows], boxes[_SIDES].iloc[rows].to_numpy(), strict=True)
    shown = "; ".join(f"image {image}: {', '.join(f'{side:g}' for side in sides)}" for image, sides in few)
    reason = f"{is_out.sum():,} of {len(is_out):,} boxes leave their image if read as x, y, width, height ({shown})"
    reason += ", and their `area` does not match" if has_other_area else ""
    next_step = f"clip them, or accept them with tables.bad_rows: {np.ceil(100 * is_out.mean()) / 100:g}"
    if (best != "xywh" and counts[best] > counts["xywh"]) or has_other_area:
        next_step = f"{counts[best]:,} fit when read as {best}: set tables.boxes: {best}"
    raise UserError(stage, item, reason, next_step)
