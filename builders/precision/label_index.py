"""The images of every concept as a row of bits, so that counts and intersections are word operations."""

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
    """Bit r of row c: image r is relevant to concept c (`present`), with a box over the area ratio (`prominent`). Both
    are after the closure; the first rows are the labels."""

    present: BitWords  # concepts x ceil(images / 64)
    prominent: BitWords
    declared: BitWords  # labels only, before the closure
    declared_prominent: BitWords
    image_count: int

    def count_support(self, concepts: Sequence[int]) -> int:
        """Returns the number of images that are relevant to all of the concepts."""
        return count_bits(images_with_all(self.present, concepts))


def build_label_index(
    gallery: AnnotatedGallery, label_count: int, compatibility: LabelCompatibility, area_ratio: float
) -> LabelIndex:
    """Builds the index. A box is prominent if its share of the image is strictly over `area_ratio`."""
    image_count = len(gallery.images)
    own = pack_image_rows(gallery.box_label, gallery.box_image, label_count, image_count)
    large = gallery.box_share > area_ratio
    own_prominent = pack_image_rows(gallery.box_label[large], gallery.box_image[large], label_count, image_count)
    accepted = [compatibility.accepted_labels(code, label_count) for code in range(len(compatibility.accepts))]
    present, prominent = (
        np.stack([np.bitwise_or.reduce(bits[labels], axis=0) for labels in accepted]) for bits in (own, own_prominent)
    )
    return LabelIndex(present, prominent, own, own_prominent, image_count)


def images_with_all(rows: BitWords, concepts: Sequence[int]) -> BitWords:
    """Returns the images whose bit is set in the rows of all concepts."""
    return reduce(np.bitwise_and, [rows[code] for code in concepts])


def count_bits(bits: BitWords) -> int:
    """Returns the number of set bits."""
    return int(np.bitwise_count(bits).sum())


def bit_positions(packed: BitWords) -> Ints:
    """Returns the positions of the set bits, ascending."""
    filled = np.flatnonzero(packed)  # most words of a rare mix are zero
    bits = np.unpackbits(packed[filled].view(np.uint8), bitorder="little")
    at = np.flatnonzero(bits.view(bool))  # several times as fast as of numbers
    positions: Ints = filled[at >> 6] * 64 + (at & 63)
    return positions


def test_bits(bits: BitWords, positions: Ints) -> BoolArray:
    """Returns per position whether its bit is set."""
    set_: BoolArray = (bits[positions >> 6] >> (positions & 63).astype(np.uint64)) & np.uint64(1) == 1
    return set_


def pack_image_rows(label: Ints, image: Ints, label_count: int, image_count: int) -> BitWords:
    """Returns a row of bits per label with the images of its pairs."""
    word_count = max(1, -(-image_count // 64))
    if label_count <= 1 << 16:
        label = label.astype(np.uint16)  # sorts several times as fast
    order = np.argsort(label, kind="stable")
    bounds = np.searchsorted(label[order], np.arange(label_count + 1))
    out = np.zeros((label_count, word_count), dtype="<u8")
    for code in range(label_count):
        flags = np.zeros(word_count * 64, dtype=bool)
        flags[image[order[bounds[code] : bounds[code + 1]]]] = True
        out[code] = np.packbits(flags, bitorder="little").view("<u8")
    return out
