"""Connected components of 64-bit hashes, computed exactly: an edge joins hashes that differ in a few bits at most.

The 64 bits are divided into m bands. Two hashes that differ in at most d bits agree in at least m - d bands: sorting by
each choice of m - d bands puts them into one run of equal keys. More bands mean more choices, but shorter runs. Hashes
that are connected already are not compared again, so that dense clusters, whose pairs would not fit into memory, cost
little; many pairs are joined at once.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from math import comb, sqrt

import numpy as np

from querytruth.array_types import BoolArray, Hashes, RowIndices

NearPairFinder = Callable[[RowIndices], tuple[RowIndices, RowIndices]]
PairPredicate = Callable[[RowIndices, RowIndices], BoolArray]

_TILE = 1 << 16  # comparisons at a time
_BITS = 64
_MORE = 8  # bands beyond `distance` that are tried
_AT_ONCE = 1 << 16  # hashes unpacked into single bits
_LONG = 512  # rows; longer runs are compared row by row
_CHUNK = 1 << 20  # rows
_BLOCK = 1 << 14  # rows compared at a time: their hashes stay in the cache
_MANY = 16  # when one row in so many is joined, runs in one set are skipped


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

    def are_below(self) -> BoolArray:
        """Returns which rows (count,) are in the set of a smaller one."""
        below: BoolArray = self._above != np.arange(len(self._above))
        return below

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


def join_near_hashes(values: Hashes, distance: int, components: Components) -> None:
    """Join the rows of these hashes of which at most `distance` bits differ."""
    if len(values) < 2:
        return
    runs = _candidate_runs(values, distance)
    with ThreadPoolExecutor(max_workers=1) as other_core:  # NumPy sorts without the interpreter
        following = other_core.submit(next, runs, None)
        while (found := following.result()) is not None and components.count > 1:
            following = other_core.submit(next, runs, None)
            _compare_runs(values, *found, distance, components)


def _compare_runs(values: Hashes, rows: RowIndices, lengths: RowIndices, distance: int, sets: Components) -> None:
    """Join near rows within each run."""
    if sets.count < len(rows) - len(rows) // _MANY:
        rows, lengths = _join_minorities(values, rows, lengths, distance, sets)
    long = lengths > _LONG
    for stop, length in zip(np.cumsum(lengths)[long], lengths[long], strict=True):
        run = rows[stop - length : stop]
        sets.join_near(run, partial(_near, values[run], distance))
    rows, lengths = _only(~long, rows, lengths)
    stops = np.cumsum(lengths)
    for first, last in _pieces(stops, _BLOCK):
        start = stops[first] - lengths[first]
        _sweep(values, rows[start : stops[last - 1]], lengths[first:last], distance, sets)


def _near(values: Hashes, distance: int, some: RowIndices) -> tuple[RowIndices, RowIndices]:
    ones, others = np.nonzero(np.bitwise_count(values[some, None] ^ values) <= distance)
    return ones, others


def _only(runs: BoolArray, rows: RowIndices, lengths: RowIndices) -> tuple[RowIndices, RowIndices]:
    return (rows, lengths) if runs.all() else (rows[np.repeat(runs, lengths)], lengths[runs])


def _pieces(ends: RowIndices, size: int) -> Iterator[tuple[int, int]]:
    """Returns bounds that divide entries with these cumulative sums into pieces of about this size."""
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(size, total, size))
    return pairwise(np.unique(np.concatenate([[0], cuts, [len(ends)]])).tolist())


def _join_minorities(
    values: Hashes, rows: RowIndices, lengths: RowIndices, distance: int, sets: Components
) -> tuple[RowIndices, RowIndices]:
    """Join near rows in the runs of which over three quarters are in one set, by comparing the other rows with all of
    the run. Returns the remaining runs, those of rows that are not joined yet first."""
    held = np.logical_or.reduceat(sets.are_below()[rows], np.cumsum(lengths) - lengths)
    of_held = np.repeat(held, lengths)
    alone, alone_lengths = rows[~of_held], lengths[~held]
    rows, lengths = rows[of_held], lengths[held]
    names = sets.find(rows)
    mixed = _mixed(names, lengths)
    names, _ = _only(mixed, names, lengths)
    rows, lengths = _only(mixed, rows, lengths)
    if not len(lengths):
        return alone, alone_lengths
    runs, starts = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(lengths) - lengths
    other = names != _middle(names, runs, starts + lengths // 2)[runs]
    few = 4 * np.bincount(runs, other) < lengths
    ones = np.flatnonzero(other & few[runs])
    counts = lengths[runs[ones]]
    for first, last in _pieces(np.cumsum(counts), _TILE):
        some = counts[first:last]
        before = np.repeat(np.cumsum(some) - some - starts[runs[ones[first:last]]], some)
        one, another = rows[np.repeat(ones[first:last], some)], rows[np.arange(some.sum()) - before]
        close = np.bitwise_count(values[one] ^ values[another]) <= distance
        sets.join(one[close], another[close])
    rows, lengths = _only(~few, rows, lengths)
    return np.concatenate([alone, rows]), np.concatenate([alone_lengths, lengths])


def _middle(names: RowIndices, runs: RowIndices, places: RowIndices) -> RowIndices:
    """Returns the median name of each run: a set with over half of a run's rows is there."""
    low = int(names.max()).bit_length()
    ordered = np.sort((runs << low) | names)
    return ordered[places] & ((1 << low) - 1)


