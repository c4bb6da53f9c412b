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
from typing import NamedTuple

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


def compute_quality_scores(stacked: GreyImage) -> list[QualityScores]:
    """Returns the scores of grey images of one size (images, height, width), at most 320 x 320; together they take two
    thirds of the time. The longer side should be 160 px or more unless the original is smaller."""
    height, width = stacked.shape[1:]
    sampled = stacked.take(_places(height), axis=1).astype(np.int16)
    everywhere, stepped = sampled[:, 0], sampled[:, 1:] if height > _REACH else sampled[:, 1:, :0]
    pixels = everywhere[0].size
    means = (_sums(everywhere) / pixels).tolist()
    mean_squares = (_sums(_squares(everywhere)) / pixels).tolist()
    squares = _squares(_steps(stepped))
    sums = squares.sum(axis=(2, 3), dtype=np.uint32)
    sums_by_distance = (sums[:, : len(_DISTANCES)] + sums[:, len(_DISTANCES) :]).tolist()
    flatness = _flatness(np.maximum(squares[:, 0], squares[:, len(_DISTANCES)]))
    contrasts = [
        math.sqrt(max(0.0, square - mean * mean)) / 127.5 for square, mean in zip(mean_squares, means, strict=True)
    ]
    sharpness = [_sharpness(one, two, four, max(height, width) / _LONGER) for one, two, four in sums_by_distance]
    each = zip(means, contrasts, sharpness, flatness, strict=True)
    return [QualityScores(mean / 255, contrast, sharp, flat) for mean, contrast, sharp, flat in each]


@lru_cache(maxsize=320)
def _places(height: int) -> NDArray[np.int64]:
    """Returns row numbers (5, rows): sampled rows, sampled rows with space for steps down, and those at each step."""
    above = (_ROWS * max(0, height - _REACH)).astype(np.int64)
    below = np.minimum(above + np.array([0, *_DISTANCES])[:, None], height - 1)
    return np.vstack([(_ROWS * height).astype(np.int64), below])


def _steps(rows: Steps) -> Steps:
    """Returns the differences (images, 6, rows, columns) to the pixels at the distances to the right, then below, of
    the sampled rows and of those at each distance below them (images, 4, rows, columns); empty for images smaller than
    the distances."""
    width = max(0, rows.shape[3] - _REACH)
    here = rows[:, 0, :, :width]
    steps = np.empty((len(rows), 2 * len(_DISTANCES), *here.shape[1:]), np.int16)
    for place, distance in enumerate(_DISTANCES):
        np.subtract(rows[:, 0, :, distance : distance + width], here, out=steps[:, place])
    np.subtract(rows[:, 1:, :, :width], here[:, None], out=steps[:, len(_DISTANCES) :])
    return steps


def _squares(values: Steps) -> Squares:
    """Returns the squares, at most 255 * 255, which fit into unsigned 16 bits."""
    return np.square(values).view(np.uint16)


def _sums(values: Steps | Squares) -> NDArray[np.uint32]:
    """Returns the sum of each image, below 2^32: integers, the same on every machine."""
    sums: NDArray[np.uint32] = values.sum(axis=(1, 2), dtype=np.uint32)
    return sums


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


def _flatness(squares: Squares) -> list[float]:
    """Returns the flatness of each image from squared steps (images, rows, columns), the larger of right and below; 1
    for a uniform image, such as a page."""
    pixels = max(1, squares[0].size)
    # Image by image: with an axis, count_nonzero adds up integers.
    counts = [map(np.count_nonzero, squares >= least) for least in (1, _STEP**2, _HARD**2)]
    return [
        math.sqrt((1 - changed / pixels) * hard / stepped) if stepped else 1.0
        for changed, stepped, hard in zip(*counts, strict=True)
    ]
