"""Two images that may be edited copies: the scale, turn and shift that maps the patches of one onto those of the other,
and a comparison of their aligned thumbnails, pixel by pixel.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from querytruth.array_types import BoolArray, FloatArray
from querytruth.backends.images.perceptual_hashes import PATCH_SIDES, THUMBNAIL_FACTOR

LEAST_MATCHING_SHARE = 0.67  # of the blocks of pixels that both images show
_LEAST_INSIDE = 0.85  # of one image that the other shows, too
_LEAST_SHOWN = 0.3  # of the other one
_NEAR_BITS = 10  # of two patches that may be the same
_LEAST_PATCHES = 3  # that one scale and shift maps onto each other
_FAR, _CLOSE = 5.0, 2.5  # px of the guide images that a point may be off, before and after the fit
_LEAST_SPREAD = 50.0  # px squared: nearer points say less of the scale than the sizes of their patches
_TURN = 0.09  # radians, 5 degrees: what people leave when they straighten a photo or copy it from paper
_BLOCK = 4  # px of the thumbnails
_FLAT = 5.0  # grey levels: standard deviation of a block without structure
_SAME_SHADE = 16.0  # grey levels between blocks without structure
_CORRELATION = 0.8  # of two blocks that show the same
_SIDES = np.array(PATCH_SIDES, dtype=np.float64)

Thumbnail = NDArray[np.float64]


class ImagePatches(NamedTuple):
    """An image's points (n, 2), hashes (n, sizes), thumbnail, whether it has borders, and what lies inside these: left,
    top, right and bottom as shares of its sides (4,)."""

    points: FloatArray
    hashes: NDArray[np.uint64]
    thumbnail: Thumbnail
    has_borders: bool
    inside: FloatArray


class PatchAlignment(NamedTuple):
    """`matrix` (2, 2) and `shift` (2,): from the points of one image, row and column, to those of another, in pixels of
    the guide images."""

    matrix: FloatArray
    shift: FloatArray

    def map(self, points: FloatArray) -> FloatArray:
        """Returns the places of points (..., 2) in the other image."""
        return points @ self.matrix.T + self.shift


def patch_distances(ones: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Returns the distances in bits (..., patches, patches, sizes * sizes) of hashes (..., patches, sizes); 255 where a
    hash is 0."""
    one, other = ones[..., :, None, :, None], others[..., None, :, None, :]
    bits = np.where((one == 0) | (other == 0), np.uint8(255), np.bitwise_count(one ^ other))
    distances: NDArray[np.uint8] = bits.reshape(*bits.shape[:-2], -1)
    return distances


def align_patches(one: ImagePatches, other: ImagePatches) -> PatchAlignment | None:
    """Returns the scale, turn and shift on which most patches agree; None where fewer than three do."""
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
    fitted = PatchAlignment(float(scales[best]) * np.eye(2), shifts[best])
    is_inlier = off[best] <= _FAR
    for limit in (_CLOSE, _CLOSE):
        fitted = _fit(points[is_inlier], targets[is_inlier], fitted)
        is_inlier = np.abs(fitted.map(points) - targets).max(axis=1) <= limit
        if min(len(set(side[is_inlier].tolist())) for side in (ones, others)) < _LEAST_PATCHES:
            return None
    return fitted


def _fit(points: FloatArray, targets: FloatArray, known: PatchAlignment) -> PatchAlignment:
    """Returns the least-squares fit of a scale, a small turn and a shift (Umeyama, 1991); without a turn where the
    points are too near to each other."""
    centre, target = points.mean(axis=0), targets.mean(axis=0)
    from_centre, from_target = points - centre, targets - target
    spread = float((from_centre**2).sum())
    if spread < _LEAST_SPREAD * len(points):
        return PatchAlignment(known.matrix, target - known.matrix @ centre)
    scale = float((from_centre * from_target).sum()) / spread
    turn = float((from_centre[:, 0] * from_target[:, 1] - from_centre[:, 1] * from_target[:, 0]).sum()) / spread
    turn = min(max(turn, -_TURN * scale), _TURN * scale)
    matrix = np.array([[scale, -turn], [turn, scale]])
    return PatchAlignment(matrix, target - matrix @ centre)


