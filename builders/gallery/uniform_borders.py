"""The part of an image inside bars and borders of one colour, or inside bars of its own blurred surroundings."""

from collections.abc import Sequence

import numpy as np

from builders.array_types import FloatArray, GreyImage

ContentBox = tuple[int, int, int, int]  # left, top, right, bottom, in pixels

_EVEN = 16  # grey levels between the darkest and the lightest pixel of a border's line: noise of JPEG
_STRIDE, _BAR_STRIDE = 3, 8  # of the pixels of a line that are looked at, in borders and in blurred bars
_SAME = 6.0  # grey levels between the mean of a border's line and that of the outermost one
_BAR = 0.04, 0.45  # of a side that a blurred bar may take at each end
_STEP, _TIMES = 5.0, 2.5  # grey levels from a blurred bar to the content, and how many times those inside the bar
_SMOOTH = 3.0  # grey levels between neighbouring lines in a blurred bar, at most
_LEAST_SHARE = 0.2  # of a side that is content; otherwise nothing is removed from it


def find_content_boxes(images: Sequence[GreyImage]) -> list[ContentBox]:
    """Returns the box of each grey image (height, width) without its borders, and without the line next to each of
    them, which is often a mix of both. The edges of all images, on which it depends for most, are looked at together,
    which is faster."""
    if not images:
        return []
    columns, rows = _have_smooth_edges([image.T for image in images]), _have_smooth_edges(images)
    return [
        _find_framed_content(image) if is_framed else _find_inside_bars(image, across, down)
        for image, is_framed, across, down in zip(images, _have_even_edges(images), columns, rows, strict=True)
    ]


def _have_even_edges(images: Sequence[GreyImage]) -> list[bool]:
    """Returns for each image whether a line at its edge is of one colour."""
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
    """Returns the box inside borders of one colour: rows first, then columns, and both again, for frames in bars."""
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
    """Returns the number of lines to remove at the beginning."""
    if np.ptp(lines[0]) > _EVEN:
        return 0
    is_even = np.ptp(lines, axis=1) <= _EVEN
    means: FloatArray = lines.mean(axis=1)
    is_border = is_even & (np.abs(means - means[0]) <= _SAME)
    count: int = int(np.argmin([*is_border.tolist(), False]))
    return count + 1 if count < len(lines) else count


def _have_smooth_edges(images: Sequence[GreyImage]) -> list[bool]:
    """Returns for each image (lines, pixels) whether blurred bars are possible: its first lines hardly differ, as in
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
    """Returns how many lines a blurred bar has at least and at most."""
    least, most = _BAR
    return max(3, round(least * lines)), round(most * lines)


def _blurred_bar(grey: GreyImage) -> int:
    """Returns the number of lines of an image (lines, pixels) to remove at both ends: up to a step from one line to the
    next that is far larger than all before it, at the same distance from both ends."""
    least, most = _bar_limits(len(grey))
    if most <= least:
        return 0
    sampled = grey[:, ::_BAR_STRIDE].astype(np.int16)
    steps = np.abs(np.diff(sampled, axis=0)).mean(axis=1)  # between a line and the next
    before, after = _first_step(steps[:most]), _first_step(steps[::-1][:most])
    return max(before, after) + 1 if min(before, after) >= least and abs(before - after) <= 2 else 0


def _first_step(steps: FloatArray) -> int:
    """Returns the number of lines before the first large step; 0 if there is none."""
    earlier = np.pad(steps[:-2], (2, 0))  # a step may take two lines
    is_large = (steps >= _STEP) & (steps >= _TIMES * np.maximum.accumulate(earlier))
    return int(is_large.argmax()) + 1 if is_large.any() else 0
