"""The images of every concept as rows of bits, and those in which a label is annotated whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from builders.precision.annotated_gallery import AnnotatedGallery, AnnotationFile, Ints, find_id_positions
from builders.precision.compatibility import LabelCompatibility
from querytruth.array_types import AnyArray, BoolArray

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
        """Return the number of images that are relevant to all of the concepts."""
        return count_bits(images_with_all(self.present, concepts))


def build_label_index(
    gallery: AnnotatedGallery, label_count: int, compatibility: LabelCompatibility, area_ratio: float
) -> LabelIndex:
    """Build the index. A box is prominent if its share of the image is strictly over `area_ratio`."""
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
    """Return the images whose bit is set in the rows of all concepts."""
    return reduce(np.bitwise_and, [rows[code] for code in concepts])


def count_bits(bits: BitWords) -> int:
    """Return the number of set bits."""
    return int(np.bitwise_count(bits).sum())


def bit_positions(packed: BitWords) -> Ints:
    """Return the positions of the set bits, ascending."""
    filled = np.flatnonzero(packed)  # most words of a rare mix are zero
    bits = np.unpackbits(packed[filled].view(np.uint8), bitorder="little")
    at = np.flatnonzero(bits.view(bool))  # several times as fast as of numbers
    positions: Ints = filled[at >> 6] * 64 + (at & 63)
    return positions


def test_bits(bits: BitWords, positions: Ints) -> BoolArray:
    """Return per position whether its bit is set."""
    set_: BoolArray = (bits[positions >> 6] >> (positions & 63).astype(np.uint64)) & np.uint64(1) == 1
    return set_


def pack_image_rows(label: Ints, image: Ints, label_count: int, image_count: int) -> BitWords:
    """Return a row of bits per label with the images of its pairs."""
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


@dataclass(frozen=True, slots=True)
class LabelListFile:
    """The lists of a file, as pairs of ids: categories that an image does not show (verified), and categories of which
    some objects have no box. `listed_image`: the images that have the second list, even an empty one."""

    sha256: str
    absent_image: AnyArray
    absent_category: AnyArray
    partial_image: AnyArray
    partial_category: AnyArray
    listed_image: AnyArray


@dataclass(frozen=True, slots=True)
class LabelLists:
    """The lists of a gallery: rows of images by label. `is_listed`: per image whether all labels with boxes that are
    not annotated whole are known."""

    absent: Mapping[int, Ints]
    partial: Mapping[int, Ints]
    is_listed: BoolArray

    def is_absent(self, label: int) -> BoolArray:
        """Return per image whether it was verified that it shows nothing of the label."""
        return self._mark(self.absent, label)

    def is_whole(self, label: int, has_box: BoolArray) -> BoolArray:
        """Return per image whether the boxes of the label are all of its objects. An image that has boxes and is
        listed as having none is unknown."""
        absent = self.is_absent(label)
        return np.where(has_box, self.is_listed & ~self._mark(self.partial, label) & ~absent, absent)

    def find_possible(self, compatibility: LabelCompatibility, label_count: int) -> BitWords:
        """Return by concept, as in LabelIndex, the images that were not verified to show nothing of it."""
        label = np.repeat(np.array([*self.absent], dtype=np.int64), [len(rows) for rows in self.absent.values()])
        image = np.concatenate([np.empty(0, np.int64), *self.absent.values()])
        absent = pack_image_rows(label, image, label_count, len(self.is_listed))
        accepted = [compatibility.accepted_labels(code, label_count) for code in range(len(compatibility.accepts))]
        return ~np.stack([np.bitwise_and.reduce(absent[labels], axis=0) for labels in accepted])

    def _mark(self, rows: Mapping[int, Ints], label: int) -> BoolArray:
        marked = np.zeros(len(self.is_listed), dtype=bool)
        marked[rows.get(label, [])] = True
        return marked


def join_label_lists(
    files: Sequence[AnnotationFile],
    lists: Mapping[str, LabelListFile],
    codes: Sequence[Ints],
    image_rows: Sequence[Ints],
    image_count: int,
) -> LabelLists:
    """Return the lists by label. `lists`: by sha256 of the file; `codes`: per file and category record its label;
    `image_rows`: per file and image record its row."""
    absent, partial = [np.empty((0, 2), np.int64)], [np.empty((0, 2), np.int64)]
    seen, listed = np.zeros(image_count, dtype=np.int64), np.zeros(image_count, dtype=np.int64)
    for file, code, rows in zip(files, codes, image_rows, strict=True):
        one = lists[file.sha256]
        images = file.images["id"].to_numpy()
        np.add.at(seen, rows[rows >= 0], 1)
        of_list = rows[np.isin(np.arange(len(rows)), find_id_positions(one.listed_image, images))]
        np.add.at(listed, of_list[of_list >= 0], 1)
        pairs = _join_pairs(file, one.absent_image, one.absent_category, code, rows)
        # A label that has several categories (spellings) is absent where all of them are.
        distinct, count = np.unique(pairs, axis=0, return_counts=True)
        absent.append(distinct[count == np.bincount(code, minlength=1)[distinct[:, 0]]])
        partial.append(_join_pairs(file, one.partial_image, one.partial_category, code, rows))
    return LabelLists(_group(np.concatenate(absent)), _group(np.concatenate(partial)), (seen > 0) & (seen == listed))


def _join_pairs(file: AnnotationFile, images: AnyArray, categories: AnyArray, code: Ints, rows: Ints) -> Ints:
    """Return the distinct pairs of category record and image row, as label and row (pairs, 2)."""
    image = find_id_positions(images, file.images["id"].to_numpy())
    category = find_id_positions(categories, file.categories["id"].to_numpy())
    row = np.append(rows, -1)[image]
    is_known = (row >= 0) & (category >= 0)
    pairs = np.unique(np.stack([category[is_known], row[is_known]], axis=1).astype(np.int64), axis=0)
    return np.stack([code[pairs[:, 0]], pairs[:, 1]], axis=1)


def _group(pairs: Ints) -> dict[int, Ints]:
    """Return the rows of each label."""
    pairs = np.unique(pairs, axis=0)
    labels, first = np.unique(pairs[:, 0], return_index=True)
    return dict(zip(labels.tolist(), (np.split(pairs[:, 1], first[1:]) if len(labels) else []), strict=True))
