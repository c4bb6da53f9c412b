"""Which picture bears which concept, as one row of bits per concept: counting and joining are word operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from builders.array_types import BoolArray
from builders.precision.annotated_gallery import AnnotatedGallery, Ints
from builders.precision.compatibility import LabelCompatibility

BitWords = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True, slots=True)
class LabelIndex:
    """Bit r of row c: picture r answers a query for concept c (`present`), and does so with a box that covers
    more than the area ratio (`prominent`). Both after the closure; the first rows are the labels."""

    present: BitWords  # concepts x ceil(pictures / 64)
    prominent: BitWords
    declared: BitWords  # labels only, before the closure
    declared_prominent: BitWords
    image_count: int

    def count_support(self, concepts: Sequence[int]) -> int:
        """How many images answer all of the concepts."""
        return count_bits(images_with_all(self.present, concepts))


def build_label_index(
    gallery: AnnotatedGallery, label_count: int, compatibility: LabelCompatibility, area_ratio: float
) -> LabelIndex:
    """Set the bits. A box is prominent when its share of the picture is strictly over the ratio."""
    image_count = len(gallery.images)
    own = _rows_of_bits(gallery.box_label, gallery.box_image, label_count, image_count)
    large = gallery.box_share > area_ratio
    own_prominent = _rows_of_bits(gallery.box_label[large], gallery.box_image[large], label_count, image_count)
    concepts = range(len(compatibility.accepts))
    present, prominent = (
        np.stack(
            [
                reduce(np.bitwise_or, bits[compatibility.accepted_labels(code, label_count)], np.zeros_like(bits[0]))
                for code in concepts
            ]
        )
        for bits in (own, own_prominent)
    )
    return LabelIndex(present, prominent, own, own_prominent, image_count)


def images_with_all(rows: BitWords, concepts: Sequence[int]) -> BitWords:
    """The images whose bit is set in the row of each of the concepts."""
    bits: BitWords = reduce(np.bitwise_and, [rows[code] for code in concepts])
    return bits


def count_bits(bits: BitWords) -> int:
    """How many bits are set."""
    return int(np.bitwise_count(bits).sum())


def bit_positions(packed: BitWords) -> Ints:
    """The positions of the set bits, ascending."""
    filled = np.flatnonzero(packed)  # most words of a rare mix are empty
    bits = np.unpackbits(packed[filled].view(np.uint8), bitorder="little")
    at = np.flatnonzero(bits)
    positions: Ints = filled[at >> 6] * 64 + (at & 63)
    return positions


def test_bits(bits: BitWords, positions: Ints) -> BoolArray:
    """Per position whether its bit is set."""
    set_: BoolArray = (bits[positions >> 6] >> (positions & 63).astype(np.uint64)) & np.uint64(1) == 1
    return set_


def _rows_of_bits(label: Ints, image: Ints, label_count: int, image_count: int) -> BitWords:
    word_count = max(1, -(-image_count // 64))
    order = np.argsort(label, kind="stable")
    bounds = np.searchsorted(label[order], np.arange(label_count + 1))
    out = np.zeros((label_count, word_count), dtype="<u8")
    for code in range(label_count):
        flags = np.zeros(word_count * 64, dtype=bool)
        flags[image[order[bounds[code] : bounds[code + 1]]]] = True
        out[code] = np.packbits(flags, bitorder="little").view("<u8")
    return out
