"""The part of an image inside bars and borders of one colour, or inside bars of its own blurred surroundings."""

from collections.abc import Sequence

import numpy as np

from builders.array_types import FloatArray, GreyImage, RowIndices

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
    them, which is often a mix of both. Images of one size are looked at together, which is faster."""
    boxes: dict[int, ContentBox] = {}
    for shape in {image.shape for image in images}:
        places = [place for place, image in enumerate(images) if image.shape == shape]
        stacked = np.stack([images[place] for place in places])
        columns, rows = _blurred_bars(stacked.transpose(0, 2, 1)), _blurred_bars(stacked)
        for place, is_framed, across, down in zip(places, _have_even_edges(stacked), columns, rows, strict=True):
            whole = across, down, shape[1] - across, shape[0] - down
            boxes[place] = _find_framed_content(images[place]) if is_framed else whole
    return [boxes[place] for place in range(len(images))]


def _have_even_edges(stacked: GreyImage) -> list[bool]:
    """Returns for each image whether a line at its edge is of one colour."""
    spreads = [np.ptp(lines, axis=2) for lines in (stacked[:, [0, -1]], stacked[:, :, [0, -1]].transpose(0, 2, 1))]
    return [bool(value <= _EVEN) for value in np.concatenate(spreads, axis=1).min(axis=1)]


def _find_framed_content(grey: GreyImage) -> ContentBox:
    left, top, right, bottom = _inside_uniform_borders(grey)
    content = grey[None, top:bottom, left:right]
    (across,), (down,) = _blurred_bars(content.transpose(0, 2, 1)), _blurred_bars(content)
    return left + across, top + down, right - across, bottom - down


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


def _blurred_bars(stacked: GreyImage) -> list[int]:
    """Returns for each image (count, lines, pixels) the number of lines to remove at both ends: up to a step from one
    line to the next that is far larger than all before it, at the same distance from both ends."""
    bars = np.zeros(len(stacked), np.intp)
    least, most = (max(low, round(share * stacked.shape[1])) for low, share in zip((3, 0), _BAR, strict=True))
    if most <= least:
        return bars.tolist()
    sampled = stacked[:, :, ::_BAR_STRIDE]
    roughness = np.abs(np.diff(sampled[:, : least + 1].astype(np.int16), axis=1)).sum(axis=(1, 2))
    smooth = np.flatnonzero(roughness < _SMOOTH * least * sampled.shape[2])  # not so in most photos
    if len(smooth):
        steps = np.abs(np.diff(sampled[smooth].astype(np.int16), axis=1)).mean(axis=2)  # between a line and the next
        before, after = _first_steps(steps[:, :most]), _first_steps(steps[:, ::-1][:, :most])
        is_bar = (np.minimum(before, after) >= least) & (np.abs(before - after) <= 2)
        bars[smooth] = np.where(is_bar, np.maximum(before, after) + 1, 0)
    return bars.tolist()


def _first_steps(steps: FloatArray) -> RowIndices:
    """Returns for each image (count, steps) the number of lines before the first large step; 0 if there is none."""
    earlier = np.pad(steps[:, :-2], ((0, 0), (2, 0)))  # a step may take two lines
    is_large = (steps >= _STEP) & (steps >= _TIMES * np.maximum.accumulate(earlier, axis=1))
    counts: RowIndices = np.where(is_large.any(axis=1), is_large.argmax(axis=1) + 1, 0)
    return counts
