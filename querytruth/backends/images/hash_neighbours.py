"""Connected components of 64-bit hashes: an edge joins hashes that differ in a few bits at most.

The 64 bits are divided into m bands. Two hashes that differ in at most d bits agree in at least m - d bands: sorting by
each choice of m - d bands puts them into one run of equal keys. More bands mean more choices, but shorter runs. All
choices find every edge; a third of them hardly misses any, for two hashes agree in more bands than they must. Hashes
that are connected already are not compared again, so that dense clusters, whose pairs would not fit into memory, cost
little; the pairs of a choice are joined at once.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import comb, inf, sqrt

import numpy as np

from querytruth.array_types import BoolArray, Hashes, RowIndices

Pairs = list[tuple[RowIndices, RowIndices]]

_TILE = 1 << 16  # comparisons at a time
_BITS = 64
_MORE = 8  # bands beyond `distance` that are tried
_AT_ONCE = 1 << 16  # hashes unpacked into single bits
_LONG = 512  # rows; longer runs are compared row by row
_BLOCK = 1 << 14  # rows compared at a time: their hashes stay in the cache
_FEW = 1 << 10  # near pairs at most that wait for others to be joined with, and so many times
_MANY = 16  # when one row in so many is joined, runs in one set are skipped


class Components:
    """Disjoint sets of the elements 0 to count - 1, at first one per element; the name of a set is its smallest one.
    Rows are elements, or `owners` (rows,) has the element of each."""

    def __init__(self, count: int, owners: RowIndices | None = None) -> None:
        self._above = np.arange(count, dtype=np.int64)  # per element a smaller one of its set, or itself
        self._owners = owners
        self.count = self.size = count  # of sets, and of elements

    def own(self, rows: RowIndices) -> RowIndices:
        """Return the elements of these rows."""
        return rows if self._owners is None else self._owners[rows]

    def find(self, rows: RowIndices) -> RowIndices:
        """Return the names of the sets of these rows."""
        return self._find(self.own(rows))

    def _find(self, elements: RowIndices) -> RowIndices:
        top = self._above[elements]
        while not np.array_equal(higher := self._above[top], top):
            self._above[top] = self._above[higher]  # halves all long paths at once
            top = self._above[top]
        self._above[elements] = top
        return top

    def names(self) -> RowIndices:
        """Return the name of each element's set (count,)."""
        return self._find(np.arange(self.size, dtype=np.int64))

    def join(self, ones: RowIndices, others: RowIndices) -> None:
        """Join the sets of the rows ones[i] and others[i] for each i."""
        self.unite(self.own(ones), self.own(others))

    def unite(self, ones: RowIndices, others: RowIndices) -> None:
        """Join the sets of the elements ones[i] and others[i] for each i."""
        while True:
            ones, others = self._find(ones), self._find(others)
            apart = ones != others
            ones, others = ones[apart], others[apart]
            if not ones.size:
                return
            larger = np.maximum(ones, others)
            # Of several pairs with one larger name the last one wins; the next round joins the others.
            self._above[larger] = np.minimum(ones, others)
            self.count -= len(np.unique(larger))


