"""Four quality scores of an image, and the part inside bars and borders, from a small copy of it.

Borders have one colour; bars may show the image's own blurred surroundings.

The scores, each from 0 to 1 and computed on a grey copy, hardly depend on the size of the image or of the copy:
distances between pixels are shares of the longer side. The thresholds come from 249 photos of cameras and phones, the
same photos blurred, darkened and washed out, and 33 pages, screens and charts.

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
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from querytruth.array_types import FloatArray, GreyImage

Steps = NDArray[np.int16]
Squares = NDArray[np.uint16]

_LONGER = 160  # px: in an image of this size the distance d is one pixel
_DISTANCES = (1, 2, 4)  # px
_REACH = max(_DISTANCES)
# The sampled rows, as shares of the height: by the golden section, so that they match no regular pattern.
_ROWS = np.sort(np.arange(40) * ((5**0.5 - 1) / 2) % 1)
_STEP, _HARD = 2, 24  # grey levels: less than a step is noise; a hard step is an edge
ContentBox = tuple[int, int, int, int]  # left, top, right, bottom, in pixels

_EVEN = 16  # grey levels between the darkest and the lightest pixel of a border's line: noise of JPEG
_STRIDE, _BAR_STRIDE = 3, 8  # of the pixels of a line that are looked at, in borders and in blurred bars
_SAME = 6.0  # grey levels between the mean of a border's line and that of the outermost one
_BAR = 0.04, 0.45  # of a side that a blurred bar may take at each end
_BAR_STEP, _TIMES = 5.0, 2.5  # grey levels from a blurred bar to the content, and how many times those inside the bar
_SMOOTH = 3.0  # grey levels between neighbouring lines in a blurred bar, at most
_LEAST_SHARE = 0.2  # of a side that is content; otherwise nothing is removed from it
SAMPLES = 64  # px: the side of the image that colours are taken from
DETAIL_SIDE = 32  # px
LEAST_FLATNESS, FLAT = 0.12, 0.25  # of images whose details are kept, and of those that are pages or screens


class QualityScores(NamedTuple):
    """Scores, each 0 to 1; the module describes low and high values."""

    brightness: float
    contrast: float
    sharpness: float
    flatness: float


def compute_quality_scores(stacked: GreyImage) -> list[QualityScores]:
    """Return the scores of grey images of one size (images, height, width), at most 320 x 320; together they take two
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
    """Return row numbers (5, rows): sampled rows, sampled rows with space for steps down, and those at each step."""
    above = (_ROWS * max(0, height - _REACH)).astype(np.int64)
    below = np.minimum(above + np.array([0, *_DISTANCES])[:, None], height - 1)
    return np.vstack([(_ROWS * height).astype(np.int64), below])


