"""Pictures that look alike: perceptual hashes at most so many bits apart, and outlines that agree.

A hash has one bit for each of 64 frequencies, whatever its strength; skies, gradients and horizons have few strong ones
and often share the other bits by chance. The outline holds how strong each is. Of 20 million pairs of tiles cut from
different photos 50 were within 6 bits, of which the outlines left 9; of 15 ways to edit a photo, none that the hash
finds is lost to the outlines in more than one case of a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from builders.gallery.components import Components, Flags, Rows
from builders.gallery.hash_bands import Hashes
from builders.gallery.hash_neighbours import hash_components

Outlines = np.ndarray[Any, np.dtype[np.int8]]
Distances = np.ndarray[Any, np.dtype[np.uint8]]
Whole = np.ndarray[Any, np.dtype[np.int64]]

FLIPS, ROTATIONS, ALL = (0, 2, 4, 6), (0, 1, 2, 3), tuple(range(8))  # places among the hashes of a picture's turns
_COSINE = 90  # hundredths; of two outlines, at least
_AT_ONCE = 1 << 14  # pairs of outlines
_SMALL = 64  # pictures; larger groups are compared picture by picture
_ACROSS = np.tile(np.where(np.arange(8) % 2, -1, 1), (8, 1))  # mirrored: odd columns negated
_SIGNS = (_ACROSS**0, _ACROSS.T, _ACROSS * _ACROSS.T, _ACROSS, _ACROSS, _ACROSS**0, _ACROSS.T, _ACROSS * _ACROSS.T)


@dataclass(frozen=True, slots=True)
class Looks:
    """What pictures look like: hashes (pictures, turns), of which the first is of the picture as it is; outlines
    (pictures, 64); which turns these are (0 to 7 in the order of `perceptual_hash`); how many bits may differ."""

    hashes: Hashes
    outlines: Outlines
    turns: tuple[int, ...]
    distance: int

    def apart(self, ones: Rows, others: Rows) -> Distances:
        """The fewest bits by which a turn of the one differs from a turn of the other; shapes as numpy spreads them."""
        pairs = [(one, other) for one in range(len(self.turns)) for other in range(len(self.turns))]
        least: Distances = np.bitwise_count(self.hashes[ones, 0] ^ self.hashes[others, 0])
        for one, other in pairs[1:]:
            np.minimum(least, np.bitwise_count(self.hashes[ones, one] ^ self.hashes[others, other]), out=least)
        return least

    def agree(self, ones: Rows, others: Rows) -> Flags:
        """Whether the outlines agree, in any of the turns."""
        agrees = np.zeros(len(ones), dtype=bool)
        for start in range(0, len(ones), _AT_ONCE):
            # In whole numbers: no machine rounds otherwise.
            one, other = (
                self.outlines[rows[start : start + _AT_ONCE]].astype(np.int64).reshape(-1, 8, 8)
                for rows in (ones, others)
            )
            product = np.max([_products(one, _turned(other, turn)) for turn in self.turns], axis=0)
            squares = _COSINE**2 * _products(one, one) * _products(other, other)
            agrees[start : start + _AT_ONCE] = (product > 0) & (100**2 * product**2 >= squares)
        return agrees

    def near(self, ones: Rows, others: Rows) -> tuple[Rows, Rows]:
        """The pairs (place in ones, place in others), of all there are, that look alike."""
        found = np.nonzero(self.apart(ones[:, None], others) <= self.distance)
        alike = self.agree(ones[found[0]], others[found[1]])
        return found[0][alike], found[1][alike]

    def nearest(self, ones: Rows, others: Rows) -> Rows:
        """For each of the ones how far the nearest of the others is that looks like it, itself apart; -1 for none."""
        found = np.full(len(ones), -1, dtype=np.int64)
        apart = np.where(ones[:, None] == others, np.uint8(255), self.apart(ones[:, None], others))
        left = np.arange(len(ones))
        while left.size:
            closest = apart[left].argmin(axis=1)
            bits = apart[left, closest].astype(np.int64)
            close, alike = bits <= self.distance, self.agree(ones[left], others[closest])
            found[left[close & alike]] = bits[close & alike]
            apart[left, closest] = 255
            left = left[close & ~alike]
        return found


def _products(ones: Whole, others: Whole) -> Whole:
    products: Whole = np.einsum("ijk,ijk->i", ones, others)
    return products


def _turned(outlines: Whole, turn: int) -> Whole:
    turned: Whole = (outlines.transpose(0, 2, 1) if turn % 2 else outlines) * _SIGNS[turn]
    return turned


def join_alike(looks: Looks) -> Rows:
    """The connected components of "look alike": per picture the first one of its component."""
    names = _hash_components(looks)
    order = np.argsort(names, kind="stable")
    starts = np.flatnonzero(np.diff(names[order], prepend=-1))
    lengths = np.diff(starts, append=len(order))
    sets = Components(len(names))
    small = (lengths > 1) & (lengths <= _SMALL)
    _join_small(looks, order[np.repeat(small, lengths)], lengths[small], sets)
    for start, length in zip(starts[lengths > _SMALL], lengths[lengths > _SMALL], strict=True):
        rows = order[start : start + length]
        sets.join_near(rows, partial(_near_in, looks, rows))
    return sets.names()


def _near_in(looks: Looks, rows: Rows, some: Rows) -> tuple[Rows, Rows]:
    return looks.near(rows[some], rows)


def _hash_components(looks: Looks) -> Rows:
    """Components by the hashes alone, any turn of one against any turn of another."""
    count, turns = looks.hashes.shape
    owners: Rows = hash_components(looks.hashes.ravel(), looks.distance) // turns
    if turns == 1:
        return owners
    sets = Components(count)
    sets.join(np.repeat(np.arange(count), turns), owners)
    return sets.names()


def _join_small(looks: Looks, rows: Rows, lengths: Rows, sets: Components) -> None:
    """Compare each picture with the next of its group, the next but one …, in all groups at once."""
    offset = 1
    while len(lengths):
        last = np.cumsum(lengths)
        left = np.repeat(last, lengths) - np.arange(len(rows)) > offset
        ones, others = rows[left], rows[np.flatnonzero(left) + offset]
        near = np.flatnonzero(looks.apart(ones, others) <= looks.distance)
        near = near[looks.agree(ones[near], others[near])]
        sets.join(ones[near], others[near])
        offset += 1
        longer = lengths > offset
        rows, lengths = rows[np.repeat(longer, lengths)], lengths[longer]
