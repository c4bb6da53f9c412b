"""The part of an image inside bars and borders of one colour, or inside bars of its own blurred surroundings."""

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


def find_content_box(grey: GreyImage) -> ContentBox:
    """Returns the box of a grey image (height, width) without its borders, and without the line next to each of them,
    which is often a mix of both."""
    left, top, right, bottom = _inside_uniform_borders(grey)
    content = grey[top:bottom, left:right]
    across, down = _blurred_bar(content.T), _blurred_bar(content)
    return left + across, top + down, right - across, bottom - down


def _inside_uniform_borders(grey: GreyImage) -> ContentBox:
    """Returns the box inside borders of one colour: rows first, then columns, and both again, for frames in bars."""
    left, top, right, bottom = 0, 0, grey.shape[1], grey.shape[0]
    if all(int(line.max()) - int(line.min()) > _EVEN for line in (grey[0], grey[-1], grey[:, 0], grey[:, -1])):
        return left, top, right, bottom
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


def _blurred_bar(lines: GreyImage) -> int:
    """Returns the number of lines to remove at both ends: up to a step from one line to the next that is far larger
    than all before it, at the same distance from both ends."""
    count = len(lines)
    least, most = max(3, round(_BAR[0] * count)), round(_BAR[1] * count)
    if most <= least:
        return 0
    sampled = lines[:, ::_BAR_STRIDE]
    first = sampled[: least + 1].astype(np.int16)
    if np.abs(first[1:] - first[:-1]).sum() >= _SMOOTH * least * first.shape[1]:  # as in most photos
        return 0
    steps = np.abs(np.diff(sampled.astype(np.int16), axis=0)).mean(axis=1)  # between a line and the next
    before, after = _first_step(steps[:most]), _first_step(steps[::-1][:most])
    is_bar = min(before, after) >= least and abs(before - after) <= 2
    return max(before, after) + 1 if is_bar else 0


def _first_step(steps: FloatArray) -> int:
    """Returns the number of lines before the first large step; 0 if there is none."""
    largest_before = np.maximum.accumulate(np.concatenate([[0.0, 0.0], steps[:-2]]))  # a step may take two lines
    is_large = (steps >= _STEP) & (steps >= _TIMES * largest_before)
    place = int(np.argmax(is_large))
    return place + 1 if is_large[place] else 0