def _steps(rows: Steps) -> Steps:
    """Return the differences (images, 6, rows, columns) to the pixels at the distances to the right, then below, of
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
    """Return the squares; at most 255 * 255, they fit into unsigned 16 bits."""
    return np.square(values).view(np.uint16)


def _sums(values: Steps | Squares) -> NDArray[np.uint32]:
    """Return the sum of each image, below 2^32: integers, the same on every machine."""
    sums: NDArray[np.uint32] = values.sum(axis=(1, 2), dtype=np.uint32)
    return sums


def _sharpness(one: int, two: int, four: int, distance: float) -> float:
    if not (one and two and four):
        return 0.0  # uniform, or too small to say
    ratio = _between(one, two, four, 2 * distance) / _between(one, two, four, distance)
    return math.sqrt(max(0.0, 1 - ratio / 4))


def _between(one: int, two: int, four: int, distance: float) -> float:
    """Return the difference at a distance up to 4 px, interpolated by a power; below a pixel the image is linear."""
    if distance < 1:
        return one * distance * distance
    near, far, share = (one, two, math.log2(distance)) if distance < 2 else (two, four, math.log2(distance / 2))
    return float(near * (far / near) ** min(1.0, share))


def _flatness(squares: Squares) -> list[float]:
    """Return the flatness of each image from squared steps (images, rows, columns), the larger of right and below; 1
    for a uniform image, such as a page."""
    pixels = max(1, squares[0].size)
    # Image by image: with an axis, count_nonzero adds up integers.
    counts = [map(np.count_nonzero, squares >= least) for least in (1, _STEP**2, _HARD**2)]
    return [
        math.sqrt((1 - changed / pixels) * hard / stepped) if stepped else 1.0
        for changed, stepped, hard in zip(*counts, strict=True)
    ]


def find_content_boxes(images: Sequence[GreyImage]) -> list[ContentBox]:
    """Return the box of each grey image (height, width) without its borders, and without the line next to each border,
    which is often a mix. For speed, the edges of all images are checked together."""
    if not images:
        return []
    columns, rows = _have_smooth_edges([image.T for image in images]), _have_smooth_edges(images)
    return [
        _find_framed_content(image) if is_framed else _find_inside_bars(image, across, down)
        for image, is_framed, across, down in zip(images, _have_even_edges(images), columns, rows, strict=True)
    ]


def _have_even_edges(images: Sequence[GreyImage]) -> list[bool]:
    """Return for each image whether a line at its edge has a single colour."""
    edges = np.empty((len(images), 4, max(max(image.shape) for image in images)), np.uint8)
    for lines, image in zip(edges, images, strict=True):
        for line, edge in zip(lines, (image[0], image[-1], image[:, 0], image[:, -1]), strict=True):
            line[: len(edge)] = edge
            line[len(edge) :] = edge[0]
    spreads = edges.max(axis=2) - edges.min(axis=2)
    is_even: list[bool] = (spreads <= _EVEN).any(axis=1).tolist()
    return is_even


def _find_framed_content(grey: GreyImage) -> ContentBox:
    left, top, right, bottom = _inside_uniform_borders(grey)
    content = grey[top:bottom, left:right]
    (is_smooth_across,), (is_smooth_down,) = _have_smooth_edges([content.T]), _have_smooth_edges([content])
    inner = _find_inside_bars(content, is_smooth_across, is_smooth_down)
    return left + inner[0], top + inner[1], left + inner[2], top + inner[3]


def _find_inside_bars(grey: GreyImage, is_smooth_across: bool, is_smooth_down: bool) -> ContentBox:
    across = _blurred_bar(grey.T) if is_smooth_across else 0
    down = _blurred_bar(grey) if is_smooth_down else 0
    return across, down, grey.shape[1] - across, grey.shape[0] - down


def _inside_uniform_borders(grey: GreyImage) -> ContentBox:
    """Return the box inside borders of one colour: rows first, then columns, and both again, for frames in bars."""
    left, top, right, bottom = 0, 0, grey.shape[1], grey.shape[0]
    for axis in (0, 1, 0, 1):
        lines = grey[top:bottom, left:right] if axis == 0 else grey[top:bottom, left:right].T
        sampled = lines[:, ::_STRIDE]
        before, after = _border(sampled), _border(sampled[::-1])
        if before + after > (1 - _LEAST_SHARE) * len(lines):
            continue
        if axis == 0:
            top, bottom = top + before, bottom - after
        else:
            left, right = left + before, right - after
    return left, top, right, bottom


def _border(lines: GreyImage) -> int:
    """Return the number of lines to remove at the beginning."""
    if np.ptp(lines[0]) > _EVEN:
        return 0
    is_even = np.ptp(lines, axis=1) <= _EVEN
    means: FloatArray = lines.mean(axis=1)
    is_border = is_even & (np.abs(means - means[0]) <= _SAME)
    count: int = int(np.argmin([*is_border.tolist(), False]))
    return count + 1 if count < len(lines) else count


def _have_smooth_edges(images: Sequence[GreyImage]) -> list[bool]:
    """Return for each image (lines, pixels) whether blurred bars are possible: its first lines hardly differ, as in
    few photos."""
    least = np.array([_bar_limits(len(image))[0] for image in images])
    counts = np.array([-(-image.shape[1] // _BAR_STRIDE) for image in images])
    sampled = np.zeros((len(images), least.max() + 1, counts.max()), np.int16)
    for place, image in enumerate(images):
        lines = image[: least[place] + 1, ::_BAR_STRIDE]
        sampled[place, : lines.shape[0], : lines.shape[1]] = lines
    roughness = np.abs(np.diff(sampled, axis=1)).sum(axis=2)
    roughness[np.arange(least.max()) >= least[:, None]] = 0  # lines that are no longer at the edge
    is_smooth: list[bool] = (roughness.sum(axis=1) < _SMOOTH * least * counts).tolist()
    return is_smooth


def _bar_limits(lines: int) -> tuple[int, int]:
    """Return how many lines a blurred bar has at least and at most."""
    least, most = _BAR
    return max(3, round(least * lines)), min(round(most * lines), (lines - 3) // 2)  # something is left between two


def _blurred_bar(grey: GreyImage) -> int:
    """Return the number of lines of an image (lines, pixels) to remove at both ends: up to a step from one line to the
    next that is far larger than all before it, at the same distance from both ends."""
    least, most = _bar_limits(len(grey))
    if most <= least:
        return 0
    sampled = grey[:, ::_BAR_STRIDE].astype(np.int16)
    steps = np.abs(np.diff(sampled, axis=0)).mean(axis=1)  # between a line and the next
    before, after = _first_step(steps[:most]), _first_step(steps[::-1][:most])
    return max(before, after) + 1 if min(before, after) >= least and abs(before - after) <= 2 else 0


def _first_step(steps: FloatArray) -> int:
    """Return the number of lines before the first large step, or 0."""
    earlier = np.pad(steps[:-2], (2, 0))  # a step may take two lines
    is_large = (steps >= _BAR_STEP) & (steps >= _TIMES * np.maximum.accumulate(earlier))
    return int(is_large.argmax()) + 1 if is_large.any() else 0
