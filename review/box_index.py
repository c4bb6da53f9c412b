"""The boxes that a card draws over an image."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from builders.array_types import FloatArray

_SIDES = ("left", "top", "right", "bottom")
BoxData = dict[str, Any]


class BoxIndex:
    """An index of a set's boxes by image. `render_mode`: how the images were rendered, which decides where a box of
    the source lies in the image shown."""

    def __init__(self, boxes: pd.DataFrame, render_mode: str | None) -> None:
        inside = boxes[boxes[list(_SIDES)].ge(0).all(axis=1) & boxes[list(_SIDES)].le(1).all(axis=1)]
        self._boxes, self._render_mode = inside, render_mode
        self._rows = inside.groupby("image_id", observed=True).indices if len(inside) else {}
        self._counts_for = {str(text): _parse_labels(str(text)) for text in inside["counts_for"].unique()}

    def list_boxes(self, image_id: str, size: tuple[int, int], labels: Sequence[str]) -> list[BoxData]:
        """Return the boxes of an image of this size (of the source) that count for one of a query's labels: `label` is
        what is marked, `place` the number of the query's label, `sides` are shares of the image shown, `score` is a
        detector's. Those of detectors are last, the surest first."""
        rows = self._boxes.iloc[self._rows.get(image_id, [])]
        found = []
        for row in rows.itertuples():
            asked = [place for place, label in enumerate(labels) if label in self._counts_for[str(row.counts_for)]]
            if asked:
                sides = place_sides(np.array([row.left, row.top, row.right, row.bottom]), size, self._render_mode)
                score = None if pd.isna(row.score) else round(float(row.score), 3)
                shown = [round(float(side), 4) for side in sides]
                found.append({"label": str(row.label), "place": asked[0], "sides": shown, "score": score})
        return sorted(found, key=lambda box: (box["score"] is not None, -(box["score"] or 0)))


def _parse_labels(text: str) -> list[Any]:
    """Return the labels of a stored list; none where another publisher stored something else."""
    try:
        labels = json.loads(text)
    except ValueError:
        return []
    return labels if isinstance(labels, list) else []


def place_sides(sides: FloatArray, size: tuple[int, int], render_mode: str | None) -> FloatArray:
    """Return left, top, right and bottom as shares of the rendered image. `fit` puts bars beside an image, `crop` cuts
    it: sides beyond the cut are at the edge. Other modes leave shares as they are."""
    width, height = size
    if render_mode not in ("fit", "crop") or not width or not height:
        return sides
    square = max(size) if render_mode == "fit" else min(size)
    extents = np.array([width, height, width, height]) / square
    placed: FloatArray = (1 - extents) / 2 + sides * extents
    return np.clip(placed, 0, 1)
