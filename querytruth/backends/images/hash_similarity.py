"""Similar images: perceptual hashes within a few bits, and outlines that agree.

A hash has one bit for each of 64 frequencies, whatever its strength. Skies, gradients and horizons have few strong
frequencies and often share the other bits by chance; the outline holds the strengths. Of 20 million pairs of tiles cut
from different photos 50 were within 6 bits, of which outlines that agree by 0.9 left 9. Of nine ways to edit 220 photos
outlines that must agree by 0.93 lose none that the hash finds, except a white mark over a corner (2 of 66).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from querytruth.array_types import BoolArray, Hashes, RowIndices
from querytruth.backends.images import hash_neighbours

Outlines = np.ndarray[Any, np.dtype[np.int8]]
Distances = np.ndarray[Any, np.dtype[np.uint8]]
Numbers = np.ndarray[Any, np.dtype[np.floating[Any]]]

# Indices of an image's hashes, in the order of `perceptual_hash`.
FLIP_TRANSFORMS, ROTATION_TRANSFORMS, ALL_TRANSFORMS = (0, 2, 4, 6), (0, 1, 2, 3), tuple(range(8))
OUTLINE_COSINE = 0.93  # the minimum for two outlines that agree
_AT_ONCE = 1 << 14  # pairs of outlines
_SMALL, _LARGE = 64, 4096  # images in a group: up to and above these they are compared otherwise
_SPARSE = 1 / 64  # of a group's pairs
_TILE = 1 << 21  # comparisons at a time
_ACROSS = np.tile(np.where(np.arange(8) % 2, np.float32(-1), np.float32(1)), (8, 1))  # mirrored: odd columns negated
_SIGNS = (_ACROSS**0, _ACROSS.T, _ACROSS * _ACROSS.T, _ACROSS, _ACROSS, _ACROSS**0, _ACROSS.T, _ACROSS * _ACROSS.T)


@dataclass(frozen=True, slots=True)
class HashedImages:
    """Hashes (images, transforms), the first of the image as it is; outlines (images, 64); which transforms these are
    (0 to 7 in the order of `perceptual_hash`); the largest distance in bits."""

    hashes: Hashes
    outlines: Outlines
    transforms: tuple[int, ...]
    distance: int

    def hamming_distances(self, ones: RowIndices, others: RowIndices) -> Distances:
        """Returns the smallest distance in bits between any transforms of each pair; shapes are broadcast."""
        pairs = [(one, other) for one in range(len(self.transforms)) for other in range(len(self.transforms))]
        least: Distances = np.bitwise_count(self.hashes[ones, 0] ^ self.hashes[others, 0])
        for one, other in pairs[1:]:
            np.minimum(least, np.bitwise_count(self.hashes[ones, one] ^ self.hashes[others, other]), out=least)
        return least

    def turned_distances(self, ones: RowIndices, others: RowIndices, turn: int) -> Distances:
        """Returns the distance in bits of each pair (n,), the first images in the transform of this number."""
        distances: Distances = np.bitwise_count(self.hashes[ones, turn] ^ self.hashes[others, 0])
        return distances

    def has_matching_outlines(self, ones: RowIndices, others: RowIndices) -> BoolArray:
        """Returns per pair (n,) whether the outlines agree in any of the transforms."""
        agrees = np.zeros(len(ones), dtype=bool)
        for start in range(0, len(ones), _AT_ONCE):
            one, other = (self._numbers(rows[start : start + _AT_ONCE]) for rows in (ones, others))
            products = [np.einsum("ij,ij->i", _transformed(one, turn), other) for turn in self.transforms]
            agrees[start : start + _AT_ONCE] = _agreeing(np.max(products, axis=0), _lengths(one), _lengths(other))
        return agrees

    def near_pair_finder(self, rows: RowIndices) -> hash_neighbours.NearPairFinder:
        """Returns a function that compares some of these rows with all of them, for `Components.join_near`."""
        outlines = self._numbers(rows)
        lengths = _lengths(outlines)

        def near(some: RowIndices) -> tuple[RowIndices, RowIndices]:
            product = np.max([_transformed(outlines[some], turn) @ outlines.T for turn in self.transforms], axis=0)
            close = self.hamming_distances(rows[some, None], rows) <= self.distance
            ones, others = np.nonzero(close & _agreeing(product, lengths[some, None], lengths))
            return ones, others

        return near

    def _numbers(self, rows: RowIndices) -> Numbers:
        return self.outlines[rows].astype(np.float32)


def _agreeing(product: Numbers, one: Numbers, other: Numbers) -> BoolArray:
    return (product > 0) & (product >= OUTLINE_COSINE * (one * other))


def _lengths(outlines: Numbers) -> Numbers:
    """Returns the norms (n,). Products of outlines are integers below 2^24, exact in single precision in any order of
    summation, so that every machine finds the same pairs."""
    lengths: Numbers = np.sqrt(np.einsum("ij,ij->i", outlines, outlines).astype(np.float64))
    return lengths


def _transformed(outlines: Numbers, turn: int) -> Numbers:
    square = outlines.reshape(-1, 8, 8)
    turned: Numbers = (square.transpose(0, 2, 1) if turn % 2 else square) * _SIGNS[turn]
    return turned.reshape(-1, 64)


def read_outlines(column: pd.Series) -> Outlines:
    """Returns the outlines of a column (n, 64), any bytes for a null: the memory of the column itself, where that is in
    one piece."""
    found = pa.chunked_array(pa.Array.from_pandas(column, type=pa.binary(64))).combine_chunks()
    outlines: Outlines = np.frombuffer(found.buffers()[1] or b"", dtype=np.int8).reshape(-1, 64)
    return outlines[found.offset : found.offset + len(found)]


def similar_image_components(hashed: HashedImages) -> RowIndices:
    """Returns per image (n,) the first image of its connected component of similar images."""
    names = _hash_components(hashed)
    order = np.argsort(names, kind="stable")
    starts = np.flatnonzero(np.diff(names[order], prepend=-1))
    lengths = np.diff(starts, append=len(order))
    sets = hash_neighbours.Components(len(names))
    small = lengths <= _SMALL
    _join_small(hashed, order[np.repeat(small, lengths)], lengths[small], sets)
    for start, length in zip(starts[~small], lengths[~small], strict=True):
        rows = order[start : start + length]
        sets.join(rows, rows[_components_within(hashed, rows)])
    return sets.names()


def _components_within(hashed: HashedImages, rows: RowIndices) -> RowIndices:
    """Returns the components of a larger group. Where few pairs are near, only their outlines are compared; where many
    are, the images one after the other, since the first join most of the rest."""
    if len(rows) > _LARGE and len(hashed.transforms) == 1:
        some = rows[:: len(rows) // _SMALL]
        if (hashed.hamming_distances(some[:, None], rows) <= hashed.distance).mean() < _SPARSE:
            sets = hash_neighbours.Components(
                len(rows), lambda ones, others: hashed.has_matching_outlines(rows[ones], rows[others])
            )
            hash_neighbours.join_near_hashes(hashed.hashes[rows, 0], hashed.distance, sets)
            return sets.names()
    sets = hash_neighbours.Components(len(rows))
    sets.join_near(np.arange(len(rows)), hashed.near_pair_finder(rows), _TILE)
    return sets.names()


def _hash_components(hashed: HashedImages) -> RowIndices:
    """Returns components by the hashes alone, any transform of an image against any of another."""
    count, turns = hashed.hashes.shape
    owners: RowIndices = hash_neighbours.find_hash_components(hashed.hashes.ravel(), hashed.distance) // turns
    if turns == 1:
        return owners
    sets = hash_neighbours.Components(count)
    sets.join(np.repeat(np.arange(count), turns), owners)
    return sets.names()


def _join_small(hashed: HashedImages, rows: RowIndices, lengths: RowIndices, sets: hash_neighbours.Components) -> None:
    """Compare each image with the following ones of its group, one offset after the other, in all groups at once."""
    offset = 1
    while len(lengths):
        left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(rows)) > offset
        ones, others = rows[left], rows[np.flatnonzero(left) + offset]
        near = np.flatnonzero(hashed.hamming_distances(ones, others) <= hashed.distance)
        near = near[hashed.has_matching_outlines(ones[near], others[near])]
        sets.join(ones[near], others[near])
        offset += 1
        longer = lengths > offset
        rows, lengths = rows[np.repeat(longer, lengths)], lengths[longer]
