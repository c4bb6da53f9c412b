"""Runs of 64-bit hashes such that each pair of near hashes is in one of the runs.

The 64 bits are divided into m bands. Two hashes that differ in at most d bits agree in at least m - d bands: sorting by
each choice of m - d bands puts them into one run of equal keys. More bands mean more choices, but shorter runs.
"""

from collections.abc import Iterator
from math import comb, sqrt

import numpy as np

from builders.array_types import Hashes, RowIndices

_BITS = 64
_MORE = 8  # bands beyond `distance` that are tried
_AT_ONCE = 1 << 16  # hashes unpacked into single bits


def candidate_runs(values: Hashes, distance: int) -> Iterator[tuple[RowIndices, RowIndices]]:
    """Yields for each choice of bands all rows, run by run, and the lengths of the runs."""
    spread, informative = _evenness(values)
    bands = _bands(distance, informative, len(values))
    dealt = [spread[band::bands] for band in range(bands)]
    ends = np.cumsum([len(band) for band in dealt])
    places = [(int(end) - len(band), len(band)) for end, band in zip(ends, dealt, strict=True)]
    low = (len(values) - 1).bit_length()  # bits for the row, below the key
    mask, row = np.uint64((1 << low) - 1), np.arange(len(values), dtype=np.uint64)
    for key in _keys(_reordered(values, np.concatenate(dealt)), places, bands - distance):
        packed = key & ~mask
        packed |= row
        packed.sort()
        last = np.flatnonzero((packed[1:] ^ packed[:-1]) > mask)
        packed &= mask
        yield packed.view(np.int64), np.diff(last + 1, prepend=0, append=len(values))


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
