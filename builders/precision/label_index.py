"""Which picture bears which concept, as one row of bits per concept: counting and joining are word operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from builders.precision.annotated import Gallery, Ints
from builders.precision.compatibility import Compatibility

Words = np.ndarray[Any, np.dtype[np.uint64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class LabelIndex:
    """Bit r of row c: picture r answers a query for concept c (`present`), and does so with a box that covers
    more than the area ratio (`prominent`). Both after the closure; the first rows are the labels."""

    present: Words  # concepts x ceil(pictures / 64)
    prominent: Words
    own: Words  # labels only, before the closure
    own_prominent: Words
    pictures: int

    def mix(self, concepts: Sequence[int]) -> Words:
        """The pictures that answer all of the concepts."""
        words: Words = reduce(np.bitwise_and, [self.present[code] for code in concepts])
        return words

    def prominent_mix(self, concepts: Sequence[int]) -> Words:
        """The pictures on which each of the concepts is prominent."""
        words: Words = reduce(np.bitwise_and, [self.prominent[code] for code in concepts])
        return words

    def support(self, concepts: Sequence[int]) -> int:
        """How many pictures answer all of the concepts."""
        return count(self.mix(concepts))


def build_index(gallery: Gallery, labels: int, closed: Compatibility, area_ratio: float) -> LabelIndex:
    """Set the bits. A box is prominent when its share of the picture is strictly over the ratio."""
    pictures = len(gallery.images)
    own = _rows_of_bits(gallery.label, gallery.image, labels, pictures)
    large = gallery.share > area_ratio
    own_prominent = _rows_of_bits(gallery.label[large], gallery.image[large], labels, pictures)
    concepts = range(len(closed.accepts))
    present, prominent = (
        np.stack(
            [reduce(np.bitwise_or, bits[closed.labels(code, labels)], np.zeros_like(bits[0])) for code in concepts]
        )
        for bits in (own, own_prominent)
    )
    return LabelIndex(present, prominent, own, own_prominent, pictures)


def count(words: Words) -> int:
    """How many bits are set."""
    return int(np.bitwise_count(words).sum())


def rows(words: Words) -> Ints:
    """The positions of the set bits, ascending."""
    filled = np.flatnonzero(words)  # most words of a rare mix are empty
    bits = np.unpackbits(words[filled].view(np.uint8), bitorder="little")
    at = np.flatnonzero(bits)
    positions: Ints = filled[at >> 6] * 64 + (at & 63)
    return positions


def bit_at(words: Words, positions: Ints) -> Flags:
    """Per position whether its bit is set."""
    set_: Flags = (words[positions >> 6] >> (positions & 63).astype(np.uint64)) & np.uint64(1) == 1
    return set_


def _rows_of_bits(label: Ints, image: Ints, labels: int, pictures: int) -> Words:
    words = max(1, -(-pictures // 64))
    order = np.argsort(label, kind="stable")
    bounds = np.searchsorted(label[order], np.arange(labels + 1))
    out = np.zeros((labels, words), dtype="<u8")
    for code in range(labels):
        flags = np.zeros(words * 64, dtype=bool)
        flags[image[order[bounds[code] : bounds[code + 1]]]] = True
        out[code] = np.packbits(flags, bitorder="little").view("<u8")
    return out