def _mixed(names: RowIndices, lengths: RowIndices) -> BoolArray:
    """Returns per run whether it has rows of more than one set."""
    starts = np.cumsum(lengths) - lengths
    mixed: BoolArray = np.minimum.reduceat(names, starts) != np.maximum.reduceat(names, starts)
    return mixed


def _sweep(values: Hashes, rows: RowIndices, lengths: RowIndices, distance: int, sets: Components) -> None:
    """Compare each row with the following ones, one offset after the other, up to the longest run's length.

    Comparisons across the ends of runs are harmless: rows that are near there are near.
    """
    near, longest, offset = values[rows], int(lengths.max()), 1
    names: RowIndices | None = None
    while offset < longest:
        differing = np.bitwise_count(near[offset:] ^ near[:-offset])
        if differing.min() <= distance:
            close = np.flatnonzero(differing <= distance)
            if _MANY * len(close) > len(rows):
                names = sets.find(rows) if names is None else names
                close = close[names[close] != names[close + offset]]
            sets.join(rows[close], rows[close + offset])
            if _MANY * len(close) > len(rows):
                rows, lengths = _only(_mixed(sets.find(rows), lengths), rows, lengths)
                near, names, longest = values[rows], None, int(lengths.max(initial=0))
        offset += 1


def _candidate_runs(values: Hashes, distance: int) -> Iterator[tuple[RowIndices, RowIndices]]:
    """Yields for each choice of bands all rows, run by run, and the lengths of the runs."""
    spread, informative = _evenness(values)
    bands = _bands(distance, informative, len(values))
    dealt = [spread[band::bands] for band in range(bands)]
    ends = np.cumsum([len(band) for band in dealt])
    places = [(int(end) - len(band), len(band)) for end, band in zip(ends, dealt, strict=True)]
    low = (len(values) - 1).bit_length()  # bits for the row, below the key
    mask = np.uint64((1 << low) - 1)
    for key in _keys(_reordered(values, np.concatenate(dealt)), places, bands - distance):
        packed = key & ~mask
        for start in range(0, len(packed), _CHUNK):  # whole arrays of ten million rows take 80 MB each
            packed[start : start + _CHUNK] |= np.arange(start, min(start + _CHUNK, len(packed)), dtype=np.uint64)
        packed.sort()
        is_last = np.ones(len(packed), dtype=bool)
        for start in range(0, len(packed) - 1, _CHUNK):
            some = packed[start : start + _CHUNK + 1]
            is_last[start : start + len(some) - 1] = (some[1:] ^ some[:-1]) > mask
        packed &= mask
        ends = np.flatnonzero(is_last)
        ends[1:] -= ends[:-1].copy()
        ends[0] += 1
        yield packed.view(np.int64), ends


def _evenness(values: Hashes) -> tuple[RowIndices, float]:
    """Returns the positions of the bits (0 is the highest), most evenly distributed first, and their information: minus
    the binary logarithm of the probability that two values agree, for independent bits."""
    share = np.array([np.count_nonzero(values & np.uint64(1 << (63 - place))) for place in range(_BITS)]) / len(values)
    return np.argsort(np.abs(share - 0.5), kind="stable"), float(-np.log2(share**2 + (1 - share) ** 2).sum())


def _bands(distance: int, informative: float, count: int) -> int:
    """Returns the number of bands with the lowest cost, in nanoseconds as measured: per choice and row a sort, and a
    comparison with each row of the longest run nearby."""

    def cost(bands: int) -> float:
        run = count / 2 ** (informative * (bands - distance) / bands)
        return comb(bands, distance) * (1e5 + count * (18 + 0.6 * min(count, run + 4 * sqrt(run) + 3)))

    return min(range(max(distance, 1), distance + _MORE + 1), key=cost)


def _reordered(values: Hashes, order: RowIndices) -> Hashes:
    """Returns the values with their bits in this order."""
    out = np.empty(len(values), dtype=np.uint64)
    for start in range(0, len(values), _AT_ONCE):
        octets = values[start : start + _AT_ONCE].astype(">u8").view(np.uint8).reshape(-1, 8)
        moved = np.packbits(np.take(np.unpackbits(octets, axis=1), order, axis=1), axis=1)
        out[start : start + _AT_ONCE] = moved.view(">u8").ravel()
    return out


def _keys(values: Hashes, bands: list[tuple[int, int]], agreeing: int) -> Iterator[Hashes]:
    """Yields for each choice of `agreeing` bands (first bit from the top, width) their bits, packed from the top."""

    def extend(made: Hashes, length: int, first: int, missing: int) -> Iterator[Hashes]:
        if not missing:
            yield made
            return
        for number in range(first, len(bands) - missing + 1):
            place, width = bands[number]
            bits = values << np.uint64(place)
            bits &= np.uint64(((1 << width) - 1) << (_BITS - width))
            bits >>= np.uint64(length)
            bits |= made
            yield from extend(bits, length + width, number + 1, missing - 1)

    return extend(np.zeros_like(values), 0, 0, agreeing)
