"""Two images that may be edited copies: the scale and shift that maps the patches of one onto those of the other, and a
comparison of their aligned thumbnails, pixel by pixel."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from builders.array_types import BoolArray, FloatArray
from builders.gallery.patch_hashes import PATCH_SIDES, THUMBNAIL_FACTOR

LEAST_MATCHING_SHARE = 0.67  # of the blocks of pixels that both images show
_LEAST_INSIDE = 0.85  # of one image that the other shows, too
_LEAST_SHOWN = 0.3  # of the other one
_NEAR_BITS = 10  # of two patches that may be the same
_LEAST_PATCHES = 3  # that one scale and shift maps onto each other
_FAR, _CLOSE = 5.0, 2.5  # px of the guide images that a point may be off, before and after the fit
_LEAST_SPREAD = 50.0  # px squared: nearer points say less of the scale than the sizes of their patches
_BLOCK = 4  # px of the thumbnails
_FLAT = 5.0  # grey levels: standard deviation of a block without structure
_SAME_SHADE = 16.0  # grey levels between blocks without structure
_CORRELATION = 0.8  # of two blocks that show the same
_SIDES = np.array(PATCH_SIDES, dtype=np.float64)

Thumbnail = NDArray[np.float64]


class ImagePatches(NamedTuple):
    """An image's points (n, 2), hashes (n, sizes), thumbnail, and whether it has borders."""

    points: FloatArray
    hashes: NDArray[np.uint64]
    thumbnail: Thumbnail
    has_borders: bool


class PatchAlignment(NamedTuple):
    """`scale` and `shift` (2,): from the points of one image to those of another, in pixels of the guide images."""

    scale: float
    shift: FloatArray


class EditEvidence(NamedTuple):
    """How two images agree: the share of matching blocks among those that both show, and what was edited: border, crop,
    overlay, joined by +; "copy" where none of these shows."""

    matching_share: float
    edit: str


