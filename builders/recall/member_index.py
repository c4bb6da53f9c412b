"""Which rows belong to which owner, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from builders.array_types import RowIndices


class MemberIndex:
    """What belongs to which of `count` owners: `owner` holds a number per member, -1 for none."""

    def __init__(self, owner: RowIndices, count: int) -> None:
        kept = np.flatnonzero(owner >= 0)
        self.members = kept[np.argsort(owner[kept], kind="stable")]
        self.sizes = np.bincount(owner[kept], minlength=count)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])

    def members_of(self, owners: RowIndices) -> tuple[RowIndices, RowIndices]:
        """All members of the owners, and for each the place in `owners` of the one it belongs to."""
        sizes = self.sizes[owners]
        place = np.repeat(np.arange(len(owners)), sizes)
        inside = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        members: Any = self.members[np.repeat(self.starts[owners], sizes) + inside]
        return place, members
