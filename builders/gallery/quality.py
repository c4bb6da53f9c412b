"""Four figures, each 0 to 1, by which a gallery's poor pictures are found, from the small grey picture alone.

They hardly depend on a picture's size, nor on how far it was reduced: steps between pixels are taken at distances that
are shares of the longer side. The cuts come from 249 photos of cameras and phones, the same blurred, darkened and
washed out, and 33 drawn pages, screens and charts.

brightness  Mean luma (Rec. 601, as stored). Below 0.1 little is seen (photos: 98% above 0.14), above 0.9 as little.
contrast    Standard deviation of luma as a share of the most there is (half black, half white). Below 0.05 nearly
            uniform (photos: 98% above 0.16).
sharpness   How fast grey values part with distance: sqrt(1 - S(2d) / 4 S(d)), where S(d) is the mean squared difference
            of pixels d apart (Kolmogorov's structure function, 1941), and d is 1/160 of the longer side: 3.2 px of 512.
            Across a blurred edge the difference doubles with the distance: 0. Edges that are crisp, near and far,
            make S grow like d: 0.71; fine texture more. Below 0.47 a picture is blurred as it would be seen at 512 px
            (photos: 98% above 0.49; with a Gaussian blur of 3 px of 512: 98% below 0.46).
flatness    Geometric mean of two shares: exactly equal neighbours among all, hard steps among the steps there are. A
            page or a screenshot has both; a sky has neither, since its shades run. Above 0.45 it is one (pages and
            screens: all above 0.47; photos: 98% below 0.43, the rest stand before blank white).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

Grey = np.ndarray[Any, np.dtype[np.uint8]]

_LONGER = 160  # px: the distance d is one pixel of a picture so large
_DISTANCES = (1, 2, 4)  # px
_REACH = max(_DISTANCES)
# The rows looked at, as shares of the height: by the golden section, so that no even pattern falls in step with them.
_ROWS = np.sort(np.arange(40) * ((5**0.5 - 1) / 2) % 1)
_STEP, _HARD = 2, 24  # grey levels: less than a step is noise; a hard step is an edge


class Scores(NamedTuple):
    """Each 0 to 1; see the module for what is low and what is high."""

    brightness: float
    contrast: float
    sharpness: float
    flatness: float


def quality_scores(grey: Grey) -> Scores:
    """The scores of a grey picture (height x width); as it is meant, its longer side is 160 to 320 px, or smaller."""
    rows = grey.take(_places(grey.shape[0]), axis=0)
    mean = int(np.add.reduce(rows, axis=None, dtype=np.uint64)) / rows.size
    variance = max(0.0, int(_squares(rows, None)) / rows.size - mean * mean)
    steps = _steps(grey)
    return Scores(mean / 255, math.sqrt(variance) / 127.5, _sharpness(steps, max(grey.shape)), _flatness(steps))


def _places(height: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return (_ROWS * height).astype(np.int64)


def _squares(values: Grey, axis: tuple[int, ...] | None) -> Any:
    """Sums of squares: whole numbers, the same on every machine."""
    return np.add.reduce(np.square(values, dtype=np.uint16), axis=axis, dtype=np.uint64)


def _steps(grey: Grey) -> Grey:
    """Differences to the pixels at the distances to the right, then below (6 x rows x columns); none in a picture
    smaller than these."""
    height, width = (max(0, side - _REACH) for side in grey.shape)
    rows = _places(height) if height else np.empty(0, np.int64)
    whole = grey.take(rows, axis=0)
    here = whole[:, :width]
    there = np.empty((2 * len(_DISTANCES), *here.shape), np.uint8)
    for place, distance in enumerate(_DISTANCES):
        there[place] = whole[:, distance : distance + width]
        there[place + len(_DISTANCES)] = grey.take(rows + distance, axis=0)[:, :width]
    return np.maximum(there, here) - np.minimum(there, here)


def _sharpness(steps: Grey, longer: int) -> float:
    one, two, four = _squares(steps, (1, 2)).reshape(2, 3).sum(axis=0).tolist()
    if not (one and two and four):
        return 0.0  # uniform, or too small to say
    distance = longer / _LONGER
    ratio = _between(one, two, four, 2 * distance) / _between(one, two, four, distance)
    return math.sqrt(max(0.0, 1 - ratio / 4))


def _between(one: int, two: int, four: int, distance: float) -> float:
    """The difference at a distance up to 4 px: it grows like a power; within a pixel an enlarged picture is a ramp."""
    if distance < 1:
        return one * distance * distance
    near, far, share = (one, two, math.log2(distance)) if distance < 2 else (two, four, math.log2(distance / 2))
    return float(near * (far / near) ** min(1.0, share))


def _flatness(steps: Grey) -> float:
    """1 for a uniform picture: a blank page is a page."""
    step = np.maximum(steps[0], steps[3])
    stepped = np.count_nonzero(step >= _STEP)
    flat = np.count_nonzero(step == 0) / max(1, step.size)
    return math.sqrt(flat * np.count_nonzero(step >= _HARD) / stepped) if stepped else 1.0
