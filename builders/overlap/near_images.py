"""Pairs of near images between two collections, found exactly by hashes of 64 bits or a multiple.

The bits are divided into bands of 16. Two hashes that differ in at most d bits differ in at most d / bands bits in one
band at least, so that each hash of the smaller side is filed under all keys within d / bands bits of its own.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from builders.array_types import Hashes, RowIndices

HASH_DISTANCE = 6  # bits, as in the search for duplicates within a gallery
_WIDTH, _BANDS_EACH = 16, 4  # bands of 64 bits
_AT_ONCE = 1 << 14  # hashes of the larger side


class NearHashIndex:
    """The hashes (n, words) of the smaller side, 64 bits a word; `find_near` yields pairs with the other side's."""

    def __init__(self, hashes: Hashes, distance: int = HASH_DISTANCE) -> None:
        self.hashes, self.distance = hashes, distance
        self._bands = range(hashes.shape[1] * _BANDS_EACH)
        flips = _flips(distance // len(self._bands))
        self._filed = [_file_rows(_keys(hashes, band), flips) for band in self._bands]

    def find_near(self, others: Hashes) -> Iterator[tuple[RowIndices, RowIndices, RowIndices]]:
        """Yields pairs with `others` (m, words) in blocks: rows of the index, rows of `others`, distances in bits; each
        pair once."""
        for start in range(0, len(others), _AT_ONCE):
            block = others[start : start + _AT_ONCE]
            found = [self._compare(block, band) for band in self._bands]
            pairs = np.unique(np.concatenate(found, axis=1), axis=1)
            yield pairs[0], pairs[1] + start, self._distances(block, pairs[0], pairs[1])

    def _compare(self, block: Hashes, band: int) -> RowIndices:
        rows, ends = self._filed[band]
        keys = _keys(block, band)
        counts = ends[keys + 1] - ends[keys]
        firsts = np.repeat(ends[keys] - (np.cumsum(counts) - counts), counts)
        ones = rows[firsts + np.arange(counts.sum())]
        others = np.repeat(np.arange(len(block)), counts)
        close = self._distances(block, ones, others) <= self.distance
        near: RowIndices = np.stack([ones[close], others[close]])
        return near

    def _distances(self, block: Hashes, ones: RowIndices, others: RowIndices) -> RowIndices:
        total = np.zeros(len(ones), dtype=np.int64)
        for word in range(self.hashes.shape[1]):
            total += np.bitwise_count(self.hashes[ones, word] ^ block[others, word])
        return total


def _keys(hashes: Hashes, band: int) -> RowIndices:
    word, place = divmod(band, _BANDS_EACH)
    return ((hashes[:, word] >> np.uint64(place * _WIDTH)) & np.uint64((1 << _WIDTH) - 1)).astype(np.int64)


def _flips(most: int) -> RowIndices:
    """Returns all 16-bit numbers with at most so many bits set."""
    chosen = [sum(1 << bit for bit in bits) for count in range(most + 1) for bits in combinations(range(_WIDTH), count)]
    return np.array(chosen, dtype=np.int64)


def _file_rows(keys: RowIndices, flips: RowIndices) -> tuple[RowIndices, RowIndices]:
    """Returns the rows ordered by key, and per key where its rows start (and, one further, end)."""
    filed = (keys[:, None] ^ flips).ravel()
    order = np.argsort(filed, kind="stable")
    ends = np.zeros((1 << _WIDTH) + 1, dtype=np.int64)
    ends[1:] = np.cumsum(np.bincount(filed, minlength=1 << _WIDTH))
    return order // len(flips), ends
