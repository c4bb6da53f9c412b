"""Which vectors lie near which, found by blocks of products: memory grows with the vectors, not with their pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builders.array_types import RowIndices, Vectors

Pairs = tuple[RowIndices, RowIndices]
# (vectors, those to be found, per vector the least cosine, how many at most per vector): pairs of places.
NeighbourSearch = Callable[[Vectors, Vectors, NDArray[np.float64], int], Pairs]

_BLOCK = 1 << 24  # cosines at a time: 64 MiB
_PAIRS = 1 << 14  # pairs measured at a time
_SLACK = 2e-5  # products of float32 differ by 1e-7 with their neighbours; what is near the cut is measured again


def find_near_pairs(vectors: Vectors, others: Vectors, least: NDArray[np.float64], most: int) -> Pairs:
    """All pairs of a cosine of at least `least`, per vector the `most` nearest (of equals the first); a few pairs just
    below the cut may be among them."""
    step = max(_BLOCK // max(len(others), 1), 1)
    blocks = [
        _of_block(vectors[at : at + step], others, least[at : at + step], most, at)
        for at in range(0, len(vectors), step)
    ]
    left = np.concatenate([np.empty(0, np.int64), *(pair[0] for pair in blocks)])
    return left, np.concatenate([np.empty(0, np.int64), *(pair[1] for pair in blocks)])


def _of_block(block: Vectors, others: Vectors, least: NDArray[np.float64], most: int, offset: int) -> Pairs:
    cosines = block @ others.T
    near = cosines >= (least - _SLACK)[:, None].astype(np.float32)
    for row in np.flatnonzero(near.sum(axis=1) > most):
        hits = np.flatnonzero(near[row])
        order = np.argsort(-np.rint(cosines[row, hits].astype(np.float64) * 1e5), kind="stable")
        near[row, hits[order[most:]]] = False
    left, right = np.nonzero(near)
    return left + offset, right


def pair_cosines(vectors: Vectors, others: Vectors, left: RowIndices, right: RowIndices) -> NDArray[np.float64]:
    """Of each pair, to six digits, whatever the order in which pairs come."""
    out = np.empty(len(left))
    for at in range(0, len(left), _PAIRS):
        rows, columns = (side[at : at + _PAIRS] for side in (left, right))
        out[at : at + _PAIRS] = np.einsum(
            "ij,ij->i", vectors[rows].astype(np.float64), others[columns].astype(np.float64)
        )
    return out.round(6)


class MemberIndex:
    """What belongs to which of `count` owners: `owner` holds a number per member, -1 for none."""

    def __init__(self, owner: RowIndices, count: int) -> None:
        kept = np.flatnonzero(owner >= 0)
        self.members = kept[np.argsort(owner[kept], kind="stable")]
        self.sizes = np.bincount(owner[kept], minlength=count)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])

    def members_of(self, owners: RowIndices) -> Pairs:
        """All members of the owners, and for each the place in `owners` of the one it belongs to."""
        sizes = self.sizes[owners]
        place = np.repeat(np.arange(len(owners)), sizes)
        inside = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        members: Any = self.members[np.repeat(self.starts[owners], sizes) + inside]
        return place, members