def equal_code_pairs(codes: RowIndices) -> tuple[RowIndices, RowIndices]:
    """Return pairs that connect all rows of the same code; rows with a negative code are in no pair."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    follows = np.flatnonzero((ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0))
    return order[follows], order[follows + 1]


def join_near_hashes(values: Hashes, distance: int, components: Components, most_choices: int | None = None) -> None:
    """Join the rows of these hashes that differ in at most `distance` bits: exactly, or with at most `most_choices`
    choices of bands, of at most three times as many."""
    if len(values) < 2:
        return
    runs = _candidate_runs(values, distance, most_choices)
    with ThreadPoolExecutor(max_workers=1) as other_core:  # NumPy sorts without the interpreter
        following = other_core.submit(next, runs, None)
        while (found := following.result()) is not None and components.count > 1:
            following = other_core.submit(next, runs, None)
            _compare_runs(values, *found, distance, components)


def _compare_runs(values: Hashes, rows: RowIndices, lengths: RowIndices, distance: int, sets: Components) -> None:
    """Join near rows within each run."""
    found: Pairs = []
    if sets.count < sets.size - sets.size // _MANY:
        rows, lengths = _only(_mixed(sets.find(rows), lengths), rows, lengths)
    long = lengths > _LONG
    for stop, length in zip(np.cumsum(lengths)[long], lengths[long], strict=True):
        run = rows[stop - length : stop]
        _join_long(run, values[run], distance, sets)
    rows, lengths = _only(~long, rows, lengths)
    stops = np.cumsum(lengths)
    for first, last in _pieces(stops, _BLOCK):
        start = stops[first] - lengths[first]
        _sweep(values, rows[start : stops[last - 1]], lengths[first:last], distance, sets, found)
    if found:
        _join_found(sets, found)


def _add(ones: RowIndices, others: RowIndices, sets: Components, found: Pairs) -> None:
    """Add near pairs to those found; when these are many, join them."""
    apart = sets.find(ones) != sets.find(others)
    found.append((ones[apart], others[apart]))
    if len(found[-1][0]) > _FEW or len(found) > _FEW:
        _join_found(sets, found)


def _join_found(sets: Components, found: Pairs) -> None:
    sets.join(*(np.concatenate(some) for some in zip(*found, strict=True)))
    found.clear()


def _join_long(run: RowIndices, values: Hashes, distance: int, sets: Components) -> None:
    """Join near rows of a long run. When the rows that were not compared with all others are in one set, everything is
    done. Until then rows outside the most frequent set are compared, twice as many each time: the first rows of a dense
    cluster join most of it."""
    uncompared, count = np.arange(len(run)), 1
    while True:
        names = sets.find(run[uncompared])
        set_names, sizes = np.unique(names, return_counts=True)
        if len(set_names) <= 1:
            return
        taken = uncompared[names != set_names[sizes.argmax()]][:count]
        for some in np.array_split(taken, min(len(taken), -(-len(taken) * len(run) // _TILE))):
            ones, others = np.nonzero(np.bitwise_count(values[some, None] ^ values) <= distance)
            sets.join(run[some[ones]], run[others])
        uncompared = np.setdiff1d(uncompared, taken, assume_unique=True)
        count *= 2


def _only(runs: BoolArray, rows: RowIndices, lengths: RowIndices) -> tuple[RowIndices, RowIndices]:
    return (rows, lengths) if runs.all() else (rows[np.repeat(runs, lengths)], lengths[runs])


def _pieces(ends: RowIndices, size: int) -> Iterator[tuple[int, int]]:
    """Return bounds that divide entries with these cumulative sums into pieces of about this size."""
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(size, total, size))
    return pairwise(np.unique(np.concatenate([[0], cuts, [len(ends)]])).tolist())


def _mixed(names: RowIndices, lengths: RowIndices) -> BoolArray:
    """Return per run whether it has rows of more than one set."""
    starts = np.cumsum(lengths) - lengths
    mixed: BoolArray = np.minimum.reduceat(names, starts) != np.maximum.reduceat(names, starts)
    return mixed


def _sweep(
    values: Hashes, rows: RowIndices, lengths: RowIndices, distance: int, sets: Components, found: Pairs
) -> None:
    """Compare each row with the following ones, one offset after the other, up to the longest run's length; add what is
    near to `found`, or join it at once where it is much.

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
            if _MANY * len(close) > len(rows):
                sets.join(rows[close], rows[close + offset])
                rows, lengths = _only(_mixed(sets.find(rows), lengths), rows, lengths)
                near, names, longest = values[rows], None, int(lengths.max(initial=0))
            else:
                _add(rows[close], rows[close + offset], sets, found)
        offset += 1


