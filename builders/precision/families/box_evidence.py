"""The evidence of boxes for each label, image by image, and the interface of a query family."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from builders.precision import label_index
from builders.precision.annotated_gallery import BoxPlaces, Ints
from builders.precision.attributes import BoxAttributes
from builders.precision.compatibility import LabelCompatibility
from builders.precision.tag_tree import LabelConcept
from querytruth.array_types import BoolArray, FloatArray

Phrases = dict[tuple[str, str], str]  # by language and style; one that has no good phrase is missing


@dataclass(frozen=True, slots=True)
class FamilyRules:
    """`min_images`: relevant images that a query needs; `cap`: most queries of a family (None: no limit); `large` and
    `small`: shares of the image; `margin`: the gap between two boxes, as a share of the image's width or height;
    `all_attributes`: whether a box that lists attributes has no other ones."""

    min_images: int
    cap: int | None
    large: float
    small: float
    margin: float
    seed: int
    all_attributes: bool = False


@dataclass(frozen=True, slots=True)
class FamilyQuestion:
    """A question about labels in their order. `kind`: the family and the question (count/2); `relevant` and `wrong`:
    rows of images, ascending; all other images are unknown or do not matter, and stay unjudged. `why_relevant` and
    `why_wrong`: the evidence, in terms of the names `{0}` and `{1}`. `shown`: the labels that relevant images show."""

    kind: str
    labels: tuple[int, ...]
    relevant: Ints
    wrong: Ints
    why_relevant: str
    why_wrong: str
    shown: tuple[int, ...]
    is_best: BoolArray | None = None  # per relevant image: grade 2; None: where what is shown is prominent


@dataclass(frozen=True, slots=True)
class LabelEvidence:
    """The images (rows, ascending) with boxes of single objects of a label: their number, the share of the largest and
    of the smallest box, and the extreme left, top, right and bottom sides of all boxes."""

    image: Ints
    count: Ints
    largest: FloatArray
    smallest: FloatArray
    first_sides: FloatArray  # (images, 4): the minimum of each side
    last_sides: FloatArray  # (images, 4): the maximum of each side


@dataclass(slots=True)
class BoxWorld:
    """The boxes of a gallery by label. `labels`: those to ask for; `lists`: where they have all of their boxes, None:
    everywhere."""

    places: BoxPlaces
    compatibility: LabelCompatibility
    concepts: tuple[LabelConcept, ...]
    label_count: int
    image_count: int
    labels: list[int]
    attributes: BoxAttributes | None = None
    lists: label_index.LabelLists | None = None
    facts: pd.DataFrame | None = None
    _evidence: dict[int, LabelEvidence] = field(default_factory=dict)
    _has_box: dict[int, BoolArray] = field(default_factory=dict)
    _bounds: tuple[Ints, Ints] | None = None

    def evidence(self, label: int) -> LabelEvidence:
        """Return the evidence of the boxes of the label itself."""
        if label not in self._evidence:
            rows = self.rows(label)
            image, start, count = np.unique(self.places.image[rows], return_index=True, return_counts=True)
            sides = self.places.sides[rows]
            share = (sides[:, 2] - sides[:, 0]) * (sides[:, 3] - sides[:, 1])
            if len(rows):
                folded = [np.maximum.reduceat(share, start), np.minimum.reduceat(share, start)]
                folded += [np.minimum.reduceat(sides, start, axis=0), np.maximum.reduceat(sides, start, axis=0)]
            else:
                folded = [share, share, sides, sides]
            self._evidence[label] = LabelEvidence(image, count, *folded)
        return self._evidence[label]

    def is_certain(self, label: int) -> BoolArray:
        """Return per image whether the boxes of the label are all of its objects: no crowd, no damaged box, nothing of
        another label that accepts it or that it accepts. With lists also: it is listed as absent, or has boxes and is
        not listed as partial."""
        related = [other for other in range(self.label_count) if self.compatibility.are_related(label, other)]
        certain = np.ones(self.image_count, dtype=bool)
        certain[self.places.doubtful_image[np.isin(self.places.doubtful_label, [label, *related])]] = False
        if self.lists is not None:
            certain &= self.lists.is_whole(label, self.has_box(label))
        for other in related:
            if other != label:
                certain &= ~self.has_box(other)
                if self.lists is not None:
                    certain &= self.lists.is_absent(other)
        return certain

    def has_box(self, label: int) -> BoolArray:
        """Return per image whether it has a box of a single object of the label."""
        if label not in self._has_box:
            self._has_box[label] = mark(self.places.image[self.rows(label)], self.image_count)
        return self._has_box[label]

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs of labels, in table order, in which neither accepts the other."""
        for place, one in enumerate(self.labels):
            for other in self.labels[place + 1 :]:
                if not self.compatibility.are_related(one, other):
                    yield one, other

    def rows(self, label: int) -> Ints:
        """Return the boxes of a label (rows of `places`) by image."""
        if self._bounds is None:
            order = np.lexsort((self.places.image, self.places.label))
            self._bounds = order, np.searchsorted(self.places.label[order], np.arange(self.label_count + 1))
        order, bounds = self._bounds
        return order[bounds[label] : bounds[label + 1]]


@dataclass(frozen=True, slots=True)
class QueryFamily:
    """A family: all its questions, and the texts of one."""

    find_questions: Callable[[BoxWorld, FamilyRules], Iterator[FamilyQuestion]]
    phrase: Callable[[str, list[LabelConcept]], Phrases]


def mark(rows: Any, image_count: int) -> BoolArray:
    """Return per image whether it is among the rows."""
    marked = np.zeros(image_count, dtype=bool)
    marked[rows] = True
    return marked
