"""Connected components, found by joining many pairs at once."""

from collections.abc import Callable

import numpy as np

from builders.array_types import BoolArray, RowIndices

NearPairFinder = Callable[[RowIndices], tuple[RowIndices, RowIndices]]
PairPredicate = Callable[[RowIndices, RowIndices], BoolArray]

_TILE = 1 << 16  # comparisons at a time


class Components:
    """Disjoint sets of the rows 0 to count - 1, at first one per row; the name of a set is its smallest row. With
    `agree` only pairs for which it is true are joined; it is called with pairs of rows in different sets."""

    def __init__(self, count: int, agree: PairPredicate | None = None) -> None:
        self._above = np.arange(count, dtype=np.int64)  # per row a smaller one of its set, or itself
        self._agree = agree
        self.count = count  # of sets

    def find(self, rows: RowIndices) -> RowIndices:
        """Returns the names of the sets of these rows."""
        top = self._above[rows]
        while True:
            higher = self._above[top]
            if np.array_equal(higher, top):
                break
            self._above[top] = self._above[higher]  # halves all long paths at once
            top = self._above[top]
        self._above[rows] = top
        return top

    def names(self) -> RowIndices:
        """Returns the name of each row's set (count,)."""
        return self.find(np.arange(len(self._above), dtype=np.int64))

    def join(self, ones: RowIndices, others: RowIndices) -> None:
        """Join the sets of ones[i] and others[i] for each i."""
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
            # Of several pairs with one larger name the last one wins; the next round joins the others.
            self._above[larger] = np.minimum(ones, others)
            self.count -= len(np.unique(larger))

    def join_near(self, rows: RowIndices, near: NearPairFinder, at_once: int = _TILE) -> None:
        """Join the near pairs among these rows. `near(some)` returns pairs (position in `some`, position in `rows`) of
        rows that are near each other; `some` are positions in `rows`, chosen for about `at_once` comparisons.

        When the rows that were not compared with all others are in one set, everything is done. Until then rows
        outside the most frequent set are compared, twice as many each time: the first rows of a dense cluster join
        most of it.
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
    """Returns pairs that connect all rows of the same code; rows with a negative code are in no pair."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    follows = np.flatnonzero((ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0))
    return order[follows], order[follows + 1]