def patch_distances(ones: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Returns the distances in bits (..., patches, patches, sizes * sizes) of hashes (..., patches, sizes); 255 where a
    hash is 0."""
    one, other = ones[..., :, None, :, None], others[..., None, :, None, :]
    bits = np.where((one == 0) | (other == 0), np.uint8(255), np.bitwise_count(one ^ other))
    distances: NDArray[np.uint8] = bits.reshape(*bits.shape[:-2], -1)
    return distances


def compare_edited(one: ImagePatches, other: ImagePatches) -> EditEvidence | None:
    """Returns the evidence that two images are edited copies of one photo; None where they are not."""
    alignment = align_patches(one, other)
    return alignment and _compare_thumbnails(one, other, alignment)


def align_patches(one: ImagePatches, other: ImagePatches) -> PatchAlignment | None:
    """Returns the scale and shift on which most patches agree; None where fewer than three do."""
    bits = patch_distances(one.hashes, other.hashes)
    ones, others = np.nonzero(bits.min(axis=2) <= _NEAR_BITS)
    if len(ones) < _LEAST_PATCHES:
        return None
    sizes, other_sizes = np.divmod(bits[ones, others].argmin(axis=1), len(_SIDES))
    scales = _SIDES[other_sizes] / _SIDES[sizes]
    points, targets = one.points[ones], other.points[others]
    shifts = targets - scales[:, None] * points
    off = np.abs(scales[:, None, None] * points + shifts[:, None] - targets).max(axis=2)  # (hypotheses, matches)
    best = int(np.argmax((off <= _FAR).sum(axis=1)))
    fitted = PatchAlignment(float(scales[best]), shifts[best])
    is_inlier = off[best] <= _FAR
    for limit in (_CLOSE, _CLOSE):
        fitted = _fit(points[is_inlier], targets[is_inlier], fitted)
        is_inlier = np.abs(fitted.scale * points + fitted.shift - targets).max(axis=1) <= limit
        if min(len(set(side[is_inlier].tolist())) for side in (ones, others)) < _LEAST_PATCHES:
            return None
    return fitted


def _fit(points: FloatArray, targets: FloatArray, known: PatchAlignment) -> PatchAlignment:
    """Returns the least-squares fit."""
    centre, target = points.mean(axis=0), targets.mean(axis=0)
    spread = float(((points - centre) ** 2).sum())
    is_spread = spread >= _LEAST_SPREAD * len(points)
    scale = float(((points - centre) * (targets - target)).sum()) / spread if is_spread else known.scale
    return PatchAlignment(scale, target - scale * centre)


def _compare_thumbnails(one: ImagePatches, other: ImagePatches, alignment: PatchAlignment) -> EditEvidence | None:
    scale, middle = alignment.scale, (THUMBNAIL_FACTOR - 1) / 2
    if not 0.5 < scale < 2:
        return None
    shift = (alignment.shift + (scale - 1) * middle) / THUMBNAIL_FACTOR  # in pixels of the thumbnails
    sampled = [
        _sample_axis(scale * np.arange(one.thumbnail.shape[axis]) + shift[axis], other.thumbnail.shape[axis])
        for axis in (0, 1)
    ]
    rows, columns = (np.flatnonzero(inside) for _, _, inside in sampled)
    if min(len(rows), len(columns)) < 2 * _BLOCK:
        return None
    seen = one.thumbnail[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    shares = seen.size / one.thumbnail.size, min(1.0, seen.size * scale**2 / other.thumbnail.size)
    if max(shares) < _LEAST_INSIDE or min(shares) < _LEAST_SHOWN:
        return None
    (down, low, _), (right, left, _) = sampled
    warped = _interpolate(other.thumbnail, down[rows], low[rows])
    warped = _interpolate(warped.T, right[columns], left[columns]).T
    share = _matching_share(seen, warped)
    if share < LEAST_MATCHING_SHARE:
        return None
    edits = [("border", one.has_borders != other.has_borders), ("crop", min(shares) < 0.95), ("overlay", share < 0.97)]
    return EditEvidence(share, "+".join(name for name, applies in edits if applies) or "copy")


def _sample_axis(places: FloatArray, length: int) -> tuple[Any, FloatArray, BoolArray]:
    """Returns the pixel before each place, the weight of the next one, and whether the place is in the image."""
    before = np.clip(np.floor(places).astype(np.int64), 0, length - 2)
    return before, places - before, (places >= -0.5) & (places <= length - 0.5)


def _interpolate(lines: Thumbnail, before: Any, weight: FloatArray) -> Thumbnail:
    mixed: Thumbnail = lines[before] * (1 - weight[:, None]) + lines[before + 1] * weight[:, None]
    return mixed


def _matching_share(one: Thumbnail, other: Thumbnail) -> float:
    """Returns the share of blocks that show the same."""
    first, second = _blocks(one), _blocks(other)
    means = first.mean(axis=1), second.mean(axis=1)
    first, second = first - means[0][:, None], second - means[1][:, None]
    deviations = first.std(axis=1), second.std(axis=1)
    products = (first * second).mean(axis=1)
    is_flat = np.maximum(*deviations) < _FLAT
    shade = np.median(means[1] - means[0])
    is_same_shade = np.abs(means[1] - means[0] - shade) <= _SAME_SHADE
    is_alike = products >= _CORRELATION * deviations[0] * deviations[1]
    return float(np.where(is_flat, is_same_shade, is_alike & (np.minimum(*deviations) > 0)).mean())


def _blocks(image: Thumbnail) -> FloatArray:
    """Returns the blocks (n, pixels) of an image, without what is left at its ends."""
    height, width = (side // _BLOCK for side in image.shape)
    whole = image[: height * _BLOCK, : width * _BLOCK].reshape(height, _BLOCK, width, _BLOCK)
    return whole.transpose(0, 2, 1, 3).reshape(height * width, -1)
