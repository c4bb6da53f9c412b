"""Connected components, found by joining many pairs at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from builders.array_types import BoolArray, RowIndices

NearPairFinder = Callable[[RowIndices], tuple[RowIndices, RowIndices]]
PairPredicate = Callable[[RowIndices, RowIndices], BoolArray]

_TILE = 1 << 16  # comparisons at a time


class Components:
    """Sets of the rows 0 to count - 1, each row alone at first; a set goes by its smallest row. Where `agree` is given
    only pairs that agree are joined; it is asked about pairs of which the rows are not in one set yet."""

    def __init__(self, count: int, agree: PairPredicate | None = None) -> None:
        self._above = np.arange(count, dtype=np.int64)  # a smaller row of the same set; of its smallest, itself
        self._agree = agree
        self.count = count  # of sets

    def find(self, rows: RowIndices) -> RowIndices:
        """The names of the sets that hold these rows."""
        top = self._above[rows]
        while True:
            higher = self._above[top]
            if np.array_equal(higher, top):
                break
            self._above[top] = self._above[higher]  # for all of a long path at once: it halves each time
            top = self._above[top]
        self._above[rows] = top
        return top

    def names(self) -> RowIndices:
        """The name of each row's set."""
        return self.find(np.arange(len(self._above), dtype=np.int64))

    def join(self, ones: RowIndices, others: RowIndices) -> None:
        """Make one set of the sets of ones[i] and others[i], for each i."""
        if self._agree is not None:
            apart = self.find(ones) != self.find(others)
            ones, others = ones[apart], others[apart]
            sure = self._agree(ones, others)
            ones, others = ones[sure], others[sure]
        while True:
            ones, others = self.find(ones), self.find(others)
            apart = ones != others
            ones, others = ones[apart], others[apart]
            if not ones.size:
                return
            larger = np.maximum(ones, others)
            # Of several pairs that share a larger name the last one wins; the next round meets the others again.
            self._above[larger] = np.minimum(ones, others)
            self.count -= len(np.unique(larger))

    def join_near(self, rows: RowIndices, near: NearPairFinder, at_once: int = _TILE) -> None:
        """Join what is near among all of these rows; `near(some)` gives the pairs (a place in `some`, a place in
        `rows`) of which the rows are near each other, `some` being places in `rows`, for so many comparisons at once.

        A row that was compared with all others is settled. All is done when the unsettled rows are in one set, since
        of any other two rows one is settled. Rows outside the most frequent set are taken, ever more at a time: the
        first of a dense cluster joins most of it.
        """
        uncompared, count = np.arange(len(rows)), 1
        while True:
            names = self.find(rows[uncompared])
            set_names, sizes = np.unique(names, return_counts=True)
            if len(set_names) <= 1:
                return
            taken = uncompared[names != set_names[sizes.argmax()]][:count]
            for some in np.array_split(taken, min(len(taken), -(-len(taken) * len(rows) // at_once))):
                ones, others = near(some)
                self.join(rows[some[ones]], rows[others])
            uncompared = np.setdiff1d(uncompared, taken, assume_unique=True)
            count *= 2


def equal_code_pairs(codes: RowIndices) -> tuple[RowIndices, RowIndices]:
    """Pairs of rows that join all rows of the same code; rows of a negative code have none."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    follows = np.flatnonzero((ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0))
    return order[follows], order[follows + 1]