def _candidate_runs(values: Hashes, distance: int, most: int | None) -> Iterator[tuple[RowIndices, RowIndices]]:
    """Yield for each choice of bands, or for so many at most, all rows, run by run, and the lengths of the runs."""
    spread, informative = _evenness(values)
    bands = _bands(distance, informative, len(values), most)
    choices = comb(bands, distance)
    chosen = np.random.default_rng(0).permutation(choices) < (most or choices)
    dealt = [spread[band::bands] for band in range(bands)]
    ends = np.cumsum([len(band) for band in dealt])
    places = [(int(end) - len(band), len(band)) for end, band in zip(ends, dealt, strict=True)]
    low = (len(values) - 1).bit_length()  # bits for the row, below the key
    mask = np.uint64((1 << low) - 1)
    for key in _keys(_reordered(values, np.concatenate(dealt)), places, bands - distance, iter(chosen.tolist())):
        # Keys A, B, A with 2 low bits: packed A|0, B|1, A|2, sorted A|0, A|2, B|1, so rows 0 2 1, runs of 2 and 1.
        packed = key & ~mask
        packed |= np.arange(len(packed), dtype=np.uint64)
        packed.sort()
        is_last = np.append((packed[1:] ^ packed[:-1]) > mask, True)
        packed &= mask
        ends = np.flatnonzero(is_last)
        ends[1:] -= ends[:-1].copy()
        ends[0] += 1
        yield packed.view(np.int64), ends


def _evenness(values: Hashes) -> tuple[RowIndices, float]:
    """Return the positions of the bits (0 is the highest), most evenly distributed first, and their information: minus
    the binary logarithm of the probability that two values agree, for independent bits."""
    share = np.array([np.count_nonzero(values & np.uint64(1 << (63 - place))) for place in range(_BITS)]) / len(values)
    return np.argsort(np.abs(share - 0.5), kind="stable"), float(-np.log2(share**2 + (1 - share) ** 2).sum())


def _bands(distance: int, informative: float, count: int, most: int | None) -> int:
    """Return the number of bands with the lowest cost, in nanoseconds as measured: per choice and row a sort, and a
    comparison with each row of the longest run nearby."""

    def cost(bands: int) -> float:
        run = count / 2 ** (informative * (bands - distance) / bands)
        choices = min(comb(bands, distance), most or inf)
        return choices * (1e5 + count * (18 + 0.6 * min(count, run + 4 * sqrt(run) + 3)))

    tried = range(max(distance, 1), distance + _MORE + 1)
    return min((bands for bands in tried if comb(bands, distance) <= 3 * (most or inf)), key=cost)


def _reordered(values: Hashes, order: RowIndices) -> Hashes:
    """Return the values with their bits in this order."""
    out = np.empty(len(values), dtype=np.uint64)
    for start in range(0, len(values), _AT_ONCE):
        octets = values[start : start + _AT_ONCE].astype(">u8").view(np.uint8).reshape(-1, 8)
        moved = np.packbits(np.take(np.unpackbits(octets, axis=1), order, axis=1), axis=1)
        out[start : start + _AT_ONCE] = moved.view(">u8").ravel()
    return out


def _keys(values: Hashes, bands: list[tuple[int, int]], agreeing: int, chosen: Iterator[bool]) -> Iterator[Hashes]:
    """Yield for each choice of `agreeing` bands (first bit from the top, width) that is chosen their bits, packed from
    the top."""

    def extend(made: Hashes, length: int, first: int, missing: int) -> Iterator[Hashes]:
        for number in range(first, len(bands) - missing + 1):
            if missing == 1 and not next(chosen):
                continue
            place, width = bands[number]
            bits = values << np.uint64(place)
            bits &= np.uint64(((1 << width) - 1) << (_BITS - width))
            bits >>= np.uint64(length)
            bits |= made
            yield from [bits] if missing == 1 else extend(bits, length + width, number + 1, missing - 1)

    return extend(np.zeros_like(values), 0, 0, agreeing) if agreeing else iter([np.zeros_like(values)])
