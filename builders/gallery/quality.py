"""Four quality scores of an image, each 0 to 1, from a small grey copy.

They hardly depend on the size of the image or of the copy: distances between pixels are shares of the longer side. The
thresholds come from 249 photos of cameras and phones, the same photos blurred, darkened and washed out, and 33 pages,
screens and charts.

brightness  Mean luma (Rec. 601, as stored). Below 0.1 (photos: 98% above 0.14) and above 0.9 little is visible.
contrast    Standard deviation of luma as a share of the maximum (half black, half white). Below 0.05 nearly
            uniform (photos: 98% above 0.16).
sharpness   How fast grey values differ with distance: sqrt(1 - S(2d) / 4 S(d)), where S(d) is the mean squared
            difference of pixels d apart (Kolmogorov's structure function, 1941), and d is 1/160 of the longer side: 3.2
            px of 512. Across a blurred edge the difference doubles with the distance: 0. Edges that are crisp, near
            and far, make S grow like d: 0.71; fine texture more. Below 0.47 an image is blurred when seen at 512 px
            (photos: 98% above 0.49; with a Gaussian blur of 3 px of 512: 98% below 0.46).
flatness    Geometric mean of two shares: exactly equal neighbours among all, hard steps among the steps there are. A
            page or a screenshot has both; a sky has neither, since its shades vary. Above 0.45 it is one (pages and
            screens: all above 0.47; photos: 98% below 0.43, the others have a blank white background).
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from builders.array_types import GreyImage

Steps = NDArray[np.int16]
Squares = NDArray[np.uint16]

_LONGER = 160  # px: in an image of this size the distance d is one pixel
_DISTANCES = (1, 2, 4)  # px
_REACH = max(_DISTANCES)
# The sampled rows, as shares of the height: by the golden section, so that they match no regular pattern.
_ROWS = np.sort(np.arange(40) * ((5**0.5 - 1) / 2) % 1)
_STEP, _HARD = 2, 24  # grey levels: less than a step is noise; a hard step is an edge


class QualityScores(NamedTuple):
    """Scores, each 0 to 1; the module describes low and high values."""

    brightness: float
    contrast: float
    sharpness: float
    flatness: float


def compute_quality_scores(grey: GreyImage) -> QualityScores:
    """Returns the scores of a grey image (height, width), at most 320 each; its longer side should be 160 px or more
    unless the original is smaller."""
    everywhere, *stepped = grey.take(_places(len(grey)), axis=0).astype(np.int16)
    mean = int(_sums(everywhere, None)) / everywhere.size
    variance = max(0.0, int(_sums(_squares(everywhere), None)) / everywhere.size - mean * mean)
    squares = _squares(_steps(stepped if len(grey) > _REACH else [rows[:0] for rows in stepped]))
    sums = _sums(squares, (1, 2)).tolist()
    one, two, four = (across + down for across, down in zip(sums[:3], sums[3:], strict=True))
    sharpness = _sharpness(one, two, four, max(grey.shape) / _LONGER)
    flatness = _flatness(np.maximum(squares[0], squares[3]))
    return QualityScores(mean / 255, math.sqrt(variance) / 127.5, sharpness, flatness)


@lru_cache(maxsize=320)
def _places(height: int) -> NDArray[np.int64]:
    """Returns row numbers (5, rows): sampled rows, sampled rows with space for steps down, and those at each step."""
    above = (_ROWS * max(0, height - _REACH)).astype(np.int64)
    below = np.minimum(above + np.array([0, *_DISTANCES])[:, None], height - 1)
    return np.vstack([(_ROWS * height).astype(np.int64), below])


def _steps(rows: list[Steps]) -> Steps:
    """Returns the differences (6, rows, columns) to the pixels at the distances to the right, then below; empty for an
    image smaller than the distances."""
    width = max(0, rows[0].shape[1] - _REACH)
    here = rows[0][:, :width]
    steps = np.empty((2 * len(_DISTANCES), *here.shape), np.int16)
    for place, (distance, below) in enumerate(zip(_DISTANCES, rows[1:], strict=True)):
        np.subtract(rows[0][:, distance : distance + width], here, out=steps[place])
        np.subtract(below[:, :width], here, out=steps[place + len(_DISTANCES)])
    return steps


def _squares(values: Steps) -> Squares:
    """Returns the squares, at most 255 * 255, which fit into unsigned 16 bits."""
    return np.square(values).view(np.uint16)


def _sums(values: Steps | Squares, axis: tuple[int, ...] | None) -> Any:
    """Returns sums below 2^32: integers, the same on every machine."""
    return np.add.reduce(values, axis=axis, dtype=np.uint32)


def _sharpness(one: int, two: int, four: int, distance: float) -> float:
    if not (one and two and four):
        return 0.0  # uniform, or too small to say
    ratio = _between(one, two, four, 2 * distance) / _between(one, two, four, distance)
    return math.sqrt(max(0.0, 1 - ratio / 4))


def _between(one: int, two: int, four: int, distance: float) -> float:
    """Returns the difference at a distance up to 4 px, interpolated by a power; below a pixel the image is linear."""
    if distance < 1:
        return one * distance * distance
    near, far, share = (one, two, math.log2(distance)) if distance < 2 else (two, four, math.log2(distance / 2))
    return float(near * (far / near) ** min(1.0, share))


def _flatness(squares: Squares) -> float:
    """Returns the flatness from squared steps, the larger of right and below; 1 for a uniform image, such as a page."""
    stepped = np.count_nonzero(squares >= _STEP * _STEP)
    flat = 1 - np.count_nonzero(squares) / max(1, squares.size)
    return math.sqrt(flat * np.count_nonzero(squares >= _HARD * _HARD) / stepped) if stepped else 1.0
