"""Which labels are annotated whole in which images, as annotations like those of LVIS state image by image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from builders.array_types import AnyArray, BoolArray
from builders.precision.annotated_gallery import AnnotationFile, Ints, find_id_positions
from builders.precision.compatibility import LabelCompatibility
from builders.precision.label_index import BitWords, pack_image_rows


@dataclass(frozen=True, slots=True)
class LabelListFile:
    """The lists of a file, as pairs of ids: categories of which an image shows nothing (verified), and categories of
    which some objects have no box. `listed_image`: the images that have the second list, even an empty one."""

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
        """Returns per image whether it was verified that it shows nothing of the label."""
        return self._mark(self.absent, label)

    def is_whole(self, label: int, has_box: BoolArray) -> BoolArray:
        """Returns per image whether the boxes of the label are all of its objects. An image that has boxes and is
        listed as having none is unknown."""
        absent = self.is_absent(label)
        known: BoolArray = np.where(has_box, self.is_listed & ~self._mark(self.partial, label) & ~absent, absent)
        return known

    def find_possible(self, compatibility: LabelCompatibility, label_count: int) -> BitWords:
        """Returns by concept, as in LabelIndex, the images that were not verified to show nothing of it."""
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
    """Returns the lists by label. `lists`: by sha256 of the file; `codes`: per file and category record its label;
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
    """Returns the distinct pairs of category record and image row, as label and row (pairs, 2)."""
    image = find_id_positions(images, file.images["id"].to_numpy())
    category = find_id_positions(categories, file.categories["id"].to_numpy())
    row = np.append(rows, -1)[image]
    is_known = (row >= 0) & (category >= 0)
    pairs = np.unique(np.stack([category[is_known], row[is_known]], axis=1).astype(np.int64), axis=0)
    return np.stack([code[pairs[:, 0]], pairs[:, 1]], axis=1)


def _group(pairs: Ints) -> dict[int, Ints]:
    """Returns the rows of each label."""
    pairs = np.unique(pairs, axis=0)
    labels, first = np.unique(pairs[:, 0], return_index=True)
    rows = np.split(pairs[:, 1], first[1:]) if len(labels) else []
    return dict(zip(labels.tolist(), rows, strict=True))