def compare_thumbnails(
    one: ImagePatches, other: ImagePatches, alignment: PatchAlignment
) -> tuple[float, str, BoolArray] | None:
    """Returns how aligned images agree, None where they are no edited copies: the share of matching blocks among those
    that both show; what was edited (border, crop, overlay, joined by +, or "copy"); and the pixels of the first
    thumbnail (height, width) where both show the same."""
    scale, middle = float(np.sqrt(abs(np.linalg.det(alignment.matrix)))), (THUMBNAIL_FACTOR - 1) / 2
    if not 0.5 < scale < 2:
        return None
    shift = (alignment.shift + alignment.matrix @ [middle, middle] - middle) / THUMBNAIL_FACTOR  # thumbnails' pixels
    height, width = one.thumbnail.shape
    grid = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), axis=-1)
    places = grid @ alignment.matrix.T + shift
    is_inside = ((places >= -0.5) & (places <= np.array(other.thumbnail.shape) - 0.5)).all(axis=-1)
    rows, columns = (np.flatnonzero(is_inside.mean(axis=axis) > 0.5) for axis in (1, 0))
    if min(len(rows), len(columns)) < 2 * _BLOCK:
        return None
    box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    seen, warped = one.thumbnail[box], _sample(other.thumbnail, places[box])
    shares = seen.size / one.thumbnail.size, min(1.0, seen.size * scale**2 / other.thumbnail.size)
    if max(shares) < _LEAST_INSIDE or min(shares) < _LEAST_SHOWN:
        return None
    matching = find_matching_blocks(seen, warped)
    share = float(matching.mean())
    if share < LEAST_MATCHING_SHARE:
        return None
    is_same = np.zeros(one.thumbnail.shape, dtype=bool)
    # What is left of the sides after whole blocks goes with the last of these.
    down, across = (np.minimum(np.arange(side) // _BLOCK, side // _BLOCK - 1) for side in seen.shape)
    is_same[box] = matching[down][:, across]
    edits = [
        ("border", one.has_borders != other.has_borders),
        ("crop", min(shares) < 0.95),
        ("overlay", share < 0.97),
    ]
    return share, "+".join(name for name, applies in edits if applies) or "copy", is_same


def find_places(
    one: ImagePatches, other: ImagePatches, alignment: PatchAlignment, is_same: BoolArray, cells: int
) -> FloatArray:
    """Returns for each of cells x cells in the first whole image the place of its centre in the second whole image, row
    and column as shares of its sides (cells, cells, 2); NaN outside of what both show alike inside their borders.
    `is_same`: from `compare_thumbnails`."""
    centres = (np.arange(cells) + 0.5) / cells
    shares = np.stack(np.meshgrid(centres, centres, indexing="ij"), axis=-1)
    inner = (shares - one.inside[1::-1]) / (one.inside[:1:-1] - one.inside[1::-1])
    sizes = [np.array(image.thumbnail.shape) * THUMBNAIL_FACTOR for image in (one, other)]
    mapped = (alignment.map(inner * sizes[0] - 0.5) + 0.5) / sizes[1]
    margin = 0.5 / cells
    is_shown = ((inner > 0) & (inner < 1) & (mapped > margin) & (mapped < 1 - margin)).all(axis=-1)
    most = np.array(is_same.shape) - 1
    for down, right in ((0, 0), (-_BLOCK, 0), (_BLOCK, 0), (0, -_BLOCK), (0, _BLOCK)):
        at = (inner * (most + 1) + (down, right)).astype(np.int64)
        at = np.where((at < 0) | (at > most), at - (down, right), at).clip(0, most)
        is_shown &= is_same[at[..., 0], at[..., 1]]
    places = other.inside[1::-1] + mapped * (other.inside[:1:-1] - other.inside[1::-1])
    return np.where(is_shown[..., None], places, np.nan)


def _sample(image: Thumbnail, places: FloatArray) -> Thumbnail:
    """Returns the values (rows, columns) at places between pixels (rows, columns, 2), interpolated."""
    most = np.array(image.shape) - 2
    before = np.floor(places).astype(np.int64).clip(0, most)
    down, right = ((places - before)[..., axis] for axis in (0, 1))
    row, column = before[..., 0], before[..., 1]
    upper = image[row, column] * (1 - right) + image[row, column + 1] * right
    lower = image[row + 1, column] * (1 - right) + image[row + 1, column + 1] * right
    sampled: Thumbnail = upper * (1 - down) + lower * down
    return sampled


def find_matching_blocks(one: NDArray[Any], other: NDArray[Any]) -> BoolArray:
    """Returns which blocks (rows, columns) of 4 x 4 pixels of two grey images of one shape show the same."""
    first, second = _blocks(one), _blocks(other)
    means = first.mean(axis=1), second.mean(axis=1)
    first, second = first - means[0][:, None], second - means[1][:, None]
    deviations = first.std(axis=1), second.std(axis=1)
    products = (first * second).mean(axis=1)
    is_flat = np.maximum(*deviations) < _FLAT
    shade = np.median(means[1] - means[0])
    is_same_shade = np.abs(means[1] - means[0] - shade) <= _SAME_SHADE
    is_alike = products >= _CORRELATION * deviations[0] * deviations[1]
    matching: BoolArray = np.where(is_flat, is_same_shade, is_alike & (np.minimum(*deviations) > 0))
    return matching.reshape(one.shape[0] // _BLOCK, one.shape[1] // _BLOCK)


def _blocks(image: NDArray[Any]) -> FloatArray:
    """Returns the blocks (n, pixels) of an image, without what is left at its ends."""
    height, width = (side // _BLOCK for side in image.shape)
    whole = image[: height * _BLOCK, : width * _BLOCK].reshape(height, _BLOCK, width, _BLOCK)
    return whole.transpose(0, 2, 1, 3).reshape(height * width, -1)
